import { env } from "cloudflare:workers";
import { afterAll, afterEach, beforeEach, describe, expect, it } from "vitest";
import { randomFrom } from "../crash/random.ts";
import { del, put } from "./client.ts";
import { between, gate, keysTo, openAt, relay, slowly } from "./relay-helpers.ts";
import { append, appendKeys, closeAll, event, killOnly, state, throughRelays } from "./streams.ts";

/* Relays that lag, each by its own: what rights do, and what readers see across the seam between a relay's memory and the log. */

beforeEach(() => throughRelays(2));
afterEach(closeAll);
afterAll(() => throughRelays(0));

const large = (Key: string, size = 60_000) => [event({ Key, Payload: { Job: { ID: "x".repeat(size) } } })];

interface Token {
  readonly AccessorID: string;
  readonly SecretID: string;
}

async function reader(): Promise<Token> {
  await put("/v1/acl/policy/read", { Rules: 'namespace "default" { capabilities = ["read-job"] }' });
  return (await put("/v1/acl/token", { Name: "r", Type: "client", Policies: ["read"] })).body;
}

/** The keys that a stream still gives until it ends. */
async function toTheEnd(stream: Awaited<ReturnType<typeof openAt>>): Promise<string[]> {
  const keys: string[] = [];
  for (let text = await stream.nextText(); text !== null; text = await stream.nextText()) {
    keys.push(...JSON.parse(text).Events.map(({ Key }: { Key: string }) => Key));
  }
  return keys;
}

describe("a token that loses its rights", () => {
  it("receives nothing after the event of that change, for any lag of its relay", async () => {
    const token = await reader();
    const { feed, close, open } = gate();
    await between(0, { feed });
    const stream = await openAt(0, "?topic=Job", token.SecretID);
    await appendKeys("before");
    expect(await keysTo(stream, "before")).toEqual(["before"]);
    close();
    await appendKeys("meanwhile");
    await del(`/v1/acl/token/${token.AccessorID}`);
    await appendKeys("after");
    await scheduler.wait(100);
    open();
    // Published before the deletion of the token, but delivered here together with it.
    for (const key of await toTheEnd(stream)) expect(key).toBe("meanwhile");
  });

  it("receives nothing more of a backlog that its relay has to fetch", async () => {
    const token = await reader();
    for (let n = 0; n < 100; n++) await append(large(`k${n}`, 100_000));
    const stream = await openAt(0, "?topic=Job", token.SecretID);
    await stream.next();
    await del(`/v1/acl/token/${token.AccessorID}`);
    // Bytes that the runtime has read already are still delivered; the rest is dropped.
    expect((await toTheEnd(stream)).length).toBeLessThan(60);
  });
});

const SEED = Date.now() % 1_000_000;

it(`readers of lagging and crashing relays get their lines once and in order, also when they move to another (seed ${SEED})`, async () => {
  const random = randomFrom(SEED);
  const below = (most: number) => Math.floor(random() * most);
  const LINES = 1_600;
  const keyOf = (index: number) => (index % 2 === 0 ? "even" : "odd");
  /** Two relays, each as slow as it likes. */
  const lag = async () => {
    for (const [number, most] of [
      [0, 3],
      [1, 12],
    ] as const) {
      await between(number, { feed: slowly(() => scheduler.wait(below(most))) });
    }
  };
  await lag();
  const one = async (number: number) => {
    const topic = number % 3 === 0 ? "Job:even" : "Job";
    const first = 1 + below(2) * below(LINES / 2);
    // A stream at an index that was not given out yet begins with new lines.
    const newest = async () => (await state().catch(() => null))?.newest ?? 0;
    while ((await newest()) < first) await scheduler.wait(5);
    let next = first;
    const found: number[] = [];
    // A stream may break at any time: its reader resumes at any relay.
    while (next <= LINES) {
      try {
        const stream = await openAt(below(2), `?topic=${topic}&index=${next}`);
        while (next <= LINES) {
          const { Index, Events } = await stream.next();
          if (Events.length > 0) found.push(Index);
          next = Math.max(next, Index + 1);
          if (random() < 0.02) await scheduler.wait(below(20));
          if (random() < 0.002) break;
        }
        await stream.close();
      } catch {
        await scheduler.wait(20);
      }
    }
    const wanted = (index: number) => topic === "Job" || keyOf(index) === "even";
    const all = Array.from({ length: LINES - first + 1 }, (_, n) => first + n).filter(wanted);
    expect(found, `${SEED} ${number} from ${first}`).toEqual(all);
  };
  const reading = Array.from({ length: 16 }, async (_, number) => {
    await scheduler.wait(below(1_500));
    return one(number);
  });
  for (let at = 1; at <= LINES; at += 20) {
    await append(
      ...Array.from({ length: 20 }, (_, n) => [
        event({ Key: keyOf(at + n), Payload: { Job: { ID: "x".repeat(below(8_000)) } } }),
      ]),
    );
    if (at % 500 === 1) {
      await killOnly(relay(below(2)));
      await lag();
    }
    if (at % 700 === 1) await killOnly(env.EVENT_LOG.getByName("log"));
    await scheduler.wait(below(30));
  }
  await Promise.all(reading);
  expect((await state()).newest).toBe(LINES);
}, 180_000);
