import type { DestinationKey } from "../contracts/destination.ts";
import { destinationName } from "../contracts/destination.ts";
import { kvStore, syncControl, syncDestination } from "../contracts/stubs.ts";
import { ok, type Result, refuse } from "../lib/result.ts";
import { settings } from "../platform/settings.ts";
import { noSuchApp } from "./apps.ts";
import type { SecretRef, Trouble } from "./association.ts";
import { typeOf } from "./definition.ts";
import type {
  CallContext,
  Inspection,
  KnownObject,
  RemoteDestinationType,
  UpdatePolicy,
} from "./destinations/destination-type.ts";
import { secretKeyValues } from "./payload.ts";
import { appAccess, gateLeaseFor } from "./perform.ts";
import type { InspectSetup, Keyless, KeysOf, ObjectRecord, PlannedObject } from "./preview.ts";
import { contextOf } from "./task.ts";

/** Looking at a provider without changing anything: previews, drift, and whether a connection works at all. */

const INSPECT_MS = 15_000;
const INSPECTIONS_AT_ONCE = 4;
/** Looks begun later than this are left to the next page. */
const PAGE_MS = 20_000;
/** Objects that a preview looks up; of the others it says what our own records say. */
const PREVIEW_INSPECTIONS = 50;
/** Secrets whose keys a preview reads at a time. */
const READS_AT_ONCE = 6;

interface Inspector {
  readonly type: RemoteDestinationType<unknown>;
  readonly connection: unknown;
  readonly context: () => CallContext;
}

/** What looking takes; null for a destination that is our own storage. */
async function inspectorFor(env: Env, setup: InspectSetup): Promise<{ look: Inspector | null } | { trouble: Trouble }> {
  const type = typeOf(setup.type);
  if (!type || type.kind === "stored") return { look: null };
  const means = { settings: settings(env), permit: gateLeaseFor(env).holds, apps: appAccess(env) };
  const context = await contextOf(means, setup, type);
  if ("trouble" in context) return context;
  return { look: { type, connection: setup.connection, context: () => context.make(INSPECT_MS) } };
}

const inspector =
  ({ type, connection, context }: Inspector) =>
  (object: KnownObject): Promise<Inspection> =>
    type.inspect(object, connection, context());

export interface Verification {
  readonly ok: boolean;
  readonly error_code?: string;
  /** One sentence for people. */
  readonly message: string;
}

/** Tries the credentials and the target of a destination. */
export async function verify(env: Env, key: DestinationKey): Promise<Result<Verification>> {
  const destination = syncDestination(env, destinationName(key));
  const setup = await destination.setup();
  if (!setup.ok) return setup;
  const inspector_ = await inspectorFor(env, setup.value);
  if ("trouble" in inspector_) return ok(verificationOf(inspector_.trouble));
  if (!inspector_.look)
    return ok({ ok: true, message: "The destination keeps its objects itself; there is nothing to try." });
  const { type, connection, context } = inspector_.look;
  const sample = await destination.sampleName();
  const probed = await type.probe(connection, context(), sample ?? undefined);
  return ok(
    probed.outcome === "ok"
      ? { ok: true, message: "The credentials are accepted and the target can be reached." }
      : verificationOf(probed),
  );
}

const verificationOf = ({ code, message }: Trouble): Verification => ({ ok: false, error_code: code, message });

export interface Drift {
  readonly external_name: string;
  readonly state: "in_sync" | "changed" | "missing" | "unexpected" | "pending" | "present" | "unreadable";
  readonly owned?: boolean;
  readonly error_code?: string;
  readonly error_message?: string;
}

/** Compares recorded objects with what the provider shows. @returns by association key, in order; the first ones, if time runs out */
export async function drift(
  env: Env,
  key: DestinationKey,
  records: readonly ObjectRecord[],
): Promise<Result<[string, Drift][]>> {
  const setup = await syncDestination(env, destinationName(key)).setup();
  if (!setup.ok) return setup;
  const inspector_ = await inspectorFor(env, setup.value);
  const compare = async (record: ObjectRecord): Promise<Drift> => {
    const { name, reference } = record;
    if (record.version === undefined) return { external_name: name, state: "pending" };
    if ("trouble" in inspector_) return driftOf(record, inspector_.trouble);
    // Our own storage and our own records are one.
    if (!inspector_.look) return { external_name: name, state: "in_sync" };
    return driftOf(record, await inspector(inspector_.look)({ name, reference }));
  };
  const end = Date.now() + PAGE_MS;
  return ok(
    await inParallel(
      records,
      INSPECTIONS_AT_ONCE,
      async (record): Promise<[string, Drift]> => [record.key, await compare(record)],
      () => Date.now() < end,
    ),
  );
}

function driftOf(record: ObjectRecord, seen: Inspection | Trouble): Drift {
  const base = { external_name: record.name };
  if (seen.outcome !== "ok") {
    return { ...base, state: "unreadable", error_code: seen.code, error_message: seen.message };
  }
  const owned = seen.owned === null ? {} : { owned: seen.owned };
  if (record.version === null) {
    return seen.state === "absent" ? { ...base, state: "in_sync" } : { ...base, state: "unexpected", ...owned };
  }
  if (seen.state === "absent") return { ...base, state: "missing" };
  const state = seen.state === "unchanged" ? "in_sync" : seen.state;
  return { ...base, state, ...owned };
}

