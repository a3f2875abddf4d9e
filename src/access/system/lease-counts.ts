import type { Mount } from "../../contracts/mount.ts";
import { mapLimit } from "../../lib/map-limit.ts";
import { credentialEngine } from "../../rpc/stubs.ts";
import type { MountTable } from "../mounts/mounts.ts";
import type { LeasePlace, TokenLeaseCounts } from "../tokens/token-lease-counts.ts";

/** Which leases are counted. */
export interface CountedLeases {
  /** Whether leases of a place are among them. */
  holds(place: LeasePlace): boolean;
  /** Whether leases of a mount may be among them. */
  mayHold(mount: Pick<Mount, "namespace" | "path">): boolean;
}

const MAX_CONCURRENT = 6;
/** Admissions that a mount may not have stored yet: far more than are under way. */
const MAX_ADMITTED = 10_000;

interface Admitted {
  readonly mount: string;
  readonly path: string;
  readonly at: number;
}

/**
 * The number of leases of all mounts, for lease-count quotas, in memory only. Those of tokens are counted here. Those of an
 * engine are asked of its object and raised with each lease that is admitted; they are never lower than the truth, and
 * asked again before a request is refused.
 */
export class LeaseCounts {
  /** By uuid of the mount and path below it. */
  readonly #known = new Map<string, Map<string, number>>();
  /** By mount and id of the lease, oldest first. */
  readonly #admitted = new Map<string, Admitted>();
  #clock = 0;

  constructor(
    private readonly env: Env,
    private readonly mounts: MountTable,
    private readonly tokens: TokenLeaseCounts,
  ) {}

  forget(): void {
    this.#known.clear();
    this.tokens.forget();
  }

  /** The mount of an engine; null when it is gone. */
  mountOf(uuid: string): Mount | null {
    return this.mounts.every().find((mount) => mount.uuid === uuid) ?? null;
  }

  /** Whether every mount that is counted has been asked. */
  isKnown(counted: CountedLeases): boolean {
    return this.#enginesOf(counted).every(({ uuid }) => this.#known.has(uuid));
  }

  count(counted: CountedLeases): number {
    let total = 0;
    for (const { n, ...place } of this.tokens.all()) if (counted.holds(place)) total += n;
    for (const { uuid, namespace, path: root } of this.#enginesOf(counted)) {
      for (const [path, n] of this.#known.get(uuid) ?? [])
        if (counted.holds({ namespace, path: root + path, role: null })) total += n;
    }
    return total;
  }

  /** Counts a lease that is about to be issued. */
  admit(mount: string, id: string): void {
    const path = pathOf(id);
    this.#clock += 1;
    this.#admitted.set(`${mount} ${id}`, { mount, path, at: this.#clock });
    const [oldest] = this.#admitted.keys();
    if (this.#admitted.size > MAX_ADMITTED && oldest !== undefined) this.#admitted.delete(oldest);
    const known = this.#known.get(mount);
    if (known) add(known, path, 1);
  }

  /** Asks the mounts that are counted for their leases. */
  async refresh(counted: CountedLeases): Promise<void> {
    await mapLimit(this.#enginesOf(counted), MAX_CONCURRENT, async ({ uuid }) => {
      const since = this.#clock;
      const { counts, pending } = await credentialEngine(this.env, uuid).countLeases();
      const known = new Map(Object.entries(counts));
      const waiting = new Set(pending);
      for (const id of pending) if (this.#admitted.has(`${uuid} ${id}`)) add(known, pathOf(id), 1);
      // Admitted since the mount was asked, perhaps after it answered.
      for (const [key, { mount, path, at }] of this.#admitted) {
        const id = key.slice(uuid.length + 1);
        if (mount === uuid && at > since && !waiting.has(id)) add(known, path, 1);
      }
      this.#known.set(uuid, known);
    });
  }

  #enginesOf(counted: CountedLeases): Mount[] {
    return this.mounts.every().filter((mount) => mount.type !== "kv" && counted.mayHold(mount));
  }
}

/** The path that issued a lease: its id without the last segment. */
const pathOf = (id: string): string => id.slice(0, id.lastIndexOf("/"));

const add = (counts: Map<string, number>, path: string, n: number): void => {
  counts.set(path, (counts.get(path) ?? 0) + n);
};
