import { expect, it } from "vitest";
import type { NotificationRequest } from "../../contracts/notification.ts";
import type { StreamAnswer } from "../../contracts/stream-rights.ts";
import { Notifier, type Sink } from "./notifier.ts";

const REQUEST: NotificationRequest = {
  accessor: "a",
  namespace: "",
  pattern: "*",
  namespaces: [],
  filter: "",
  format: "json",
  from: -1,
};
const YES: StreamAnswer = { allowed: true, scope: { namespaces: null, rules: null, paths: null }, expires: null };

/** A subscriber at line 10, whose rights are gone when they are asked for again. */
async function subscribed() {
  const answers: StreamAnswer[] = [YES, { allowed: false }];
  const asked: number[] = [];
  const ask = async () => [answers[asked.push(1) - 1] ?? { allowed: false }];
  const notifier = new Notifier(
    { lines: () => Promise.reject(new Error("no line is missing")) },
    ask,
    () => 60_000,
    () => {},
  );
  const closed: string[] = [];
  const sink: Sink = { waiting: 0, send: () => {}, close: (_code, reason) => closed.push(reason), keep: () => {} };
  const permission = await notifier.admit(REQUEST, 10);
  notifier.add(REQUEST, permission, 10, sink);
  return { notifier, asked, closed };
}

const page = (after: number, upTo: number) => ({ after, upTo, evicted: 0, lines: [] });

it("rights are asked for again after lines that were not told of: one may have been a revocation", async () => {
  const { notifier, asked, closed } = await subscribed();
  notifier.lines(page(12, 13));
  await expect.poll(() => closed).toEqual(["permission denied"]);
  expect(asked).toHaveLength(2);
});

it("rights are not asked for again after lines that follow each other", async () => {
  const { notifier, asked, closed } = await subscribed();
  for (const after of [10, 11, 12]) notifier.lines(page(after, after + 1));
  await new Promise((resolve) => setTimeout(resolve, 20));
  expect([asked.length, closed]).toEqual([1, []]);
});
