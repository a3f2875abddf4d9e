import { afterEach, expect, it, vi } from "vitest";
import type { StoredLine } from "../../contracts/event-log.ts";
import type { NotificationRequest } from "../../contracts/notification.ts";
import type { StreamAnswer } from "../../contracts/stream-rights.ts";
import { accessAccount, SERVICE_ACCOUNT } from "../../publishing/event-accounts.ts";
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

/** A subscriber at line 10, whose rights are gone when they are asked for again, or other answers. */
async function subscribed(answers: StreamAnswer[] = [YES, { allowed: false }]) {
  const asked: number[] = [];
  const ask = async () => [answers[asked.push(1) - 1] ?? { allowed: false }];
  const notifier = new Notifier(
    { lines: () => Promise.reject(new Error("no line is missing")) },
    ask,
    () => 60_000,
    () => {},
  );
  const closed: string[] = [];
  const sent: string[] = [];
  const sink: Sink = {
    waiting: 0,
    send: (frame) => sent.push(String(frame)),
    close: (_code, reason) => closed.push(reason),
    keep: () => {},
  };
  const permission = await notifier.admit(REQUEST, 10);
  notifier.add(REQUEST, permission, 10, sink);
  return { notifier, asked, closed, sent };
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

it("rights are asked for again after lines that an account has lost: one may have been a revocation", async () => {
  const { notifier, closed } = await subscribed();
  notifier.lines({ ...page(10, 13), gaps: [{ account: accessAccount("a/"), upTo: 12 }] });
  await expect.poll(() => closed).toEqual(["permission denied"]);
});

it("a gap is told once, by the lines of the accounts that the subscription may select", async () => {
  const { notifier, sent } = await subscribed([YES, YES, YES, YES, YES]);
  const gaps = (service: number) => [
    { account: accessAccount("a/"), upTo: service + 2 },
    { account: SERVICE_ACCOUNT, upTo: service },
  ];
  for (const [after, service] of [
    [10, 15],
    [11, 15],
    [12, 17],
  ] as const) {
    notifier.lines({ ...page(after, after + 1), gaps: gaps(service) });
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  const told = sent.map((frame) => JSON.parse(frame).data.event.metadata);
  expect(told.map(({ from, index }) => [from, index])).toEqual([
    ["11", "15"],
    ["16", "17"],
  ]);
});

/** A line with a notification of about 100 KiB. */
const large = (index: number): StoredLine => {
  const Secret = { Namespace: "", Mount: "kv/", Operation: "data-write", Path: `${index}${"x".repeat(50_000)}` };
  return [index, null, JSON.stringify([{ Topic: "Secret", Type: "t", Key: "k", Index: index, Payload: { Secret } }])];
};

afterEach(() => void vi.useRealTimers());

it("unsent bytes are bounded over all subscribers, of whom the fullest are closed after a while", async () => {
  vi.useFakeTimers();
  const lines = Array.from({ length: 8 }, (_, at) => large(at + 1));
  const notifier = new Notifier(
    { lines: async (cursor) => ({ lines: lines.filter(([index]) => index > cursor), upTo: 8, evicted: 0 }) },
    async (questions) => questions.map(() => YES),
    () => 3_600_000,
    () => {},
  );
  const add = async (takes: boolean) => {
    const seen = { waiting: 0, frames: 0, code: 0 };
    const sink: Sink = {
      get waiting() {
        return seen.waiting;
      },
      send: (frame) => {
        seen.frames += 1;
        if (!takes) seen.waiting += frame.length;
      },
      close: (code) => {
        seen.code = code;
      },
      keep: () => {},
    };
    notifier.add(REQUEST, await notifier.admit(REQUEST, 0), 0, sink);
    return seen;
  };
  const silent = await Promise.all(Array.from({ length: 200 }, () => add(false)));
  const quick = await add(true);
  notifier.lines({ after: 0, lines, upTo: 8, evicted: 0 });
  await vi.advanceTimersByTimeAsync(100);
  // Each is paused between two lines, and the last ones before their first.
  expect(Math.max(...silent.map(({ waiting }) => waiting))).toBeLessThan(400 * 1024);
  const unsent = silent.reduce((sum, { waiting }) => sum + waiting, 0);
  expect([unsent > 31 * 2 ** 20, unsent < 33 * 2 ** 20]).toEqual([true, true]);
  expect([quick.frames, silent.filter(({ code }) => code !== 0).length]).toEqual([0, 0]);
  await vi.advanceTimersByTimeAsync(2_000);
  expect(quick.frames).toBe(8);
  const closed = silent.filter(({ code }) => code === 1013).length;
  expect([closed > 50, closed < 150, notifier.count]).toEqual([true, true, 201 - closed]);
});
