import { evictDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import { amount, walkLength } from "../support/long.ts";
import { del, get, mountKv, put } from "../workers/client.ts";
import {
  eventually,
  makeDestination,
  objects,
  removeWithoutWaiting,
  setWithoutWaiting,
  write,
} from "../workers/sync-helpers.ts";
import { RemotePlace } from "../workers/sync-places.ts";
import { randomFrom } from "./random.ts";
import { type ModelLimits, RuleModel } from "./rule-model.ts";

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
  { body: { match_all: true }, matches: () => true },
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

/** `free`: changes follow each other at once. `limited`: rules rest and have limits, so each change is awaited. */
describe.each([
  ["in-mem", "free"],
  ["cloud-a-ps", "free"],
  ["in-mem", "limited"],
  ["cloud-a-ps", "limited"],
] as const)("the objects of a destination of type %s, with rules that are %s", (type, kind) => {
  const D = `${type}/d`;
  const AT = `/v1/sys/sync/destinations/${D}`;
  const seeds = Array.from({ length: amount(kind === "free" ? 2 : 1, 50) }, (_, index) => index + 1);

  it.each(seeds)("are those that rules and requests want (seed %i)", { timeout: 0 }, async (seed) => {
    const place = type === "in-mem" ? null : await RemotePlace.open(type);
    await makeDestination(type, "d", place?.body);
    await place?.write("of_another_hand", FOREIGN);
    const random = randomFrom(seed);
    const below = (bound: number): number => Math.floor(random() * bound);
    const pick = <T>(list: readonly T[]): T => list[below(list.length)] as T;
    const model = new RuleModel(NAMES);
    let versions = 0;
    let faultsEnd = 0;

    /** All rules show the status and the counts of the model. */
    const settled = () =>
      eventually(async () => {
        for (const name of NAMES) {
          const read = await get(`${AT}/rules/${name}`);
          const { status, progress } = read.body.data ?? {};
          expect([name, read.status === 404 ? null : { status, progress }]).toEqual([name, model.view(name)]);
        }
      });
    const holdsWhatIsWanted = () =>
      eventually(async () => {
        const held = Object.entries(place ? await place.values() : await objects("d"));
        const wanted = model
          .wanted()
          .filter(({ value, isCertain }) => isCertain || held.some(([, one]) => one === value));
        const values = [...wanted.map(({ value }) => value), ...(place ? [FOREIGN] : [])];
        expect(held.map(([, value]) => value).sort()).toEqual(values.sort());
        for (const { value, namedBy } of wanted) {
          const name = held.find((object) => object[1] === value)?.[0] ?? "";
          expect([value, namedBy]).toEqual([
            value,
            expect.arrayContaining([/^\/?of-(one|two)\//.exec(name)?.[1] ?? "manual"]),
          ]);
        }
      });
    const limits = (): ModelLimits => ({
      priority: pick([50, 100, 150]),
      maxSecrets: kind === "free" ? 1_000 : pick([1, 2, 3, 1_000]),
      maxRemovals: kind === "free" ? 1_000 : pick([0, 1, 2, 1_000]),
      paused: kind !== "free" && below(4) === 0,
    });

    /** Weights by which secrets and rules of two origins are common. */
    const weighted: readonly (readonly [weight: number, step: () => Promise<unknown>])[] = [
      [
        4,
        async () => {
          const path = pick(PATHS);
          const data = { of: path, version: ++versions };
          await write(path, data);
          model.secrets.set(path, { value: JSON.stringify(data), mode: model.secrets.get(path)?.mode ?? "" });
        },
      ],
      [
        2,
        async () => {
          const path = pick(PATHS);
          const secret = model.secrets.get(path);
          if (!secret) return;
          secret.mode = pick(["prod", "test"]);
          await put(`/v1/kv/metadata/${path}`, { custom_metadata: { env: secret.mode } });
        },
      ],
      [
        1,
        async () => {
          const path = pick(PATHS);
          await del(`/v1/kv/metadata/${path}`);
          model.secrets.delete(path);
        },
      ],
      [
        4,
        async () => {
          const [name, given, another] = [pick(NAMES), limits(), pick(RULES)];
          const former = RULES.find(({ matches }) => matches === model.rules.get(name)?.matches);
          const { body, matches } = (below(2) === 0 && former) || another;
          const { priority, maxSecrets: max_secrets, maxRemovals: max_removals, paused } = given;
          const naming = { name_template: `/of-${name}/{{ .SecretPath }}` };
          const rule = { mount: "kv", ...naming, ...body, priority, max_secrets, max_removals, paused };
          const answer = await put(`${AT}/rules/${name}`, rule);
          // A rule whose deletion is under way cannot be written.
          if (answer.status === 200) model.put(name, matches, given);
          else expect(answer.status, answer.text).toBe(409);
        },
      ],
      [
        1,
        async () => {
          const name = pick(NAMES);
          await del(`${AT}/rules/${name}`);
          model.rules.delete(name);
        },
      ],
      [
        1,
        async () => {
          const path = pick(PATHS);
          if (!model.secrets.has(path)) return;
          expect((await setWithoutWaiting(D, path)).status).toBe(200);
          model.manual.add(path);
        },
      ],
      [
        2,
        async () => {
          const path = pick(PATHS);
          await removeWithoutWaiting(D, path);
          model.manual.delete(path);
        },
      ],
      [
        1,
        async () => {
          const [fault, times] = [pick(FAULTS), 1 + below(2)];
          const writes = (await place?.writes()) ?? 0;
          // Those before have ended: more would outlast the last check by the back-off of each.
          if (writes < faultsEnd) return;
          faultsEnd = writes + times;
          await place?.fail(fault, times);
        },
      ],
      [1, () => evicted(env.SYNC_DESTINATION.getByName(D))],
      [1, () => evicted(env.KV_STORE.getByName(mount))],
      [
        2,
        async () => {
          const name = pick(NAMES);
          if (kind === "free" || !model.rules.has(name)) return;
          const { plan_id = "pl_of_another_rule" } = (await get(`${AT}/rules/${name}`)).body.data;
          const waits = model.rules.get(name)?.status === "confirmation_required";
          const confirmed = await put(`${AT}/rules/${name}/confirm`, { plan_id });
          expect([confirmed.status, waits], confirmed.text).toEqual([waits ? 200 : 409, waits]);
          if (waits) model.confirm(name);
        },
      ],
    ];
    const steps = weighted.flatMap(([weight, step]) => Array.from({ length: weight }, () => step));
    for (let step = 0; step < walkLength(40, 200); step++) {
      await pick(steps)();
      model.compare();
      if (kind === "free") continue;
      await settled();
      await holdsWhatIsWanted();
    }
    await holdsWhatIsWanted();
  });
});
