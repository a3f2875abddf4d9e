import { credentialEngine, kvStore } from "../contracts/stubs.ts";
import { isStorageLost } from "../platform/durable/birth.ts";
import type { Outbox } from "../platform/durable/outbox.ts";
import { type EndedMount, type EndedMounts, REMAINS } from "./ended-mounts.ts";
import type { StorageRegistry } from "./storage-registry.ts";

/** Removes ended mounts from the inventory once their objects are empty. Runs from the alarm of `AccessControl`. */
export class EndedMountSweep {
  readonly #env: Env;
  readonly #mounts: EndedMounts;
  readonly #storage: StorageRegistry;
  readonly #outbox: Outbox;
  readonly #commit: <T>(change: () => T) => T;

  constructor(
    env: Env,
    mounts: EndedMounts,
    storage: StorageRegistry,
    outbox: Outbox,
    commit: <T>(change: () => T) => T,
  ) {
    this.#env = env;
    this.#mounts = mounts;
    this.#storage = storage;
    this.#outbox = outbox;
    this.#commit = commit;
  }

  /** Checks the mounts that are due. An object that cannot be reached is checked again later. */
  async run(now: number): Promise<void> {
    await Promise.allSettled(this.#commit(() => this.#mounts.takeDue(now)).map((mount) => this.#check(mount)));
  }

  async #check({ type, uuid }: EndedMount): Promise<void> {
    if (this.#outbox.holds("unmount", `${type} ${uuid}`)) return;
    const object = type === "cloud-b" ? credentialEngine(this.#env, uuid) : kvStore(this.#env, uuid);
    const isEmpty = await object.holdsOnly(REMAINS[type]).catch((failure: unknown) => {
      if (isStorageLost(failure)) return true;
      throw failure;
    });
    if (!isEmpty) return;
    this.#commit(() => this.#mounts.forget(uuid));
    this.#storage.forget({ kind: type === "cloud-b" ? "credential-engine" : "kv-store", name: uuid });
  }
}
