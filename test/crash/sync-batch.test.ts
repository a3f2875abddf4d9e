import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, expect, it, vi } from "vitest";
import type { StoredObject } from "../../src/platform/durable/stored-object.ts";
import { part } from "../support/long.ts";
import { del, mountKv, put } from "../workers/client.ts";
import { clock } from "../workers/clock.ts";
import { byItself } from "../workers/clock-and-alarms.ts";
import { objectIds } from "../workers/created-objects.ts";
import { association, makeDestination, removeWithoutWaiting, setWithoutWaiting } from "../workers/sync-helpers.ts";
import { RemotePlace } from "../workers/sync-places.ts";
import { both, cut, insist } from "./crash-point.ts";
import { randomFrom } from "./random.ts";

/** Tasks performed as one: after kills at any point, lost answers and refusals, no object is lost, stale or doubled. */
clock.moves = true;

const AT = "edge-worker/d";
const STEPS = 25;
const SECRETS = ["app", "team", "other", "last"];

let uuid = "";
let place: RemotePlace;

beforeEach(async () => {
  place = await RemotePlace.open("edge-worker");
  ({ uuid } = await mountKv());
  await makeDestination("edge-worker", "d", {
    ...place.body,
    secret_name_template: "{{ .SecretPath | uppercase }}_{{ .SecretKey | uppercase }}",
  });
});

/** Ends an object where it stands; the next call finds it restarted. */
async function kill(namespace: DurableObjectNamespace<StoredObject>, random: () => number): Promise<void> {
  const ids = objectIds(namespace);
  const id = ids[Math.floor(random() * ids.length)];
  if (!id) return;
  await runInDurableObject(namespace.get(id), (_object, state) => state.abort("killed")).catch(() => undefined);
}

it.each(part([1, 2, 3, 4, 5, 6]))(
  "converges to the desired state after random changes, faults and crashes of batches (seed %i)",
  async (seed) => {
    const random = randomFrom(seed);
    const pick = <T>(all: readonly T[]): T => all[Math.floor(random() * all.length)] as T;
    const associated = new Set<string>();
    /** The data of living secrets. */
    const data = new Map<string, Record<string, string>>();
    let counter = 0;

    const writeSome = async () => {
      const secret = pick(SECRETS);
      const keys = ["a", "b", "c"].filter(() => random() < 0.7);
      const written = Object.fromEntries((keys.length > 0 ? keys : ["z"]).map((key) => [key, `value ${++counter}`]));
      await insist(() => put(`/v1/kv/data/${secret}`, { data: written }));
      data.set(secret, written);
    };
    const acts: (() => Promise<unknown>)[] = [
      writeSome,
      writeSome,
      async () => {
        const secret = pick(SECRETS);
        const answer = await insist(() => setWithoutWaiting(AT, secret));
        if (answer.status === 200) associated.add(secret);
      },
      async () => {
        const secret = pick(SECRETS);
        await insist(() => removeWithoutWaiting(AT, secret));
        associated.delete(secret);
      },
      async () => {
        const secret = pick(SECRETS);
        await insist(() => del(`/v1/kv/metadata/${secret}`));
        data.delete(secret);
      },
      () => place.fail(pick(["lost", "cut", "unavailable"]), 1),
      () => kill(pick([env.KV_STORE, env.SYNC_DESTINATION]) as unknown as DurableObjectNamespace<StoredObject>, random),
      async () => cut(pick([...both("SyncDestination", "poll", "plan"), ...both("KvStore", "newest", "newestOf")])),
      () => scheduler.wait(random() * 600),
    ];
    for (const secret of SECRETS) {
      await insist(() => put(`/v1/kv/data/${secret}`, { data: { a: "first" } }));
      data.set(secret, { a: "first" });
      await insist(() => setWithoutWaiting(AT, secret));
      associated.add(secret);
    }
    for (let step = 0; step < STEPS; step++) await pick(acts)();
    vi.restoreAllMocks();
    const wanted = () =>
      Object.fromEntries(
        [...data].flatMap(([secret, all]) =>
          associated.has(secret)
            ? Object.entries(all).map(([key, value]) => [`${secret}_${key}`.toUpperCase(), value])
            : [],
        ),
      );
    await byItself({ mounts: [uuid], destinations: [AT] }, async () => {
      expect(await place.values()).toEqual(wanted());
      for (const secret of associated) {
        expect((await association(AT, secret))?.sync_status, secret).toMatch(/^(SYNCED|UNSYNCED)$/);
      }
    });
    // And it stays so.
    await byItself({ mounts: [uuid], destinations: [AT] }, async () => undefined);
    expect(await place.values()).toEqual(wanted());
  },
  60_000,
);
