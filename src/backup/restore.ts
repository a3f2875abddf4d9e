import { mapLimit } from "../lib/map-limit.ts";
import { parseKeyring } from "../platform/crypto/keyring.ts";
import { masterKey } from "../platform/crypto/master-key.ts";
import { bornWith, isKind, type ObjectName, textOfObject } from "../platform/durable/object-kinds.ts";
import { badRequest, RequestError, unwrap } from "../platform/http/errors.ts";
import { recordAction } from "../platform/observability/audit/actions.ts";
import { textOf, warn } from "../platform/observability/log.ts";
import { ACCESS_CONTROL, SINGLETONS, storedObject } from "../rpc/stored-objects.ts";
import { accessControl } from "../rpc/stubs.ts";
import { type ObjectRecord, Opener, type RowsRecord } from "./format.ts";
import { framesOf } from "./frames.ts";
import { type Rebuilt, rebuildListings } from "./rebuild-listings.ts";
import { Staging } from "./staging.ts";

/** Longer final steps continue in the background. */
const FINISH_MS = 60_000;
const STEP_AGAIN_MS = 200;
/** Objects released at a time. */
const MAX_RELEASING = 16;

/**
 * Restores a snapshot into an empty deployment. Until the last byte is verified the deployment only blocks writes; then
 * all data is replaced.
 * @param judge throws unless the caller may still restore; a file may take hours to arrive
 * @throws RequestError 400 for an incomplete or foreign file, 409 when the deployment is not empty
 */
export async function restoreSnapshot(env: Env, body: ReadableStream<Uint8Array> | null, judge: () => Promise<void>) {
  const frames = framesOf(body);
  const first = await frames.next();
  if (first.done) throw badRequest("snapshot: it is cut off");
  const opener = new Opener(first.value, masterKey(env));
  const restore = crypto.randomUUID();
  await judge();
  unwrap(await accessControl(env).beginRestore(restore));
  const held: ObjectName[] = [];
  let loaded: { objects: number; rows: number };
  try {
    loaded = await load(env, { restore, held }, opener, frames);
    await judge();
    unwrap(await accessControl(env).completeRestore(restore));
  } catch (failure) {
    await undo(env, restore, held);
    throw failure;
  }
  const { snapshot, taken } = opener.header;
  recordAction("restored", { snapshot, taken, ...loaded });
  await finish(env);
  return { snapshot, taken, ...loaded, listings: await listings(env) };
}

/** A restore as its loader sees it. */
interface Loading {
  readonly restore: string;
  /** The objects that were asked to hold for it. */
  readonly held: ObjectName[];
}

async function load(
  env: Env,
  loading: Loading,
  opener: Opener,
  frames: AsyncGenerator<Uint8Array>,
): Promise<{ objects: number; rows: number }> {
  const { restore } = loading;
  const masters = new Set(parseKeyring(masterKey(env)).byId.keys());
  const missing = new Set(SINGLETONS.map(textOfObject));
  // Locked before their rows arrive, so that they stay unused.
  for (const object of SINGLETONS) if (object !== ACCESS_CONTROL) await hold(env, loading, object);
  let [object, objects, rows]: [ObjectName | null, number, number] = [null, 0, 0];
  const staging = new Staging();
  try {
    for await (const frame of frames) {
      const record = opener.open(frame);
      if (record.type === "object") {
        const begun = objectOf(record);
        object = begun;
        staging.begin(() => begin(env, loading, begun, record));
        missing.delete(textOfObject(begun));
        objects++;
      } else if (record.type === "rows") {
        if (!object) throw badRequest("snapshot: rows without an object");
        refuseForeignKeys(record, masters);
        const [into, { table, columns, rows: some }] = [object, record];
        staging.goOn(async () => unwrap(await storedObject(env, into).stage(restore, table, columns, some)));
        rows += some.length;
      }
      await staging.room();
    }
  } finally {
    await staging.settled();
  }
  staging.check();
  opener.close();
  if (missing.size > 0) throw badRequest(`snapshot: without ${[...missing].join(", ")}`);
  return { objects, rows };
}

async function hold(env: Env, { restore, held }: Loading, object: ObjectName): Promise<void> {
  unwrap(await accessControl(env).joinRestore(restore, object));
  held.push(object);
  unwrap(await storedObject(env, object).holdForRestore(restore, bornWith(object.kind)));
}

function objectOf({ kind, name }: ObjectRecord): ObjectName {
  if (!isKind(kind)) throw badRequest(`snapshot: newer schema: this version of the service has no ${kind}`);
  return { kind, name };
}

async function begin(env: Env, loading: Loading, object: ObjectName, view: ObjectRecord): Promise<void> {
  const { versions, sequences } = view;
  if (object.kind !== ACCESS_CONTROL.kind) await hold(env, loading, object);
  unwrap(await storedObject(env, object).beginStaging(loading.restore, { versions, sequences }));
}

/** Data keys that cannot be opened here would leave the service partially sealed. */
function refuseForeignKeys({ table, columns, rows }: RowsRecord, masters: ReadonlySet<string>): void {
  if (table !== "data_keys") return;
  const column = columns.indexOf("master");
  for (const row of rows) {
    const master = String(row[column]);
    if (!masters.has(master))
      throw badRequest(
        `snapshot: it has data sealed under master key ${master}, which MASTER_KEY of this deployment does not hold`,
      );
  }
}

/**
 * Undoes a restore. Another request may have undone it between the join of an object and its hold, so the loader
 * releases the objects, too; none of its calls is under way any more.
 */
async function undo(env: Env, restore: string, held: readonly ObjectName[]): Promise<void> {
  try {
    const undone = await accessControl(env).undoRestore(restore);
    if (undone.ok) await mapLimit(held, MAX_RELEASING, (object) => storedObject(env, object).release(restore));
  } catch (failure) {
    // The deployment keeps reporting an unfinished restore.
    warn("restore-not-undone", { restore, because: textOf(failure) });
  }
}

/** Drives the final steps. Otherwise `AccessControl` continues with its alarm. */
async function finish(env: Env): Promise<void> {
  for (const end = Date.now() + FINISH_MS; Date.now() < end; ) {
    try {
      if (!(await accessControl(env).stepRestore())) return;
    } catch {
      // It restarts in between to discard its cached state.
      await scheduler.wait(STEP_AGAIN_MS);
    }
  }
  throw new RequestError(503, "the restore goes on by itself; make the lists with POST /v1/sys/listings/rebuild then", {
    "Retry-After": "10",
  });
}

/** The rebuilt listings; null when that is still pending. */
async function listings(env: Env): Promise<Rebuilt | null> {
  try {
    return await rebuildListings(env);
  } catch (failure) {
    warn("listings-not-rebuilt", { because: textOf(failure) });
    return null;
  }
}
