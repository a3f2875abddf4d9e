import * as z from "zod";
import { rebuildListings } from "../backup/rebuild-listings.ts";
import { restoreSnapshot } from "../backup/restore.ts";
import { listSnapshots, openSnapshot } from "../backup/scheduled-snapshots.ts";
import { takeSnapshot } from "../backup/take.ts";
import { ok, refuse } from "../lib/result.ts";
import { Sealed } from "../platform/crypto/keyring.ts";
import { unwrap } from "../platform/http/errors.ts";
import { accessControl } from "../rpc/stubs.ts";
import { envelope, keyList, noContent } from "./server/respond.ts";
import { type Asked, type AuthorisedCall, secrets } from "./server/route.ts";

const RestoreQuery = z.object({ object: z.string().optional() });

/** Snapshots, restore, and rebuilding the listings (docs/operate/backup.md). */
export const backupRoutes = [
  secrets("GET /sys/snapshot", { access: "sudo", fresh: true }, async (call) => {
    const taken = unwrap(await unsealed(() => takeSnapshot(call.env)));
    return new Response(whileAllowed(call, taken), {
      headers: {
        "Content-Type": "application/octet-stream",
        "Content-Disposition": 'attachment; filename="sallyport.snapshot"',
        // Prevents local tooling from compressing, which would buffer the stream.
        "Content-Encoding": "identity",
        "Cache-Control": "no-store, no-transform",
      },
    });
  }),
  secrets("LIST /sys/snapshot", { access: "sudo", fresh: true }, async (call) => {
    const stored = unwrap(await listSnapshots(call.env));
    const info = stored.map(({ name, taken, bytes }) => [name, { taken: new Date(taken).toISOString(), bytes }]);
    const keys = stored.map(({ name }) => name);
    return keyList(call, keys, { key_info: Object.fromEntries(info) });
  }),
  secrets("POST /sys/snapshot", { access: "sudo", fresh: true, query: RestoreQuery, streams: true }, async (call) => {
    const restored = unwrap(
      await unsealed(async () => ok(await restoreSnapshot(call.env, await given(call), call.recheck))),
    );
    const { listings } = restored;
    const warnings = listings ? [] : ["the lists could not be made yet: POST /v1/sys/listings/rebuild makes them"];
    return envelope(call, { data: restored, warnings });
  }),
  secrets("DELETE /sys/snapshot", { access: "sudo", fresh: true }, async (call) => {
    unwrap(await accessControl(call.env).undoRestore(null));
    return noContent();
  }),
  secrets("POST /sys/listings/rebuild", { access: "sudo", fresh: true }, async (call) =>
    envelope(call, { data: await rebuildListings(call.env) }),
  ),
];

/** Rights of a download are judged again after so long, ms. */
const RECHECK_MS = 1_000;

/** Passes chunks on while the token may take snapshots; then the download is cut, and lacks its end. */
function whileAllowed({ recheck }: AuthorisedCall, taken: ReadableStream<Uint8Array>): ReadableStream<Uint8Array> {
  const reader = taken.getReader();
  let judgedAt = Date.now();
  const checked: UnderlyingSource<Uint8Array> = {
    async pull(controller) {
      const { done, value } = await reader.read();
      if (done) return controller.close();
      try {
        if (Date.now() - judgedAt > RECHECK_MS) {
          await recheck();
          judgedAt = Date.now();
        }
      } catch (failure) {
        await reader.cancel(failure);
        throw failure;
      }
      controller.enqueue(value);
    },
    // The snapshot ends with its client: the next one need not wait.
    cancel: (reason) => reader.cancel(reason),
  };
  return new ReadableStream(checked, { highWaterMark: 0 });
}

/** The snapshot of a restore: the object of the bucket that the query names, or the body. */
async function given({
  env,
  asked: { object: name },
  request,
}: AuthorisedCall & Asked<typeof RestoreQuery>): Promise<ReadableStream<Uint8Array> | null> {
  return name === undefined ? request.body : unwrap(await openSnapshot(env, name));
}

/** Refuses work that needs the master key while sealed. */
async function unsealed<T>(work: () => Promise<T>) {
  try {
    return await work();
  } catch (failure) {
    if (failure instanceof Sealed) return refuse("sealed", failure.message);
    throw failure;
  }
}
