import { expect, it, vi } from "vitest";
import { Feed, type FeedReaders, type FeedSource } from "./feed.ts";

it.each<[string, string[]]>([
  ["between two chunks", ["3\t\t[]\n", "5\t\t[]\n"]],
  ["within a chunk", ["3\t\t[]\n5\t\t[]\n"]],
])("a gap in the feed %s makes readers fetch pages instead of skipping lines", async (_where, chunks) => {
  const arrived = vi.fn();
  const count = chunks.length;
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
  await vi.waitFor(() => expect(arrived).toHaveBeenCalledTimes(count));
  expect(arrived).toHaveBeenLastCalledWith(expect.anything(), true);
  expect(feed.newest()).toBe(5);
  expect([...(feed.after(4)?.lines ?? [])].map(({ index }) => index)).toEqual([5]);
  expect(feed.after(2), "line 4 may exist").toBeNull();
});
