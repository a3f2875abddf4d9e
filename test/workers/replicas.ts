import { env, exports } from "cloudflare:workers";
import { vi } from "vitest";
import { settings } from "../../src/platform/settings.ts";
import { AccessControl, KvStore, ReadReplica } from "../../src/worker.ts";
import type { Answer } from "./client.ts";

/** Callers in two places, with a replica each. */
export const PLACES = {
  weur: { continent: "EU", longitude: "2" },
  sam: { continent: "SA", longitude: "-46" },
} as const;
export type Place = keyof typeof PLACES;

/** From now on each place has this many replicas; 0 = Workers ask owners, and cache their authorizations. */
export const throughReplicas = (shards: number) => Object.assign(settings(env), { READ_REPLICAS: shards });

/** One read by a caller at a place. */
export const readAt = (place: Place, path: string, token = "root"): Promise<Answer> =>
  sendAt(place, "GET", path, token);

/** One request of a caller at a place. */
export async function sendAt(
  place: Place,
  method: string,
  path: string,
  token = "root",
  body?: object,
): Promise<Answer> {
  const type = method === "PATCH" ? "application/merge-patch+json" : "application/json";
  const headers = { "X-Orch-Token": token, "Content-Type": type };
  const init = { method, headers, cf: PLACES[place], ...(body && { body: JSON.stringify(body) }) } as RequestInit;
  const response = await exports.default.fetch(`https://x${path}`, init);
  const text = await response.text();
  let answered: unknown;
  try {
    answered = JSON.parse(text);
  } catch {
    answered = undefined;
  }
  return { status: response.status, headers: response.headers, text, body: answered };
}

export const replicaAt = (place: Place) => env.READ_REPLICA.getByName(`${place}-0`) as DurableObjectStub<ReadReplica>;

/** Counts the questions of replicas to owners, and the authorizations that Workers ask `AccessControl` for. */
export function questions() {
  const asked = {
    grants: vi.spyOn(AccessControl.prototype, "authorizeFor"),
    secrets: vi.spyOn(KvStore.prototype, "readFor"),
    direct: [vi.spyOn(AccessControl.prototype, "authorize"), vi.spyOn(KvStore.prototype, "read")],
  };
  return {
    /** Questions about grants, about secrets, and calls that went past the replicas, since the last look. */
    take(): [grants: number, secrets: number, direct: number] {
      const counts: [number, number, number] = [
        asked.grants.mock.calls.length,
        asked.secrets.mock.calls.length,
        asked.direct.reduce((sum, { mock }) => sum + mock.calls.length, 0),
      ];
      for (const spy of [asked.grants, asked.secrets, ...asked.direct]) spy.mockClear();
      return counts;
    },
  };
}

/** The value of a secret as a place sees it, or the status of a refusal. */
export async function valueAt(place: Place, path: string, token = "root"): Promise<number> {
  const { status, body } = await readAt(place, path, token);
  return status === 200 ? (body.data.data ?? body.data).v : status;
}

type Invalidate = (this: { ctx: DurableObjectState }, ...given: unknown[]) => Promise<string> | string;

const { prototype } = ReadReplica as unknown as { prototype: { invalidate: Invalidate } };
const { invalidate } = prototype;

/** Puts a step before each invalidation that a place receives, until mocks are restored. */
export const beforeInvalidation = (steps: Partial<Record<Place, () => Promise<void> | void>>) =>
  vi.spyOn(prototype, "invalidate").mockImplementation(async function (this: ThisParameterType<Invalidate>, ...given) {
    await steps[this.ctx.id.name?.split("-")[0] as Place]?.();
    return invalidate.apply(this, given);
  });

export const cutOff = (): Promise<never> => Promise.reject(new Error("cut off"));
