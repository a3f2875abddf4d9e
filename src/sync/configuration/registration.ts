import { ok, type Result, refuse } from "../../lib/result.ts";
import type { DataKeys } from "../../platform/crypto/data-keys.ts";
import type { ObjectContext } from "../../platform/durable/object-context.ts";
import { accessControl } from "../../rpc/stubs.ts";
import type { Purge } from "../associations/purge.ts";
import type { DestinationRecord } from "./destination-record.ts";

/**
 * The registration of a destination with `AccessControl`, as a holder of keys: before it is first stored, until its
 * deletion is complete. Owned by `SyncDestination`. Each method costs one RPC.
 */
export class Registration {
  constructor(
    private readonly object: ObjectContext,
    private readonly record: DestinationRecord,
    private readonly purge: Purge,
    private readonly keys: DataKeys,
  ) {}

  /** Registers a destination before it is stored: snapshots cover registered objects only. */
  async ensure(): Promise<Result<null>> {
    if (this.record.row()) return ok(null);
    const { env, name, outbox } = this.object;
    // The end of a predecessor of this name must be announced before the new destination.
    await outbox.drain("key-holder", "");
    if (outbox.holds("key-holder", "")) return STILL_ENDING;
    // A pending announcement removes the registration if the destination is never stored; it would block its namespace.
    this.object.commit(() => outbox.enlistLatest("key-holder", "new", null));
    return accessControl(env).admitDestination(name);
  }

  /** Refuses while a predecessor of this name is being deleted. */
  check(): Result<null> {
    return !this.record.row() && this.purge.find() ? STILL_ENDING : ok(null);
  }

  /** Delivers the outbox topic `key-holder`: whether the destination holds keys. */
  async deliver(): Promise<void> {
    const { env, name, outbox } = this.object;
    const isThere = this.record.row() !== null || this.purge.find() !== null;
    if (!isThere) {
      // `AccessControl` keeps the destination registered until its listings are gone: a successor must not find them.
      for (const topic of ["watch", "listing", "associations"]) await outbox.drain(topic);
      if (outbox.holds("watch")) throw new Error("its mounts do not know yet that it has ended");
      if (outbox.holds("listing") || outbox.holds("associations")) throw new Error("it is still listed");
    }
    const term = await accessControl(env).holdsKeys("sync-destination", name, isThere);
    this.object.commit(() => this.keys.rotate(term, Date.now()));
  }
}

const STILL_ENDING = refuse("conflict", "a destination of this name is still being deleted; try again in a moment");
