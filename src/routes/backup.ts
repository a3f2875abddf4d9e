import { rebuildListings } from "../backup/rebuild-listings.ts";
import { restoreSnapshot } from "../backup/restore.ts";
import { takeSnapshot } from "../backup/take.ts";
import { accessControl } from "../contracts/stubs.ts";
import { refuse } from "../lib/result.ts";
import { Sealed } from "../platform/crypto/keyring.ts";
import { unwrap } from "../platform/http/errors.ts";
import { envelope, noContent } from "./server/respond.ts";
import { secrets } from "./server/route.ts";

/** Snapshots, restore, and rebuilding the listings (docs/operate/backup.md). */
export const backupRoutes = [
  secrets({
    verb: "GET",
    path: "/sys/snapshot",
    access: "sudo",
    fresh: true,
    handle: async (call) => {
      const taken = unwrap(await unsealed(() => takeSnapshot(call.env)));
      return new Response(taken, {
        headers: {
          "Content-Type": "application/octet-stream",
          "Content-Disposition": 'attachment; filename="sallyport.snapshot"',
          // Prevents local tooling from compressing, which would buffer the stream.
          "Content-Encoding": "identity",
          "Cache-Control": "no-store, no-transform",
        },
      });
    },
  }),
  secrets({
    verb: "POST",
    path: "/sys/snapshot",
    access: "sudo",
    fresh: true,
    streams: true,
    handle: async (call) => {
      const restored = unwrap(
        await unsealed(async () => ({ ok: true as const, value: await restoreSnapshot(call.env, call.request.body) })),
      );
      const { listings } = restored;
      const warnings = listings ? [] : ["the lists could not be made yet: POST /v1/sys/listings/rebuild makes them"];
      return envelope(call, { data: restored, warnings });
    },
  }),
  secrets({
    verb: "DELETE",
    path: "/sys/snapshot",
    access: "sudo",
    fresh: true,
    handle: async (call) => {
      unwrap(await accessControl(call.env).undoRestore(null));
      return noContent();
    },
  }),
  secrets({
    verb: "POST",
    path: "/sys/listings/rebuild",
    access: "sudo",
    fresh: true,
    handle: async (call) => envelope(call, { data: await rebuildListings(call.env) }),
  }),
];

/** Refuses work that needs the master key while sealed. */
async function unsealed<T>(work: () => Promise<T>) {
  try {
    return await work();
  } catch (failure) {
    if (failure instanceof Sealed) return refuse("sealed", failure.message);
    throw failure;
  }
}