/** An object of a plan, with what is there now. */
export interface InspectedObject extends PlannedObject {
  readonly outside?: "absent" | "ours" | "foreign" | "present" | "unreadable";
}

/** What setting a secret would do, given what is at the provider. */
export async function previewSet(
  env: Env,
  key: DestinationKey,
  secret: SecretRef,
  keys: readonly string[],
): Promise<Result<InspectedObject[]>> {
  const object = syncDestination(env, destinationName(key));
  const planned = await object.previewSet(secret, keys);
  if (!planned.ok) return planned;
  const setup = await object.setup();
  return setup.ok ? ok(await seen(env, setup.value, planned.value)) : setup;
}

export interface ConfigurationPreview {
  readonly planned: readonly InspectedObject[];
  readonly warnings: readonly string[];
  readonly next: string | null;
}

/** What a configuration would do to the associations once they are set again, given what is at the provider: one page of them. */
export async function previewConfiguration(
  env: Env,
  key: DestinationKey,
  body: Readonly<Record<string, unknown>>,
  { mode, after }: { readonly mode: "write" | "patch"; readonly after: string },
): Promise<Result<ConfigurationPreview>> {
  const object = syncDestination(env, destinationName(key));
  const first = await object.previewConfigure(key, body, mode, { after, keys: null });
  if (!first.ok) return first;
  const app = typeOf(key.type)?.appOf?.(first.value.setup.connection) ?? null;
  if (app !== null && !(await syncControl(env).app(key.namespace, app)).ok) return refuse("invalid", noSuchApp(app));
  const { keyless } = first.value;
  const page =
    keyless.length === 0
      ? first
      : await object.previewConfigure(key, body, mode, { after, keys: await keysOf(env, keyless) });
  if (!page.ok) return page;
  const { planned, warnings, next, setup } = page.value;
  return ok({ planned: await seen(env, setup, planned), warnings, next });
}

async function keysOf(env: Env, keyless: readonly Keyless[]): Promise<KeysOf> {
  const read = await inParallel(keyless, READS_AT_ONCE, async ({ id, mountUuid, secretName }) => {
    const newest = await kvStore(env, mountUuid).newest(secretName);
    if (!newest.ok || !newest.value) return [id, null] as const;
    const parts = secretKeyValues(newest.value.data);
    return [id, parts.ok ? parts.values.map((part) => part.key) : []] as const;
  });
  return Object.fromEntries(read);
}

/** Completes a plan with what is at the provider: creating may turn out to be overwriting, or refused by the policy. */
async function seen(env: Env, setup: InspectSetup, planned: readonly PlannedObject[]): Promise<InspectedObject[]> {
  const inspector_ = await inspectorFor(env, setup);
  const look = "trouble" in inspector_ ? async () => inspector_.trouble : inspector_.look && inspector(inspector_.look);
  if (!look) return [...planned];
  const looked = await inParallel(
    planned.slice(0, PREVIEW_INSPECTIONS),
    INSPECTIONS_AT_ONCE,
    async (copy): Promise<InspectedObject> => {
      if (copy.action === "refuse") return copy;
      const found = await look({ name: copy.external_name, reference: null });
      if (found.outcome !== "ok") return { ...copy, outside: "unreadable", reason: found.message };
      const outside =
        found.state === "absent" ? "absent" : found.owned === null ? "present" : found.owned ? "ours" : "foreign";
      return { ...copy, ...judged(copy.action, setup.updatePolicy, outside), outside };
    },
  );
  return [...looked, ...planned.slice(PREVIEW_INSPECTIONS)];
}

type Judgement = Partial<Pick<PlannedObject, "action" | "reason">>;

/** What a policy makes of a plan, given what is there. */
function judged(
  action: PlannedObject["action"],
  policy: UpdatePolicy,
  outside: "absent" | "ours" | "foreign" | "present",
): Judgement {
  if (action === "delete") {
    const spared = policy !== "replace" && outside === "foreign";
    return spared ? { action: "retain", reason: "it does not carry our marker, and update_policy leaves it" } : {};
  }
  if (action !== "create" && action !== "update") return {};
  if (outside === "absent") {
    return action === "update" ? { action: "create", reason: "it is recorded, but it is not there" } : {};
  }
  if (policy === "if-not-exists") {
    return { action: "retain", reason: "it is there already, and update_policy if-not-exists leaves it" };
  }
  // Where a provider has no markers, our own record tells whose it is.
  const isOurs = outside === "ours" || (outside === "present" && action === "update");
  if (policy === "owned-only" && !isOurs) {
    return { action: "refuse", reason: "it is there already and does not carry our marker" };
  }
  return action === "create" ? { action: "update", reason: "it is there already and would be overwritten" } : {};
}

/** @param goesOn asked before each item; once it says no, none is begun any more */
async function inParallel<T, U>(
  items: readonly T[],
  atOnce: number,
  work: (item: T) => Promise<U>,
  goesOn = () => true,
): Promise<U[]> {
  const results: U[] = [];
  let next = 0;
  const worker = async () => {
    while (next < items.length && goesOn()) {
      const index = next++;
      results[index] = await work(items[index] as T);
    }
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
  return results;
}
