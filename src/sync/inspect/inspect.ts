import type { DestinationKey } from "../../contracts/destination.ts";
import type { SyncFederation } from "../../contracts/federation.ts";
import type { NewestVersion } from "../../contracts/kv-store.ts";
import type { InspectSetup, Keyless, KeysOf, ObjectRecord } from "../../contracts/sync-destination.ts";
import type { PlannedObject, SecretRef, Setup, Trouble, UpdatePolicy } from "../../contracts/sync-tasks.ts";
import { mapLimit } from "../../lib/map-limit.ts";
import { pick } from "../../lib/pick.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import type { ClientAssertion } from "../../providers/identity-token.ts";
import { destinationName } from "../../rpc/destination-name.ts";
import { kvStore, syncControl, syncDestination } from "../../rpc/stubs.ts";
import { noSuchApp } from "../configuration/apps.ts";
import { typeOf } from "../configuration/definition.ts";
import type { CallContext, Inspection, RemoteDestinationType, ToInspect } from "../destinations/destination-type.ts";
import { isRefusalOfRights, notYetEffective } from "../fresh-rights.ts";
import { identityAccess } from "../worker/identity.ts";
import { type Content, contentsOf, secretKeyValues } from "../worker/payload.ts";
import { callDependencies, gateLeaseFor } from "../worker/perform.ts";
import { contextOf } from "../worker/task.ts";

/**
 * Reads the state at a provider without changing it: `verify` of a connection, `drift` of recorded objects, and
 * `preview` of sets and configurations. Runs in the Worker, called by `routes/`. Costs one provider call per object,
 * four at a time.
 */

const INSPECT_MS = 15_000;
const MAX_CONCURRENT_INSPECTIONS = 4;
/** No inspection begins after this time; the remaining records belong to the next page. */
const PAGE_MS = 20_000;
/** The most objects a preview inspects at the provider; the others are planned from the records alone. */
const PREVIEW_INSPECTIONS = 50;
/** Secrets that a preview reads in parallel. */
const MAX_CONCURRENT_READS = 6;

interface Inspector {
  readonly type: RemoteDestinationType<unknown>;
  readonly connection: unknown;
  readonly context: () => CallContext;
}

/** The inspector of a destination; null for a destination of kind `stored`. */
export async function inspectorFor(
  env: Env,
  setup: InspectSetup,
): Promise<{ value: Inspector | null } | { trouble: Trouble }> {
  const type = typeOf(setup.type);
  if (!type || type.kind === "stored") return { value: null };
  const context = await contextOf(callDependencies(env, gateLeaseFor(env)), setup, type);
  if ("trouble" in context) return context;
  return { value: { type, connection: setup.connection, context: () => context.make(INSPECT_MS) } };
}

const inspectWith =
  ({ type, connection, context }: Inspector) =>
  (object: ToInspect): Promise<Inspection> =>
    type.inspect(object, connection, context());

interface Verification {
  readonly ok: boolean;
  readonly error_code?: string;
  /** One sentence for people. */
  readonly message: string;
  /** Until when the refusal of fresh rights is retried. */
  readonly retried_until?: string;
}

/** Verifies the credentials and the target of a destination. */
export async function verify(env: Env, key: DestinationKey): Promise<Result<Verification>> {
  const destination = syncDestination(env, destinationName(key));
  const setup = await destination.setup();
  if (!setup.ok) return setup;
  const inspector = await inspectorFor(env, setup.value);
  if ("trouble" in inspector) return ok(verificationOf(inspector.trouble, setup.value));
  if (!inspector.value)
    return ok({ ok: true, message: "The destination keeps its objects itself; there is nothing to try." });
  const { type, connection, context } = inspector.value;
  const sample = await destination.sampleName();
  const probed = await type.probe(connection, context(), sample ?? undefined);
  if (probed.outcome === "ok")
    return ok({ ok: true, message: "The credentials are accepted and the target can be reached." });
  const { federation } = setup.value;
  const identity = federation ? await shownIdentity(env, federation) : null;
  const shown = identity ? { ...probed, message: `${probed.message} ${sentenceOf(identity)}` } : probed;
  return ok(verificationOf(shown, setup.value));
}

/** The claims of a destination's identity tokens that its provider must trust. */
type ShownIdentity = Pick<ClientAssertion, "issuer" | "subject" | "audience">;

