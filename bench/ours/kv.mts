/** The secrets of a mount, and a way to write many of them at once: what is done with all of them is what is measured. */
import { KvStore as Store } from "../../src/objects/kv-store.ts";

export interface FillSecrets {
  /** Of the mount. */
  readonly uuid: string;
  readonly from: number;
  readonly to: number;
  /** JSON text of each. */
  readonly data: string;
  /** Destinations that watch the secrets. */
  readonly watchers: readonly string[];
}

export const secretName = (number: number): string => `app/k${String(number).padStart(6, "0")}`;

export class KvStore extends Store {
  fill({ from, to, data, watchers }: FillSecrets): void {
    this.commit(() => {
      for (let number = from; number < to; number++) {
        this.parts.writes.put(secretName(number), data, null, { create: true, update: true });
        for (const watcher of watchers) this.watch(secretName(number), watcher);
      }
    });
  }
}
