import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, expect, it, vi } from "vitest";
import type { StoredObject } from "../../src/platform/durable/stored-object.ts";
import { del, get, mountKv, patch, put } from "../workers/client.ts";
import { clock } from "../workers/clock.ts";
import { byItself } from "../workers/clock-and-alarms.ts";
import { objectIds } from "../workers/created-objects.ts";
import { cloudA } from "../workers/sync-cloud-a.ts";
import { openDeployProject, type ProviderAccount } from "../workers/sync-doubles.ts";
import {
  association,
  cloudABody,
  makeDestination,
  removeWithoutWaiting,
  setAssociation,
} from "../workers/sync-helpers.ts";
import { attempt, both, cut, insist } from "./crash-point.ts";
import { randomFrom } from "./random.ts";

/** After any order of operations, failures and crashes, the providers converge to the state of the sources. */
clock.moves = true;

const STEPS = 40;
const SECRETS = ["app", "team/app", "other"];
const WHOLE = "cloud-a-sm/whole";
const SPREAD = "cloud-a-sm/spread";
const PROJECT = "deploy-project/p";
const destinations = [WHOLE, SPREAD, PROJECT];

let mount = { accessor: "", uuid: "" };
let project: ProviderAccount;

beforeEach(async () => {
  await cloudA.begin();
  project = await openDeployProject();
  mount = await mountKv();
  const named = (template: string) => cloudABody({ secret_name_template: template });
  await makeDestination("cloud-a-sm", "whole", named("whole/{{ .SecretPath }}"));
  await makeDestination("cloud-a-sm", "spread", {
    ...named("spread/{{ .SecretPath }}/{{ .SecretKey }}"),
    granularity: "secret-key",
  });
  const naming = { granularity: "secret-key", secret_name_template: "{{ .SecretPath }}_{{ .SecretKey }}" };
  await makeDestination("deploy-project", "p", { ...project.body, ...naming });
});

/** The newest version that lives: a deleted one makes room for the one before it. */
async function newest(secret: string): Promise<Record<string, string> | undefined> {
  const { status, body } = await get(`/v1/kv/metadata/${secret}`);
  if (status !== 200) return undefined;
  const versions = Object.entries<{ deletion_time: string }>(body.data.versions);
  const [version] = versions.findLast(([, { deletion_time }]) => deletion_time === "") ?? [];
  return version && (await get(`/v1/kv/data/${secret}?version=${version}`)).body.data.data;
}

/** The expected objects of each destination, from the sources as read through the API. */
async function wanted(associated: ReadonlySet<string>) {
  const cloud: Record<string, string> = {};
  const variables: Record<string, string> = {};
  for (const secret of SECRETS) {
    const data = await newest(secret);
    if (!data) continue;
    if (associated.has(`${WHOLE} ${secret}`)) cloud[`whole/${secret}`] = JSON.stringify(data);
    for (const [key, value] of Object.entries(data)) {
      if (associated.has(`${SPREAD} ${secret}`)) cloud[`spread/${secret}/${key}`] = value;
      if (associated.has(`${PROJECT} ${secret}`)) variables[`${secret.replace("/", "_")}_${key}`] = value;
    }
  }
  return { cloud, variables };
}

async function found() {
  const cloud = Object.fromEntries((await cloudA.secrets()).map(({ name, value }) => [name, value]));
  return { cloud, variables: await project.values() };
}

/** Ends an object where it stands; the next call finds it restarted. */
async function kill(namespace: DurableObjectNamespace<StoredObject>, random: () => number): Promise<void> {
  const ids = objectIds(namespace);
  const id = ids[Math.floor(random() * ids.length)];
  if (!id) return;
  await runInDurableObject(namespace.get(id), (_object, state) => state.abort("killed")).catch(() => undefined);
}

it.each([1, 2, 3, 4, 5, 6])(
  "converges to the desired state after random writes, deletes, associations, faults, pauses and crashes (seed %i)",
  async (seed) => {
    const random = randomFrom(seed);
    const pick = <T>(all: readonly T[]): T => all[Math.floor(random() * all.length)] as T;
    const associated = new Set<string>();
    let counter = 0;
    let paused = false;

    const writeSome = async () => {
      const keys = ["a", "b", "c"].filter(() => random() < 0.6);
      const data = Object.fromEntries((keys.length > 0 ? keys : ["z"]).map((key) => [key, `value ${++counter}`]));
      await attempt(put(`/v1/kv/data/${pick(SECRETS)}`, { data }));
    };
    const setSome = async () => {
      const [at, secret] = [pick(destinations), pick(SECRETS)];
      const answer = await insist(() => setAssociation(at, secret));
      if (answer.status === 200) associated.add(`${at} ${secret}`);
      // One whose source is gone is not pushed, but one that is there already stays.
      else expect(answer.text).toContain("secret not found");
    };
    const acts: (() => Promise<unknown>)[] = [
      writeSome,
      writeSome,
      writeSome,
      setSome,
      setSome,
      async () => {
        const [at, secret] = [pick(destinations), pick(SECRETS)];
        await insist(() => removeWithoutWaiting(at, secret));
        associated.delete(`${at} ${secret}`);
      },
      () => attempt(del(`/v1/kv/data/${pick(SECRETS)}`)),
      async () => {
        paused = !paused;
        await insist(() => patch("/sys/sync/config", { disabled: paused }));
      },
      async () => {
        const fault = pick(["drop", "apply-then-drop", "delay"]);
        await pick([cloudA.fault, project.fault])({ fault, ms: Math.round(random() * 300) } as never);
      },
      async () => {
        const raw = { fault: "raw", status: pick([500, 502, 429, 200]), body: "<html>" };
        await pick([cloudA.fault, project.fault])(raw as never);
      },
      () =>
        kill(
          pick([env.KV_STORE, env.SYNC_DESTINATION, env.SYNC_CONTROL]) as DurableObjectNamespace<StoredObject>,
          random,
        ),
      async () => {
        cut(
          pick([
            ...both("SyncDestination", "poll", "plan", "changed"),
            ...both("SyncControl", "share", "mayRun"),
            ...both("KvStore", "newest", "watch"),
          ]),
        );
      },
      () => scheduler.wait(random() * 200),
    ];
    await writeSome();
    for (let step = 0; step < STEPS; step++) {
      // Now and then two at once.
      const now = random() < 0.3 ? [pick(acts), writeSome] : [pick(acts)];
      await Promise.all(now.map((act) => act()));
    }
    vi.restoreAllMocks();
    await insist(() => patch("/sys/sync/config", { disabled: false }));
    await byItself({ mounts: [mount.uuid], destinations }, async () => {
      expect(await found()).toEqual(await wanted(associated));
      for (const each of associated) {
        const [at = "", secret = ""] = each.split(" ");
        expect((await association(at, secret))?.sync_status, each).toMatch(/^(SYNCED|UNSYNCED)$/);
      }
    });
    // And it stays so.
    await byItself({ mounts: [mount.uuid], destinations }, async () => undefined);
    expect(await found()).toEqual(await wanted(associated));
  },
  60_000,
);
