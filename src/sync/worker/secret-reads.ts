import type { NewestVersion } from "../../contracts/kv-store.ts";
import type { SyncTask } from "../../contracts/sync-tasks.ts";
import type { Result } from "../../lib/result.ts";
import { kvStore } from "../../rpc/stubs.ts";
import type { SecretRead } from "./task.ts";

/** The most secrets of one call, whose answer has all of them. */
const MAX_NAMES = 16;

/** Reads to be made with one call. */
interface Batch {
  /** The position in the answer, by the secret's name. */
  readonly names: Map<string, number>;
  readonly answers: Promise<readonly Result<NewestVersion | null>[]>;
}

/**
 * Reads the secrets of leased tasks. Reads that begin together, of any destination of the invocation, are one call for
 * each mount, and a secret is read once. A read begins after the lease, so a later version is another generation.
 */
export class SecretReads {
  readonly #batches = new Map<string, Batch>();

  /** @param gatherMs how long a read waits for others; 0: for those of the same poll */
  constructor(
    private readonly env: Env,
    private readonly gatherMs: number,
  ) {}

  read({ desired, mountUuid, secretName }: SyncTask): SecretRead {
    if (desired !== "present") return Promise.resolve(null);
    const open = this.#batches.get(mountUuid);
    const { names, answers } = open && open.names.size < MAX_NAMES ? open : this.#gather(mountUuid);
    const at = names.get(secretName) ?? names.size;
    names.set(secretName, at);
    const read = answers.then((all) => all[at] ?? null);
    // Each task reports the failure itself, perhaps later.
    read.catch(() => undefined);
    return read;
  }

  #gather(mountUuid: string): Batch {
    const names = new Map<string, number>();
    const together = this.gatherMs > 0 ? scheduler.wait(this.gatherMs) : Promise.resolve();
    const answers = together.then(() => {
      if (this.#batches.get(mountUuid)?.names === names) this.#batches.delete(mountUuid);
      const store = kvStore(this.env, mountUuid);
      const [first = "", ...others] = names.keys();
      return others.length === 0 ? store.newest(first).then((one) => [one]) : store.newestOf([first, ...others]);
    });
    const batch = { names, answers };
    this.#batches.set(mountUuid, batch);
    return batch;
  }
}
