import { giveWay } from "../lib/give-way.ts";
import { mapLimit } from "../lib/map-limit.ts";
import { ok, type Refusal, type Result, refuse } from "../lib/result.ts";
import { masterKey } from "../platform/crypto/master-key.ts";
import { type ObjectName, textOfObject } from "../platform/durable/object-kinds.ts";
import { QUIESCE_MS } from "../platform/durable/snapshot/frozen.ts";
import type { SnapshotPage, SnapshotPosition } from "../platform/durable/snapshot/object-snapshot.ts";
import type { SnapshotView } from "../platform/durable/snapshot/snapshot-lock.ts";
import { textOf, warn } from "../platform/observability/log.ts";
import { ACCESS_CONTROL, SINGLETONS, storedObject } from "../rpc/stored-objects.ts";
import { accessControl } from "../rpc/stubs.ts";
import { everyObject } from "./directory.ts";
import { Sealer } from "./format.ts";

/** Objects called concurrently. */
const MAX_CONCURRENT = 32;
/** Objects prepared concurrently: a request whose objects are on the same thread waits for each of them. */
const MAX_PREPARING = 16;
/** Safety margin of the freeze window for answers in transit. */
const MARGIN_MS = 2_000;
const NOT_AT_REST = "snapshot: not all objects came to rest in time; try again when there is less to do";
const RESTARTED = "snapshot: an object restarted while all were at rest, and may have changed; try again";
/** Heartbeat interval to `AccessControl`, which prevents a concurrent snapshot. */
const HEARTBEAT_MS = 15_000;
/** After this time a snapshot no longer rests: it has an hour. */
const GIVES_WAY_MS = 20 * 60_000;

interface Frozen {
  readonly object: ObjectName;
  readonly view: SnapshotView;
}

const objectsOf = (frozen: readonly Frozen[]): ObjectName[] => frozen.map(({ object }) => object);

/** A snapshot of all objects, streamed as fast as it is read, and slower beside other requests. @throws Sealed */
export async function takeSnapshot(env: Env): Promise<Result<ReadableStream<Uint8Array>>> {
  const snapshot = crypto.randomUUID();
  const began = new Date();
  const sealer = new Sealer(snapshot, began, masterKey(env));
  const cut = await freezeAll(env, snapshot);
  if (!cut.ok) return cut;
  const pieces = sealed(env, snapshot, sealer, { cut: cut.value, began: began.getTime() });
  const stream = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { done, value } = await pieces.next();
        if (done) controller.close();
        else controller.enqueue(value);
      },
      cancel: async () => {
        await pieces.return(undefined);
        // A snapshot that was refused has nothing to end.
        await endAll(env, snapshot, objectsOf(cut.value));
      },
    },
    { highWaterMark: 0 },
  );
  return ok(stream);
}

/**
 * Prepares every object while all continue, then freezes them, and resumes all once the last is frozen: at that moment
 * nothing changes in any of them. Writes wait at most `QUIESCE_MS`; a frozen object resumes automatically after that.
 */
