import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import type { FeedPage } from "../../src/contracts/event-log.ts";
import type { Delivery } from "../../src/contracts/event-subscription.ts";
import { EventLog } from "../../src/objects/event-log.ts";
import { eventSubscription } from "../../src/rpc/stubs.ts";
import { appendKeys } from "./streams.ts";
import { command, newHook, subscribe, subscription } from "./webhooks.ts";

/* Two Workers that fill the batch of one subscription: both have read the log before either stores a batch. */

afterEach(() => void vi.restoreAllMocks());

const next = (): Promise<Delivery | null> => eventSubscription(env, "s").next(null, true);
const report = (delivery: Delivery | null, error: string | null) =>
  eventSubscription(env, "s").next({ lease: delivery?.lease ?? "", error, action: "dead", afterMs: 0 }, false);

/** A subscription with waiting lines, while no Worker runs. @returns the index of the last line */
async function waiting(...keys: string[]): Promise<number> {
  await subscribe("s", (await newHook()).url);
  await command("s", "pause");
  const indexes = await appendKeys(...keys);
  await runInDurableObject(env.EVENT_SUBSCRIPTION.getByName("s"), (_object, { storage }) => {
    storage.sql.exec("UPDATE subscription SET paused = NULL");
  });
  return indexes.at(-1) ?? 0;
}

/** Holds the pages that the log answers with, by number of the call from 1 on. */
function holdPages() {
  // Objects call it remotely, so it may be asynchronous.
  const log: { lines(...asked: Parameters<EventLog["lines"]>): FeedPage | Promise<FeedPage> } = EventLog.prototype;
  const read = log.lines;
  let calls = 0;
  let held = 0;
  let released = 0;
  vi.spyOn(log, "lines").mockImplementation(async function (this: EventLog, ...asked) {
    const call = ++calls;
    const page = await read.apply(this, asked);
    held += 1;
    // Polled: a promise of another request would not resume this one.
    while (call > released) await scheduler.wait(5);
    return page;
  });
  return {
    held: () => held,
    /** Releases the pages of the first calls. */
    release: (count: number) => {
      released = count;
    },
  };
}

const keysOf = (delivery: Delivery | null): string[] =>
  delivery === null
    ? []
    : (JSON.parse(delivery.body) as { Lines: { Events: { Key: string }[] }[] }).Lines.flatMap(({ Events }) =>
        Events.map(({ Key }) => Key),
      );

describe("two Workers that fill one batch", () => {
  it("store it once, and one of them delivers it", async () => {
    await waiting("a", "b");
    const pages = holdPages();
    const both = [next(), next()];
    // A Worker of the queue may come third on a busy machine.
    await vi.waitFor(() => expect(pages.held()).toBeGreaterThan(1));
    pages.release(2);
    const [delivery, ...others] = (await Promise.all(both)).filter((each) => each !== null);
    expect([keysOf(delivery ?? null), others]).toEqual([["a", "b"], []]);
    await report(delivery ?? null, "refused");
    expect((await subscription("s")).DeadLetters).toBe(1);
  });

  it("deliver no line twice and lose none when the slower one has read the log before the delivery", async () => {
    const last = await waiting("a", "b");
    const pages = holdPages();
    const both = [next(), next()];
    // A Worker of the queue may come third on a busy machine.
    await vi.waitFor(() => expect(pages.held()).toBeGreaterThan(1));
    pages.release(1);
    const delivery = await Promise.race(both);
    expect(keysOf(delivery)).toEqual(["a", "b"]);
    await report(delivery, null);
    expect((await subscription("s")).DeliveredIndex).toBe(last);
    await appendKeys("c");
    pages.release(Number.POSITIVE_INFINITY);
    const later = (await Promise.all(both)).find((each) => each !== null && each.id !== delivery?.id);
    expect(keysOf(later ?? (await next()))).toEqual(["c"]);
  });
});
