import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, expect, it, vi } from "vitest";
import { LeaseTable } from "../../src/read-leases/lease-table.ts";
import { kvStore } from "../../src/rpc/stubs.ts";
import { randomFrom } from "../crash/random.ts";
import { type Operation, verdictOn } from "../support/linearizability.ts";
import { amount, PROPERTY } from "../support/long.ts";
import type { Answer } from "./client.ts";
import { mountKv } from "./client.ts";
import { clock } from "./clock.ts";
import { PLACES, type Place, replicaAt, sendAt } from "./replicas.ts";

/*
 * Random histories of secrets whose writes arrive together: callers at two places write and read through their replicas,
 * others call the store, and stores and replicas are killed. The history of each secret is linearizable.
 */

clock.moves = true;

afterEach(() => void vi.restoreAllMocks());

const places = Object.keys(PLACES) as Place[];
const KEYS = ["a", "b", "c"] as const;
const RIGHTS = { create: true, update: true };
const CALLERS = 8;
const OPERATIONS = 18;
const MORE_SEEDS = 10;

interface History {
  /** The verdicts on the secrets. */
  readonly verdicts: readonly string[];
  readonly operations: number;
  readonly kills: number;
  /** Writes in a commit with others. */
  readonly together: number;
}

async function runHistory(seed: number): Promise<History> {
  const random = randomFrom(seed);
  const pick = <T>(items: readonly T[]): T => items[Math.floor(random() * items.length)] as T;
  const mount = `kv${seed}`;
  const { uuid } = await mountKv(mount);
  const histories = new Map<string, Operation[]>(KEYS.map((key) => [key, []]));
  let [time, written, kills, together] = [0, 0, 0, 0];
  const changes = vi.spyOn(LeaseTable.prototype, "change");

  const read = async (key: string, place: Place): Promise<number | null> => {
    if (random() < 0.25) {
      const found = await kvStore(env, uuid).read(key, 0);
      return found.ok && found.state === "lives" ? JSON.parse(found.data).v : 0;
    }
    return shownBy(await sendAt(place, "GET", `/v1/${mount}/data/${key}`));
  };
  const write = async (key: string, place: Place, v: number): Promise<boolean> => {
    if (v === 0) return (await sendAt(place, "DELETE", `/v1/${mount}/data/${key}`)).status < 300;
    if (random() < 0.5) return (await kvStore(env, uuid).put(key, JSON.stringify({ v }), null, RIGHTS)).ok;
    return (await sendAt(place, "PUT", `/v1/${mount}/data/${key}`, "root", { data: { v } })).status === 200;
  };
  const operate = async (key: string, place: Place, isWrite: boolean): Promise<void> => {
    const history = histories.get(key) ?? [];
    const call = ++time;
    if (!isWrite) {
      const value = await read(key, place).catch(() => null);
      if (value !== null) history.push({ kind: "read", value, call, end: ++time });
      return;
    }
    written += 1;
    const value = random() < 0.15 ? 0 : written;
    const operation = { kind: "write" as const, value, call, end: Number.POSITIVE_INFINITY };
    history.push(operation);
    // A write that was cut may have happened.
    if (await write(key, place, value).catch(() => false)) operation.end = ++time;
  };
  const kill = async (): Promise<void> => {
    kills += 1;
    const target = random() < 0.6 ? env.KV_STORE.getByName(uuid) : replicaAt(pick(places));
    await runInDurableObject(target as DurableObjectStub, (_object, state) => state.abort("killed")).catch(() => null);
  };
  const caller = async (place: Place): Promise<void> => {
    for (let count = 0; count < OPERATIONS; count++) {
      await operate(pick(KEYS), place, random() < 0.4);
      if (random() < 0.03) await kill();
      if (random() < 0.5) await scheduler.wait(random() * 4);
    }
  };
  await Promise.all(Array.from({ length: CALLERS }, (_, at) => caller(places[at % places.length] as Place)));
  for (const { length } of changes.mock.calls.map(([keys]) => keys ?? [])) if (length > 1) together += length;
  changes.mockRestore();
  return {
    verdicts: [...histories.values()].map((history) => verdictOn(history, 0)),
    operations: [...histories.values()].reduce((sum, { length }) => sum + length, 0),
    kills,
    together,
  };
}

/** The value that a read shows, 0 for none; null for an answer without one. */
function shownBy({ status, body }: Answer): number | null {
  if (status === 404) return 0;
  return status === 200 ? body.data.data.v : null;
}

it("of secrets under kills are linearizable", PROPERTY, async () => {
  const total = { operations: 0, kills: 0, together: 0 };
  const [seeds, kills] = [amount(1, 75), amount(0, 300)];
  // On a slow machine a single history may have no writes that arrive together.
  const isTried = () => total.kills > kills && total.together > 0;
  for (let seed = 1; seed <= seeds || (seed <= seeds + MORE_SEEDS && !isTried()); seed++) {
    const history = await runHistory(seed);
    expect(history.verdicts, `seed ${seed}`).toEqual(KEYS.map(() => "linearizable"));
    total.operations += history.operations;
    total.kills += history.kills;
    total.together += history.together;
  }
  // Otherwise nothing was tried.
  expect(total.operations).toBeGreaterThan(amount(100, 7_500));
  expect(isTried(), JSON.stringify(total)).toBe(true);
});