async function shownIdentity(env: Env, federation: SyncFederation): Promise<ShownIdentity> {
  return pick(await identityAccess(env)(federation), "issuer", "subject", "audience");
}

const sentenceOf = ({ issuer, subject, audience }: ShownIdentity): string =>
  `Its identity tokens have the issuer ${issuer}, the subject ${subject} and the audience ${audience}.`;

/** The identity of a destination that logs in by identity tokens; null for others, and while the service is sealed. */
export async function identityOf(env: Env, key: DestinationKey): Promise<ShownIdentity | null> {
  const setup = await syncDestination(env, destinationName(key)).setup();
  return setup.ok && setup.value.federation ? shownIdentity(env, setup.value.federation) : null;
}

function verificationOf(trouble: Trouble, { freshUntil = 0 }: Setup): Verification {
  const isFresh = freshUntil > Date.now() && isRefusalOfRights(trouble);
  const shown = isFresh ? notYetEffective(trouble.message, freshUntil) : { message: trouble.message };
  return { ok: false, error_code: trouble.code, ...shown };
}

type DriftState =
  | "in_sync"
  | "changed"
  | "missing"
  | "unexpected"
  | "pending"
  | "present"
  | "unreadable"
  /** The object is in sync, and a clean-up failed: an earlier value may still be readable. */
  | "clean_up_owed";

interface Drift {
  readonly external_name: string;
  readonly state: DriftState;
  readonly owned?: boolean;
  /** `manual` and `rule:<name>`; absent without a rule. */
  readonly origins?: readonly string[];
  readonly error_code?: string;
  readonly error_message?: string;
}

/** Compares recorded objects with the provider. @returns drift by association key, in order; fewer if time runs out */
export async function drift(
  env: Env,
  key: DestinationKey,
  records: readonly ObjectRecord[],
): Promise<Result<[string, Drift][]>> {
  const setup = await syncDestination(env, destinationName(key)).setup();
  if (!setup.ok) return setup;
  const inspector = await inspectorFor(env, setup.value);
  const contents = new RecordedContents(env, typeOf(setup.value.type)?.takesData);
  const compare = async (record: ObjectRecord): Promise<Drift> => {
    const { name, reference, tags } = record;
    if (record.version === undefined) return { external_name: name, state: "pending" };
    if ("trouble" in inspector) return driftOf(record, inspector.trouble);
    // A destination of kind `stored` has no state apart from its records.
    if (!inspector.value) return { external_name: name, state: "in_sync" };
    const desired = inspector.value.type.description.reads === "value" ? await contents.of(record) : undefined;
    return driftOf(record, await inspectWith(inspector.value)({ name, reference, tags, desired }));
  };
  const end = Date.now() + PAGE_MS;
  return ok(
    await mapLimit(
      records,
      MAX_CONCURRENT_INSPECTIONS,
      async (record): Promise<[string, Drift]> => {
        const { key: association, origins } = record;
        return [association, { ...(await compare(record)), ...(origins && { origins }) }];
      },
      () => Date.now() < end,
    ),
  );
}

/** The contents that recorded objects should have. A secret is read once for all of its objects. */
class RecordedContents {
  readonly #read = new Map<string, Promise<Result<NewestVersion | null>>>();

  constructor(
    private readonly env: Env,
    private readonly takesData: true | undefined,
  ) {}

  /** Undefined when the secret's newest version is not the recorded one, or cannot be read. */
  async of({ version, source }: ObjectRecord): Promise<Content | undefined> {
    if (!source || version === undefined || version === null) return undefined;
    const id = JSON.stringify([source.mountUuid, source.secretName]);
    const reading = this.#read.get(id) ?? kvStore(this.env, source.mountUuid).newest(source.secretName);
    this.#read.set(id, reading);
    const newest = await reading;
    if (!newest.ok || newest.value?.version !== version) return undefined;
    const contents = contentsOf(source.granularity, newest.value.data, this.takesData, source.content);
    return contents.ok ? contents.values.find(({ key }) => key === source.subKey) : undefined;
  }
}

function driftOf(record: ObjectRecord, found: Inspection | Trouble): Drift {
  const external_name = record.name;
  if (found.outcome !== "ok") {
    return { external_name, state: "unreadable", error_code: found.code, error_message: found.message };
  }
  if (found.state === "absent") return { external_name, state: record.version === null ? "in_sync" : "missing" };
  const owned = found.owned === null ? {} : { owned: found.owned };
  if (record.version === null) return { external_name, state: "unexpected", ...owned };
  if (found.state !== "unchanged") return { external_name, state: found.state, ...owned };
  if (record.owed === undefined) return { external_name, state: "in_sync", ...owned };
  return { external_name, state: "clean_up_owed", ...owned, error_message: record.owed };
}

