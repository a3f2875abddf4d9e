import { evictDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import { amount } from "../support/long.ts";
import { del, mountKv, put } from "../workers/client.ts";
import {
  eventually,
  makeDestination,
  objects,
  removeAssociation,
  setWithoutWaiting,
  write,
} from "../workers/sync-helpers.ts";
import { RemotePlace } from "../workers/sync-places.ts";
import { randomFrom } from "./random.ts";

/** Rules, requests and secrets in random order, with objects that are evicted between, against a naive model. */

const PATHS = ["app/a", "app/b", "app/c/x", "apple", "web/a", "web/b"];
const RULES: readonly { readonly body: object; readonly matches: (path: string, env: string) => boolean }[] = [
  { body: { path_prefix: "app" }, matches: (path) => path.startsWith("app/") },
  { body: { path_glob: ["*/a"] }, matches: (path) => /^[^/]*\/a$/.test(path) },
  {
    body: { path_prefix: "web", metadata_selector: { env: "prod" } },
    matches: (path, mode) => path.startsWith("web/") && mode === "prod",
  },
  { body: { match_all: true, exclude_glob: ["app/**"] }, matches: (path) => !path.startsWith("app/") },
];
const NAMES = ["one", "two"];

/** Stops an object, unless it is not running. */
const evicted = (stub: object): Promise<unknown> =>
  evictDurableObject(stub as DurableObjectStub).catch((failure: Error) => {
    if (!failure.message.includes("not currently running")) throw failure;
  });

/** The value of an object that stays as it is. */
const FOREIGN = "foreign";

/** Faults of a provider that end by themselves. */
const FAULTS = ["throttled", "unavailable", "lost", "cut"] as const;

let mount: string;
beforeEach(async () => {
  mount = (await mountKv()).uuid;
});

describe.each(["in-mem", "cloud-a-ps"])("the objects of a destination of type %s", (type) => {
  const D = `${type}/d`;
  const AT = `/v1/sys/sync/destinations/${D}`;
  const seeds = Array.from({ length: amount(2, 50) }, (_, index) => index + 1);

  it.each(seeds)("are those that rules and requests want (seed %i)", { timeout: 0 }, async (seed) => {
    const place = type === "in-mem" ? null : await RemotePlace.open(type);
    await makeDestination(type, "d", place?.body);
    await place?.write("of_another_hand", FOREIGN);
    const held = async (): Promise<string[]> => {
      const values = place ? await place.values() : await objects("d");
      return Object.values(values).sort();
    };
    const random = randomFrom(seed);
    const below = (bound: number): number => Math.floor(random() * bound);
    const pick = <T>(list: readonly T[]): T => list[below(list.length)] as T;
    /** By path: the newest value, and the mode in the metadata. */
    const secrets = new Map<string, { value: string; mode: string }>();
    let versions = 0;
    const rules = new Map<string, number>();
    const manual = new Set<string>();
    let faultsEnd = 0;
    const steps: (() => Promise<unknown>)[] = [
      async () => {
        const path = pick(PATHS);
        const data = { of: path, version: ++versions };
        await write(path, data);
        secrets.set(path, { value: JSON.stringify(data), mode: secrets.get(path)?.mode ?? "" });
      },
      async () => {
        const path = pick(PATHS);
        const secret = secrets.get(path);
        if (!secret) return;
        secret.mode = pick(["prod", "test"]);
        await put(`/v1/kv/metadata/${path}`, { custom_metadata: { env: secret.mode } });
      },
      async () => {
        const path = pick(PATHS);
        await del(`/v1/kv/metadata/${path}`);
        secrets.delete(path);
      },
      async () => {
        const [name, index] = [pick(NAMES), below(RULES.length)];
        const body = { mount: "kv", max_removals: 1_000, ...RULES[index]?.body };
        const answer = await put(`${AT}/rules/${name}`, body);
        // A rule whose deletion is under way cannot be written.
        if (answer.status === 200) rules.set(name, index);
        else expect(answer.status, answer.text).toBe(409);
      },
      async () => {
        const name = pick(NAMES);
        await del(`${AT}/rules/${name}`);
        rules.delete(name);
      },
      async () => {
        const path = pick(PATHS);
        if (!secrets.has(path)) return;
        expect((await setWithoutWaiting(D, path)).status).toBe(200);
        manual.add(path);
      },
      async () => {
        const path = pick(PATHS);
        await removeAssociation(D, path);
        manual.delete(path);
      },
      async () => {
        const [fault, times] = [pick(FAULTS), 1 + below(2)];
        const writes = (await place?.writes()) ?? 0;
        // Those before have ended: more would outlast the last check by the back-off of each.
        if (writes < faultsEnd) return;
        faultsEnd = writes + times;
        await place?.fail(fault, times);
      },
      () => evicted(env.SYNC_DESTINATION.getByName(D)),
      () => evicted(env.KV_STORE.getByName(mount)),
    ];
    for (let step = 0; step < amount(40, 200); step++) await pick(steps)();
    const wanted = [...secrets].filter(
      ([path, { mode }]) => manual.has(path) || [...rules.values()].some((index) => RULES[index]?.matches(path, mode)),
    );
    await eventually(async () => {
      expect(await held()).toEqual([...wanted.map(([, { value }]) => value), ...(place ? [FOREIGN] : [])].sort());
    });
  });
});