async function freezeAll(env: Env, snapshot: string): Promise<Result<Frozen[]>> {
  const frozen = new Map<string, Frozen>();
  const tried = new Map<string, ObjectName>();
  const keepAlive = heartbeat(env, snapshot);
  const prepare = async (object: ObjectName): Promise<Refusal | null> => {
    tried.set(textOfObject(object), object);
    const asked = Date.now();
    const prepared = await again(() => storedObject(env, object).prepareCut(snapshot));
    if (!prepared.ok) return prepared;
    await giveWay(Date.now() - asked);
    await keepAlive();
    return null;
  };
  const freeze = async (object: ObjectName): Promise<Refusal | null> => {
    tried.set(textOfObject(object), object);
    const cut = await again(() => storedObject(env, object).freeze(snapshot));
    if (!cut.ok) return cut;
    frozen.set(textOfObject(object), { object, view: cut.value });
    return null;
  };
  /** Calls all objects, those that enumerate others first. @returns the first refusal */
  const onAllObjects = async (
    work: (object: ObjectName) => Promise<Refusal | null>,
    limit: number,
  ): Promise<Refusal | null> => {
    // The first object serializes snapshots.
    const first = await work(ACCESS_CONTROL);
    if (first) return first;
    const others = SINGLETONS.filter((object) => object !== ACCESS_CONTROL);
    const refused = (await mapLimit(others, limit, work)).find((refusal) => refusal !== null);
    if (refused) return refused;
    // While these are frozen, the set of objects is stable.
    const known: ObjectName[] = [];
    for await (const object of everyObject(env)) known.push(object);
    return (await mapLimit(known, limit, work)).find((refusal) => refusal !== null) ?? null;
  };
  const end = (objects: Iterable<ObjectName>) => endAll(env, snapshot, [...objects]);
  try {
    let refused = await onAllObjects(prepare, MAX_PREPARING);
    if (!refused) {
      const begun = Date.now();
      refused = await onAllObjects(freeze, MAX_CONCURRENT);
      if (!refused && Date.now() - begun > QUIESCE_MS - MARGIN_MS) refused = refuse("unavailable", NOT_AT_REST);
    }
    if (refused) {
      await end(tried.values());
      return refused;
    }
    const cut = [...frozen.values()];
    const stayed = await mapLimit(cut, MAX_CONCURRENT, ({ object }) => storedObject(env, object).thaw(snapshot));
    if (stayed.includes(false)) {
      await end(tried.values());
      return refuse("unavailable", RESTARTED);
    }
    // Prepared, but deleted since.
    await end([...tried].filter(([name]) => !frozen.has(name)).map(([, object]) => object));
    return ok(cut);
  } catch (failure) {
    await end(tried.values());
    throw failure;
  }
}

async function* sealed(
  env: Env,
  snapshot: string,
  sealer: Sealer,
  { cut, began }: { readonly cut: readonly Frozen[]; readonly began: number },
): AsyncGenerator<Uint8Array, undefined, undefined> {
  // `AccessControl` last: a restore is decided there, after all others.
  const left = [...cut].sort((a, b) => rank(a.object) - rank(b.object));
  const keepAlive = heartbeat(env, snapshot);
  try {
    yield sealer.begin();
    for (let next = left[0]; next; left.shift(), next = left[0]) {
      const { object, view } = next;
      yield sealer.seal({ type: "object", ...object, ...view });
      for (let from: SnapshotPosition | null | undefined; from !== null; ) {
        const asked = Date.now();
        const part: Result<SnapshotPage> = await again(() => storedObject(env, object).cutPart(snapshot, from ?? null));
        if (!part.ok) throw new Error(part.message);
        for (const rows of part.value.some) yield sealer.seal({ type: "rows", ...rows });
        from = part.value.next;
        // Small objects are read in one short step each.
        if (from !== null && Date.now() - began < GIVES_WAY_MS) await giveWay(Date.now() - asked);
        await keepAlive();
      }
      await storedObject(env, object).endCut(snapshot);
    }
    yield sealer.end();
    await accessControl(env)
      .snapshotRead(began)
      .catch((failure: unknown) => warn("snapshot-not-noted", { because: textOf(failure) }));
  } catch (failure) {
    warn("snapshot-failed", { snapshot, because: textOf(failure) });
    throw failure;
  } finally {
    await endAll(env, snapshot, objectsOf(left));
  }
}

/** Tells `AccessControl` that a snapshot goes on, once in `HEARTBEAT_MS` at most. */
function heartbeat(env: Env, snapshot: string): () => Promise<void> {
  let kept = Date.now();
  return async () => {
    if (Date.now() - kept < HEARTBEAT_MS) return;
    kept = Date.now();
    await again(() => storedObject(env, ACCESS_CONTROL).keepCut(snapshot));
  };
}

const rank = (object: ObjectName): number => (object.kind === ACCESS_CONTROL.kind ? 1 : 0);

/** Ends snapshots of all reachable objects; the others time out. */
async function endAll(env: Env, snapshot: string, objects: readonly ObjectName[]): Promise<void> {
  await mapLimit(objects, MAX_CONCURRENT, (object) =>
    storedObject(env, object)
      .endCut(snapshot)
      .catch((failure: unknown) => warn("cut-left", { object: textOfObject(object), because: textOf(failure) })),
  );
}

/** Retries once, for an object that restarted during the call. */
const again = <T>(call: () => Promise<T>): Promise<T> => call().catch(call);