/** A planned change, with the state found at the provider. */
interface InspectedObject extends PlannedObject {
  readonly outside?: "absent" | "ours" | "foreign" | "present" | "unreadable";
}

/** Previews a set: the planned changes, compared with the provider. */
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
  return setup.ok ? ok(await withRemoteState(env, setup.value, planned.value)) : setup;
}

interface ConfigurationPreview {
  readonly planned: readonly InspectedObject[];
  readonly warnings: readonly string[];
  readonly next: string | null;
}

/** Previews a configuration: the changes after all associations are set again, compared with the provider. One page. */
export async function previewConfiguration(
  env: Env,
  key: DestinationKey,
  body: Readonly<Record<string, unknown>>,
  { mode, after, origin }: { readonly mode: "write" | "patch"; readonly after: string; readonly origin: string },
): Promise<Result<ConfigurationPreview>> {
  const object = syncDestination(env, destinationName(key));
  const first = await object.previewConfigure(key, body, mode, { after, origin, keys: null });
  if (!first.ok) return first;
  const app = typeOf(key.type)?.appOf?.(first.value.setup.connection) ?? null;
  if (app !== null && !(await syncControl(env).app(key.namespace, app)).ok) return refuse("invalid", noSuchApp(app));
  const { keyless } = first.value;
  const page =
    keyless.length === 0
      ? first
      : await object.previewConfigure(key, body, mode, { after, origin, keys: await keysOf(env, keyless) });
  if (!page.ok) return page;
  const { planned, warnings, next, setup } = page.value;
  return ok({ planned: await withRemoteState(env, setup, planned), warnings, next });
}

async function keysOf(env: Env, keyless: readonly Keyless[]): Promise<KeysOf> {
  const read = await mapLimit(keyless, MAX_CONCURRENT_READS, async ({ id, mountUuid, secretName }) => {
    const newest = await kvStore(env, mountUuid).newest(secretName);
    if (!newest.ok || !newest.value) return [id, null] as const;
    const parts = secretKeyValues(newest.value.data);
    return [id, parts.ok ? parts.values.map((part) => part.key) : []] as const;
  });
  return Object.fromEntries(read);
}

/** Compares planned changes with the provider: a create may become an update, or a refusal by the policy. */
async function withRemoteState(
  env: Env,
  setup: InspectSetup,
  planned: readonly PlannedObject[],
): Promise<InspectedObject[]> {
  const inspector = await inspectorFor(env, setup);
  const inspect =
    "trouble" in inspector ? async () => inspector.trouble : inspector.value && inspectWith(inspector.value);
  if (!inspect) return [...planned];
  const inspected = await mapLimit(
    planned.slice(0, PREVIEW_INSPECTIONS),
    MAX_CONCURRENT_INSPECTIONS,
    async (copy): Promise<InspectedObject> => {
      if (copy.action === "refuse") return copy;
      const found = await inspect({ name: copy.external_name, reference: null });
      if (found.outcome !== "ok") return { ...copy, outside: "unreadable", reason: found.message };
      const outside =
        found.state === "absent" ? "absent" : found.owned === null ? "present" : found.owned ? "ours" : "foreign";
      return { ...copy, ...policyEffect(copy.action, setup.updatePolicy, outside), outside };
    },
  );
  return [...inspected, ...planned.slice(PREVIEW_INSPECTIONS)];
}

type PolicyEffect = Partial<Pick<PlannedObject, "action" | "reason">>;

/** The effect of the update policy on a planned change, given the state at the provider. */
function policyEffect(
  action: PlannedObject["action"],
  policy: UpdatePolicy,
  outside: "absent" | "ours" | "foreign" | "present",
): PolicyEffect {
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
  // A provider without markers leaves ownership to the records.
  const isOurs = outside === "ours" || (outside === "present" && action === "update");
  if (policy === "owned-only" && !isOurs) {
    return { action: "refuse", reason: "it is there already and does not carry our marker" };
  }
  return action === "create" ? { action: "update", reason: "it is there already and would be overwritten" } : {};
}
