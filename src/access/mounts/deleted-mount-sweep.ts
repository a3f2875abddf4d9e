import { isStorageLost } from "../../platform/durable/birth.ts";
import { type ChangedKeys, NOTHING } from "../../platform/durable/object-context.ts";
import type { Outbox } from "../../platform/durable/outbox.ts";
import { credentialEngine, kvStore } from "../../rpc/stubs.ts";
import type { StorageRegistry } from "../system/storage-registry.ts";
import { type DeletedMount, type DeletedMounts, emptyObjectTables } from "./deleted-mounts.ts";

/** Removes deleted mounts from the inventory once their objects are empty. Runs from the alarm of `AccessControl`. */
export class DeletedMountSweep {
  constructor(
    private readonly env: Env,
    private readonly mounts: DeletedMounts,
    private readonly storage: StorageRegistry,
    private readonly outbox: Outbox,
    private readonly commit: <T>(change: () => T, keys?: ChangedKeys) => T,
  ) {}

  /** Checks the mounts that are due. An object that cannot be reached is checked again later. */
  async run(now: number): Promise<void> {
    await Promise.allSettled(
      this.commit(() => this.mounts.dueForCheck(now), NOTHING).map((mount) => this.#check(mount)),
    );
  }

  async #check({ type, uuid }: DeletedMount): Promise<void> {
    if (this.outbox.holds("unmount", `${type} ${uuid}`)) return;
    const object = type === "kv" ? kvStore(this.env, uuid) : credentialEngine(this.env, uuid);
    const isEmpty = await object.holdsOnly(emptyObjectTables(type)).catch((failure: unknown) => {
      if (isStorageLost(failure)) return true;
      throw failure;
    });
    if (!isEmpty) return;
    this.commit(() => this.mounts.forget(uuid), NOTHING);
    this.storage.forget({ kind: type === "kv" ? "kv-store" : "credential-engine", name: uuid });
  }
}
