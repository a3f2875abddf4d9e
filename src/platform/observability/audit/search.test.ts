import { describe, expect, it } from "vitest";
import { type Cursor, searchLines } from "./search.ts";

/** A bucket in memory that counts its calls; lists in ascending order, as R2 does. */
class MemoryBucket {
  readonly objects = new Map<string, string>();
  gets = 0;
  listings = 0;

  async list({ prefix = "", startAfter = "", limit = 1_000, delimiter }: R2ListOptions) {
    this.listings++;
    const keys = [...this.objects.keys()].filter((key) => key.startsWith(prefix)).sort();
    if (delimiter) {
      const folders = keys.flatMap((key) => {
        const end = key.indexOf(delimiter, prefix.length);
        return end === -1 ? [] : [key.slice(0, end + 1)];
      });
      return { objects: [], delimitedPrefixes: [...new Set(folders)], truncated: false };
    }
    const after = keys.filter((key) => key > startAfter);
    const objects = after.slice(0, limit).map((key) => ({ key, size: this.objects.get(key)?.length ?? 0 }));
    return { objects, delimitedPrefixes: [], truncated: after.length > limit };
  }

  async get(key: string) {
    this.gets++;
    const text = this.objects.get(key);
    return text === undefined ? null : { text: async () => text };
  }

  keep(time: number, suffix = 0): void {
    const [day, hour] = new Date(time).toISOString().split(/[T:]/);
    const id = time.toString(16).padStart(12, "0");
    const key = `${day}/${hour}/${id.slice(0, 8)}-${id.slice(8)}-7000-8000-${suffix.toString(16).padStart(12, "0")}.jsonl`;
    this.objects.set(key, `${JSON.stringify({ kind: "action", time, suffix })}\n`);
  }
}

const START = Date.parse("2026-03-04T05:00:00Z");
const nothing = { text: "", kind: "", before: null, limit: 1_000 };

async function searchAll(bucket: MemoryBucket, query = nothing) {
  const lines: Readonly<Record<string, unknown>>[] = [];
  let cursor: Cursor | null = null;
  let calls = 0;
  do {
    const found = await searchLines(bucket as unknown as R2Bucket, { ...query, cursor });
    lines.push(...found.lines);
    cursor = found.next;
    calls++;
  } while (cursor !== null && calls < 1_000);
  return { lines, calls };
}

describe("searchLines", () => {
  it("returns every line once, newest first, of an hour with 5,000 objects", async () => {
    const bucket = new MemoryBucket();
    for (let at = 0; at < 5_000; at++) bucket.keep(START + at * 700);
    const { lines, calls } = await searchAll(bucket);
    expect(lines.map(({ time }) => time)).toEqual(Array.from({ length: 5_000 }, (_, at) => START + (4_999 - at) * 700));
    // 300 objects a call, read once but for the last ones of a call.
    expect(calls).toBe(17);
    expect(bucket.gets).toBeLessThan(5_100);
    expect(bucket.listings).toBeLessThan(300);
  });

  it("returns every line once of one second with more objects than a listing holds", async () => {
    const bucket = new MemoryBucket();
    for (let at = 0; at < 2_500; at++) bucket.keep(START + 1_800_000, at);
    const { lines } = await searchAll(bucket);
    expect(lines.map(({ suffix }) => suffix)).toEqual(Array.from({ length: 2_500 }, (_, at) => 2_499 - at));
  });

  it("stops after 100 listings and continues there, in a year of hours without a match", async () => {
    const bucket = new MemoryBucket();
    const hours = Array.from({ length: 400 }, (_, at) => START + at * 22 * 3_600_000);
    for (const time of hours) bucket.keep(time);
    const { lines, calls } = await searchAll(bucket);
    expect(lines.map(({ time }) => time)).toEqual(hours.toReversed());
    expect(calls).toBeGreaterThan(3);
  });
});
