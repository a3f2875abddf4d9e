import { expect, it, vi } from "vitest";
import { Feed, type FeedReaders, type FeedSource } from "./feed.ts";

it("a gap in the feed makes readers fetch pages instead of skipping lines", async () => {
  const arrived = vi.fn();
  const chunks = ["3\t\t[]\n", "5\t\t[]\n"];
  const source: FeedSource = {
    bounds: async () => ({ oldest: 1, newest: 2 }),
    follow: async () =>
      new ReadableStream({
        type: "bytes",
        // One chunk a read: the second begins behind a gap.
        pull: (controller) => {
          const chunk = chunks.shift();
          if (chunk) controller.enqueue(new TextEncoder().encode(chunk));
          else return new Promise(() => undefined);
        },
      }),
    lines: async () => ({ lines: [], upTo: 0, evicted: 0 }),
  };
  const readers: FeedReaders = {
    hasReaders: () => true,
    onLines: arrived,
    timeouts: () => ({ idleMs: 60_000, silentMs: 60_000 }),
  };
  const feed = new Feed(source, readers);
  await feed.join();
  await vi.waitFor(() => expect(arrived).toHaveBeenCalledTimes(2));
  expect(feed.newest()).toBe(5);
  expect([...(feed.after(4)?.lines ?? [])].map(({ index }) => index)).toEqual([5]);
  expect(feed.after(2), "line 4 may exist").toBeNull();
});
