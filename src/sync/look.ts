import { settings } from "../env.ts";
import { destinationName, syncDestination } from "../objects/stubs.ts";
import type { Permit } from "../providers/outcome.ts";
import { ok, type Result } from "../result.ts";
import type { Setup, Trouble } from "./association.ts";
import { typeOf } from "./definition.ts";
import type { DestinationKey } from "./destination-record.ts";
import type { CallContext, Inspection, RemoteDestinationType } from "./destinations/destination-type.ts";
import { appAccess, Permission } from "./perform.ts";
import type { CopyRecord, PlannedCopy } from "./preview.ts";
import { contextOf } from "./task.ts";

/** Looking at a provider without changing anything: previews, drift, and whether a connection works at all. */

const LOOK_MS = 15_000;
const LOOKS_AT_ONCE = 4;
/** Objects that a preview looks up; of the others it says what our own records say. */
const PREVIEW_LOOKS = 50;

interface Looker {
  readonly type: RemoteDestinationType<unknown>;
  readonly setup: Setup;
  readonly context: () => CallContext;
}

/** What looking takes; null for a destination that is our own storage. */
async function lookerAt(env: Env, key: DestinationKey): Promise<Result<Looker | null> | { trouble: Trouble }> {
  const setup = await syncDestination(env, destinationName(key)).setup();
  if (!setup.ok) return setup;
  const type = typeOf(setup.value.type);
  if (!type || type.kind === "stored") return ok(null);
  const permit: Permit = new Permission(env).holds;
  const context = await contextOf({ settings: settings(env), permit, apps: appAccess(env) }, setup.value, type);
  if ("trouble" in context) return context;
  return ok({ type, setup: setup.value, context: () => context.make(LOOK_MS) });
}

export interface Verdict {
  readonly ok: boolean;
  readonly error_code?: string;
  /** One sentence for people. */
  readonly message: string;
}

/** Tries the credentials and the target of a destination. */
export async function verify(env: Env, key: DestinationKey): Promise<Result<Verdict>> {
  const looker = await lookerAt(env, key);
  if ("trouble" in looker) return ok(verdictOf(looker.trouble));
  if (!looker.ok) return looker;
  if (!looker.value)
    return ok({ ok: true, message: "The destination keeps its objects itself; there is nothing to try." });
  const { type, setup, context } = looker.value;
  const probed = await type.probe(setup.connection, context());
  return ok(
    probed.outcome === "ok"
      ? { ok: true, message: "The credentials are accepted and the target can be reached." }
      : verdictOf(probed),
  );
}

const verdictOf = ({ code, message }: Trouble): Verdict => ({ ok: false, error_code: code, message });

export interface Drift {
  readonly external_name: string;
  readonly state: "in_sync" | "changed" | "missing" | "unexpected" | "pending" | "present" | "unreadable";
  readonly owned?: boolean;
  readonly error_code?: string;
  readonly error_message?: string;
}

/** Compares recorded objects with what the provider shows. @returns by association key, in order */
export async function drift(
  env: Env,
  key: DestinationKey,
  records: readonly CopyRecord[],
): Promise<Result<[string, Drift][]>> {
  const looker = await lookerAt(env, key);
  const trouble = "trouble" in looker ? looker.trouble : null;
  if (!("trouble" in looker) && !looker.ok) return looker;
  const look = "trouble" in looker ? null : looker.value;
  return ok(
    await inParallel(records, async (record): Promise<[string, Drift]> => {
      if (record.version === undefined) return [record.key, { external_name: record.name, state: "pending" }];
      if (trouble) return [record.key, driftOf(record, trouble)];
      // Our own storage and our own records are one.
      if (!look)
        return [record.key, { external_name: record.name, state: record.version === null ? "missing" : "in_sync" }];
      const { name, reference } = record;
      return [
        record.key,
        driftOf(record, await look.type.inspect({ name, reference }, look.setup.connection, look.context())),
      ];
    }),
  );
}

function driftOf(record: CopyRecord, seen: Inspection | Trouble): Drift {
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

/** Completes a preview with what is at the provider: creating may turn out to be overwriting, or refused by the policy. */
export async function previewed(
  env: Env,
  key: DestinationKey,
  planned: readonly PlannedCopy[],
): Promise<(PlannedCopy & { readonly outside?: "absent" | "ours" | "foreign" | "present" | "unreadable" })[]> {
  const looker = await lookerAt(env, key);
  if ("trouble" in looker || !looker.ok || !looker.value) return [...planned];
  const { type, setup, context } = looker.value;
  const looked = await inParallel(planned.slice(0, PREVIEW_LOOKS), async (copy) => {
    if (copy.action === "refuse") return copy;
    const seen = await type.inspect({ name: copy.external_name, reference: null }, setup.connection, context());
    if (seen.outcome !== "ok") return { ...copy, outside: "unreadable" as const, reason: seen.message };
    if (seen.state === "absent") return { ...copy, outside: "absent" as const };
    const outside = seen.owned === null ? "present" : seen.owned ? "ours" : "foreign";
    return { ...copy, ...judged(copy, setup.updatePolicy, outside), outside } as const;
  });
  return [...looked, ...planned.slice(PREVIEW_LOOKS)];
}

/** What a policy makes of a plan, given what is there. */
function judged(
  copy: PlannedCopy,
  policy: Setup["updatePolicy"],
  outside: "ours" | "foreign" | "present",
): Pick<PlannedCopy, "action" | "reason"> {
  if (copy.action !== "create") return { action: copy.action, ...(copy.reason && { reason: copy.reason }) };
  if (policy === "if-not-exists")
    return { action: "retain", reason: "it is there already, and update_policy leaves it" };
  if (policy === "owned-only" && outside !== "ours") {
    return { action: "refuse", reason: "it is there already and does not carry our marker" };
  }
  return { action: "update", reason: "it is there already and would be overwritten" };
}

async function inParallel<T, U>(items: readonly T[], work: (item: T) => Promise<U>): Promise<U[]> {
  const results: U[] = [];
  const entries = items.entries();
  const worker = async () => {
    for (const [index, item] of entries) results[index] = await work(item);
  };
  await Promise.all(Array.from({ length: LOOKS_AT_ONCE }, worker));
  return results;
}
