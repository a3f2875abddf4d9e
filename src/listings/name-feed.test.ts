import { expect, it } from "vitest";
import type { ObjectContext } from "../platform/durable/object-context.ts";
import type { OutboxRow } from "../platform/durable/outbox-delivery.ts";
import { NameFeed } from "./name-feed.ts";

interface Call {
  readonly paths: readonly string[];
  readonly answer: PromiseWithResolvers<void>;
}

/** A feed of the names of an object, with its outbox rows and its calls of D1, which the test answers. */
function world() {
  const rows: OutboxRow[] = [];
  const calls: Call[] = [];
  let seq = 0;
  const LISTINGS = {
    prepare: () => ({ bind: (_owner: string, list: string) => JSON.parse(list) as [string, string, string][] }),
    batch: (lists: [string, string, string][][]) => {
      const answer = Promise.withResolvers<void>();
      calls.push({ paths: lists.flat().map(([, path]) => path), answer });
      return answer.promise;
    },
  };
  const outbox = {
    enlist: (_topic: string, _lane: string, body: unknown) => {
      rows.push({ seq: ++seq, body: JSON.stringify(body) });
      return seq;
    },
    drain: async () => undefined,
  };
  const object = { env: { LISTINGS }, name: "mount", outbox, commit: (change: () => unknown) => change() };
  const feed = new NameFeed(object as unknown as ObjectContext, {
    page: () => [],
    existing: (names) => new Set(names),
  });
  /** Begins a delivery of all rows, as the outbox does. */
  const deliver = () => feed.deliver("", [...rows]);
  return { feed, rows, calls, deliver };
}

it("loses no name by a call that hangs, and fails after the next attempt", async () => {
  const { feed, rows, calls, deliver } = world();
  feed.changed("a");
  const hanging = deliver();
  feed.changed("b");
  const next = deliver();
  expect(calls.map(({ paths }) => paths)).toEqual([["a"], ["a", "b"]]);
  calls[1]?.answer.resolve();
  (await next)();
  rows.length = 0;
  calls[0]?.answer.reject(new Error("late"));
  await expect(hanging).rejects.toThrow("late");
  expect(rows).toHaveLength(1);
  const again = deliver();
  expect(calls[2]?.paths).toEqual(["a"]);
  calls[2]?.answer.resolve();
  (await again)();
  rows.length = 0;
  feed.changed("c");
  expect(rows).toHaveLength(1);
  void deliver();
  expect(calls[3]?.paths).toEqual(["c"]);
});

it("sends names again when the transaction that deletes their row is rolled back", async () => {
  const { feed, calls, deliver } = world();
  feed.changed("a");
  const sent = deliver();
  calls[0]?.answer.resolve();
  (await sent)();
  feed.forgetRows();
  void deliver();
  expect(calls[1]?.paths).toEqual(["a"]);
});
