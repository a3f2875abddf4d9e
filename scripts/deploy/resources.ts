import { Refusal } from "../settings.ts";
import { type CloudflareApi, CloudflareError, type Found } from "./cloudflare-api.ts";
import type { DeploymentState, Kind } from "./state.ts";

/**
 * Makes and deletes the resources of a deployment, each at most once: the name is recorded before the call, and a
 * resource of a recorded name is adopted, because its random suffix is of this deployment only.
 */

type Stored = Exclude<Kind, "worker">;

export interface Need {
  readonly kind: Stored;
  readonly name: string;
  /** Of a secret. */
  readonly value?: string;
}

interface Kinds {
  readonly label: string;
  list(api: CloudflareApi, state: DeploymentState): Promise<Found[]>;
  make(api: CloudflareApi, state: DeploymentState, need: Need): Promise<Found>;
  remove(api: CloudflareApi, state: DeploymentState, id: string): Promise<unknown>;
}

const KINDS: Readonly<Record<Stored, Kinds>> = {
  d1: {
    label: "D1 database",
    list: (api) => api.databases(),
    make: (api, { place }, { name }) => api.createDatabase(name, place),
    remove: (api, _state, id) => api.deleteDatabase(id),
  },
  queue: {
    label: "queue",
    list: (api) => api.queues(),
    make: (api, { place }, { name }) => api.createQueue(name, place),
    remove: (api, _state, id) => api.deleteQueue(id),
  },
  r2: {
    label: "R2 bucket",
    list: (api, { place }) => api.buckets(place.jurisdiction),
    make: (api, { place }, { name }) => api.createBucket(name, place),
    remove: (api, { place }, id) => api.deleteBucket(id, place.jurisdiction),
  },
  // The store belongs to the account: it is made where there is none, and never deleted.
  secret: {
    label: "stored secret",
    list: async (api) => {
      const store = await api.secretsStore();
      return store === null ? [] : api.storedSecrets(store);
    },
    make: async (api, _state, { name, value = "" }) =>
      api.createStoredSecret((await api.secretsStore()) ?? (await api.createSecretsStore()), name, value),
    remove: async (api, _state, id) => api.deleteStoredSecret((await api.secretsStore()) ?? "", id),
  },
};

export const labelOf = (kind: Kind): string => (kind === "worker" ? "Worker" : KINDS[kind].label);

/** The names of all resources beside the Worker, in the order of their creation. */
export function needs(name: string, suffix: string, withAudit: boolean): Need[] {
  const named = (kind: Stored, what: string): Need => ({ kind, name: `${name}-${what}-${suffix}` });
  return [
    named("d1", "listings"),
    // The consumer of the first names the second.
    named("queue", "sync-work-dead"),
    named("queue", "sync-work"),
    named("r2", "files"),
    ...(withAudit ? [named("r2", "audit")] : []),
  ];
}

/** Returns the resource's id, after making it where it is missing. @throws CloudflareError */
export async function ensure(
  api: CloudflareApi,
  state: DeploymentState,
  need: Need,
  say: (line: string) => void,
): Promise<string> {
  const { kind, name } = need;
  const { label, list, make } = KINDS[kind];
  const recorded = state.find(kind, name);
  const there = (await list(api, state)).find((each) => each.name === name);
  if (there !== undefined) {
    if (recorded?.id != null && recorded.id !== there.id)
      throw new Refusal(`The ${label} ${name} has another id than the recorded one: it was replaced elsewhere.`);
    if (recorded === undefined)
      throw new Refusal(`The ${label} ${name} exists and is not recorded here: it belongs to another deployment.`);
    say(recorded.id === null ? `adopts the ${label} ${name}, made by the run before` : `has the ${label} ${name}`);
    if (recorded.id === null) state.made(kind, name, there.id);
    return there.id;
  }
  if (recorded?.id != null) {
    say(`misses the ${label} ${name}, which was deleted elsewhere`);
    state.forget(kind, name);
  }
  if (state.find(kind, name) === undefined) state.intend(kind, name);
  const made = await make(api, state, need).catch((failure: unknown) => {
    // A definite refusal has made nothing; after a lost answer the next run looks for the name.
    if (failure instanceof CloudflareError && failure.status >= 400 && failure.status < 500) state.forget(kind, name);
    throw failure;
  });
  state.made(kind, name, made.id);
  say(`made the ${label} ${name}`);
  return made.id;
}

/** Deletes a recorded resource, if it is still the one that was made. @throws CloudflareError */
export async function remove(
  api: CloudflareApi,
  state: DeploymentState,
  { kind, name }: Need,
  say: (line: string) => void,
): Promise<void> {
  const { label, list, remove: deletion } = KINDS[kind];
  const recorded = state.find(kind, name);
  if (recorded === undefined) return;
  const there = (await list(api, state)).find((each) => each.name === name);
  if (there !== undefined && recorded.id !== null && recorded.id !== there.id)
    throw new Refusal(`The ${label} ${name} has another id than the recorded one, and stays.`);
  if (there !== undefined) await deletion(api, state, there.id);
  state.forget(kind, name);
  say(there === undefined ? `the ${label} ${name} is gone already` : `deleted the ${label} ${name}`);
}
