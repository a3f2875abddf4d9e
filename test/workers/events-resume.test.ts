import { afterEach, describe, expect, it } from "vitest";
import type { NewEvent } from "../../src/contracts/event.ts";
import { Line } from "../../src/events/line.ts";
import { numbered } from "../../src/publishing/numbered-events.ts";
import { randomFrom } from "../crash/random.ts";
import { append, closeAll, event, evict, openStream, state, withSettings } from "./streams.ts";

/* Where readers begin and go on, against a model: every line there has been, and which of them may be gone. */

afterEach(closeAll);

const SEED = Date.now() % 1_000_000;
const STEPS = 15;
/** A buffer that is full drops this share more than it must. */
const SHARE = 0.98;

const random = randomFrom(SEED);
const below = (most: number): number => Math.floor(random() * most);
const pick = <T>(items: readonly T[]): T => items[below(items.length)] as T;

const KEYS = ["a", "b", "c"];
/** The last line before a read matches every filter, so that no reader waits for a heartbeat. */
const END = "end";

/** Every line there has been, by index. */
class Model {
  readonly sizes: number[] = [0];
  readonly keys: string[][] = [[]];

  async append(count: number): Promise<void> {
    const lines = Array.from({ length: count }, (_, number) => lineOf(number === count - 1));
    for (const events of lines) {
      const index = this.sizes.length;
      this.sizes.push(Buffer.byteLength(Line.of(index, numbered(events, index)).text));
      this.keys.push(events.flatMap(({ Key, FilterKeys }) => [Key, ...(FilterKeys ?? [])]));
    }
    await append(...lines);
  }

  get newest(): number {
    return this.sizes.length - 1;
  }

  bytes(from: number): number {
    return this.sizes.slice(from).reduce((sum, size) => sum + size, 0);
  }

  /** Indexes from one on of the lines that hold one of the keys; null = all lines. */
  from(first: number, keys: readonly string[] | null): number[] {
    const wanted = (index: number) => keys === null || this.keys[index]?.some((key) => keys.includes(key));
    return this.sizes.flatMap((_, index) => (index >= Math.max(1, first) && wanted(index) ? [index] : []));
  }
}

function lineOf(last: boolean): NewEvent[] {
  const events = Array.from({ length: 1 + below(3) }, () =>
    event({ Key: pick(KEYS), Payload: { Job: { ID: pick(["x", "é"]).repeat(below(200)) } } }),
  );
  return last ? [...events, event({ Key: END })] : events;
}

const queryOf = (keys: readonly string[] | null): string =>
  keys === null ? "" : [...keys, END].map((key) => `&topic=Job:${key}`).join("");

/** The indexes that a reader gets until the newest; cut short after `most` lines. */
async function readFrom(from: number, keys: readonly string[] | null, newest: number, most = Number.POSITIVE_INFINITY) {
  const stream = await openStream(`?index=${from}${queryOf(keys)}`);
  const oldest = Number(stream.response.headers.get("X-Orch-Oldest-Index"));
  const seen: number[] = [];
  while (seen.length < most) {
    const { Index, Events } = await stream.next();
    if (Events.length > 0) seen.push(Index);
    if (Index >= newest) break;
  }
  await stream.close();
  return { oldest, seen };
}

describe("an index", () => {
  // Proves: C.stream.index.too-old, E.limits.event-buffer
  it.each([
    [1, 1_000_000],
    [2, 4_000],
    [7, 1_024],
    [60, 20_000],
    [60, 1_000_000],
    [1_000, 20_000],
  ])(
    "is the start of a stream, or the oldest of at most %i lines and %i bytes; resuming after the last line loses and repeats nothing",
    async (maxLines, maxBytes) => {
      const model = new Model();
      const settings = { EVENT_BUFFER_LINES: String(maxLines), EVENT_BUFFER_BYTES: String(maxBytes) };
      await withSettings(settings);
      for (let step = 0; step < STEPS; step++) {
        await model.append(1 + below(20));
        if (random() < 0.15) {
          await evict();
          await withSettings(settings);
        }
        const context = JSON.stringify({ SEED, step });
        const { newest } = model;
        const held = await state();
        expect(held, context).toMatchObject({
          newest,
          lines: newest - held.oldest + 1,
          bytes: model.bytes(held.oldest),
        });
        // Within its bounds, except that the newest line stays however large, and never emptier than it has to be.
        if (held.lines > 1) {
          expect(held.lines, context).toBeLessThanOrEqual(maxLines);
          expect(held.bytes, context).toBeLessThanOrEqual(maxBytes);
        }
        if (held.oldest > 1) {
          const couldKeep =
            held.lines < Math.floor(maxLines * SHARE) && model.bytes(held.oldest - 1) <= maxBytes * SHARE;
          expect(couldKeep, context).toBe(false);
        }
        const keys = pick([null, null, ["a"], ["b", "c"], ["nobody"]]);
        const from = pick([
          0,
          1,
          below(newest + 1),
          held.oldest - 1,
          held.oldest,
          held.oldest + 1,
          newest,
          below(newest),
        ]);
        const read = await readFrom(Math.max(0, from), keys, newest);
        expect(read.oldest, context).toBe(held.oldest);
        expect(read.seen, `${context} from ${from}`).toEqual(
          model.from(Math.max(from, held.oldest), keys && [...keys, END]),
        );
        // Cut anywhere, and back after more was written, which may have pushed out what it had not read.
        const first = await readFrom(Math.max(0, from), keys, newest, 1 + below(10));
        const last = first.seen.at(-1) ?? 0;
        await model.append(1 + below(10));
        const rest = await readFrom(last + 1, keys, model.newest);
        expect(rest.seen, `${context} after ${last}`).toEqual(
          model.from(Math.max(last + 1, rest.oldest), keys && [...keys, END]),
        );
        for (const live of [-1, model.newest + 1, model.newest + 1 + below(50)]) {
          expect((await readFrom(live, keys, model.newest)).seen, `${context} from ${live}`).toEqual([]);
        }
      }
    },
    60_000,
  );
});
