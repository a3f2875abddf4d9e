import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, vi } from "vitest";
import { type Answer, get, put, send } from "./client.ts";
import { evictObject } from "./evict-all.ts";
import { cloudA } from "./sync-cloud-a.ts";

/** A complete body for a cloud-a-sm destination at the double. */
export const cloudABody = (changes: Record<string, unknown> = {}): Record<string, unknown> => ({
  access_key_id: cloudA.key().accessKeyId,
  secret_access_key: cloudA.key().secretAccessKey,
  region: "eu-west-1",
  ...changes,
});

export async function makeDestination(type: string, name: string, body?: Record<string, unknown>): Promise<Answer> {
  const made = await put(`/sys/sync/destinations/${type}/${name}`, body ?? (type === "in-mem" ? {} : cloudABody()));
  expect(made.status, made.text).toBe(200);
  return made;
}

/** Ends the quarter of an hour in which refusals of fresh rights are retried, and the destination's object. */
export async function endFreshRights(destination: string): Promise<void> {
  const object = () => env.SYNC_DESTINATION.getByName(destination) as DurableObjectStub;
  await runInDurableObject(object(), (_, { storage }) => {
    storage.sql.exec("UPDATE destination SET rights_changed = rights_changed - 900000");
  });
  await evictObject(object());
}

/** The service answers a set or a removal after two seconds, whether or not the provider has it by then. */
const ANSWERED_MS = 1_900;

type Act = "set" | "remove";

const changeAssociation = (act: Act, destination: string, secret: string, mount: string): Promise<Answer> =>
  send("POST", `/sys/sync/destinations/${destination}/associations/${act}`, { mount, secret_name: secret });

/** Changes an association. When the push outlasts that time on a busy machine, the answer has the states after it. */
async function changeAndWait(act: Act, destination: string, secret: string, mount: string): Promise<Answer> {
  const began = performance.now();
  const answer = await changeAssociation(act, destination, secret, mount);
  if (performance.now() - began < ANSWERED_MS || !answer.body?.data?.sync_operation_counters?.PENDING) return answer;
  const before: Record<string, object> = answer.body.data.associated_secrets;
  const keys = Object.keys(before);
  let after: Record<string, { sync_status: string }> = answer.body.data.associated_secrets;
  // A removed association is listed no longer.
  const stateOf = (key: string) =>
    after[key] ?? (act === "remove" ? { ...before[key], sync_status: "UNSYNCED" } : { sync_status: "PENDING" });
  await eventually(async () => {
    after = (await get(`/sys/sync/destinations/${destination}/associations`)).body.data.associated_secrets;
    for (const key of keys) expect(stateOf(key).sync_status).not.toBe("PENDING");
  }).catch(() => undefined);
  const states = keys.map((key) => [key, stateOf(key)] as const);
  const grouped = Map.groupBy(states, ([, { sync_status }]) => sync_status);
  const counters = Object.fromEntries([...grouped].map(([state, some]) => [state, some.length]));
  const data = {
    ...answer.body.data,
    associated_secrets: Object.fromEntries(states),
    sync_operation_counters: counters,
  };
  return { ...answer, body: { ...answer.body, data } };
}

export const setAssociation = (destination: string, secret: string, mount = "kv"): Promise<Answer> =>
  changeAndWait("set", destination, secret, mount);

export const removeAssociation = (destination: string, secret: string, mount = "kv"): Promise<Answer> =>
  changeAndWait("remove", destination, secret, mount);

/** Sets an association, and returns the service's own answer: for pushes that a test delays. */
export const setWithoutWaiting = (destination: string, secret: string, mount = "kv"): Promise<Answer> =>
  changeAssociation("set", destination, secret, mount);

/** Removes an association, and returns the service's own answer: for removals that a test delays. */
export const removeWithoutWaiting = (destination: string, secret: string, mount = "kv"): Promise<Answer> =>
  changeAssociation("remove", destination, secret, mount);

export const write = async (secret: string, data: Record<string, unknown>): Promise<void> => {
  const written = await put(`/v1/kv/data/${secret}`, { data });
  expect(written.status, written.text).toBe(200);
};

/** One association as the API shows it, or undefined. */
export async function association(destination: string, secret: string) {
  const { body } = await get(`/sys/sync/destinations/${destination}/associations`);
  const entries: Record<string, { secret_name: string }> = body.data.associated_secrets;
  return Object.values(entries).find((entry) => entry.secret_name === secret) as
    | undefined
    | (Record<string, unknown> & { sync_status: string });
}

/** An entry of a destination's associations, as the API shows it. */
export interface View {
  readonly secret_name: string;
  readonly sub_key?: string;
  readonly external_name: string;
  readonly sync_status: string;
  readonly synced_version?: number;
  readonly error_code?: string;
  readonly error_message?: string;
}

export async function viewsAt(destination: string): Promise<View[]> {
  const { body } = await get(`/sys/sync/destinations/${destination}/associations`);
  return Object.values(body.data.associated_secrets);
}

/** The objects of an in-mem destination, name to value. */
export async function objects(name: string): Promise<Record<string, string>> {
  const { body } = await get(`/sys/sync/destinations/in-mem/${name}/objects`);
  const all: Record<string, { value: string }> = body.data.objects;
  return Object.fromEntries(Object.entries(all).map(([key, { value }]) => [key, value]));
}

export const eventually = (check: () => Promise<void> | void, timeout = 45_000) =>
  vi.waitFor(check, { timeout, interval: 50 });
