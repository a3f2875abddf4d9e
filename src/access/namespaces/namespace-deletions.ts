import type { Result } from "../../lib/result.ts";
import { hasRow } from "../rows.ts";

/** `cluster`: flat namespaces of the cluster API, by name. `secrets`: the tree of the secrets API, by path. */
type NamespaceKind = "cluster" | "secrets";

interface Ending extends Record<string, SqlStorageValue> {
  kind: NamespaceKind;
  name: string;
}

/** The owner of one kind of namespaces. */
export interface DeletableNamespaces {
  readonly kind: NamespaceKind;
  /** Asks the owners of the namespace's content to refuse, or to admit no more content. Idempotent. */
  close(name: string): Promise<Result<null>>;
  /** Deletes the namespace's own rows inside the caller's transaction. */
  complete(name: string): void;
}

/** Time for the request to finish its deletion before the alarm takes over. */
const GRACE_MS = 10_000;

/**
 * Deletions of namespaces whose content is owned by other objects. The mark is stored before the owners are called.
 * After a crash the alarm completes or withdraws the deletion, so no namespace stays half closed.
 *
 *     exists ──mark──► ending ──owner agrees──► deleted
 *                        └─────owner refuses──► exists
 */
export class NamespaceDeletions {
  readonly #running = new Map<string, Promise<Result<null>>>();

  constructor(
    private readonly sql: SqlStorage,
    private readonly commit: <T>(change: () => T) => T,
  ) {}

  has(kind: NamespaceKind, name: string): boolean {
    return hasRow(this.sql, "SELECT 1 FROM ending_namespaces WHERE kind = ? AND name = ?", kind, name);
  }

  /**
   * Deletes a namespace. Concurrent calls share one run. Rejects while an owner is unreachable; the alarm then retries.
   */
  end(owner: DeletableNamespaces, name: string): Promise<Result<null>> {
    const key = `${owner.kind} ${name}`;
    const running = this.#running.get(key) ?? this.#run(owner, name).finally(() => this.#running.delete(key));
    this.#running.set(key, running);
    return running;
  }

  nextDue(): number | null {
    return this.sql.exec<{ due: number | null }>("SELECT min(due) AS due FROM ending_namespaces").one().due;
  }

  /** Resumes interrupted deletions. Never rejects. */
  async resume(owners: readonly DeletableNamespaces[], now: number): Promise<void> {
    const due = this.sql
      .exec<Ending>("SELECT kind, name FROM ending_namespaces WHERE due <= ? ORDER BY due LIMIT 20", now)
      .toArray();
    const ended = due.flatMap(({ kind, name }) =>
      owners.filter((owner) => owner.kind === kind).map((owner) => this.end(owner, name)),
    );
    await Promise.allSettled(ended);
  }

  async #run(owner: DeletableNamespaces, name: string): Promise<Result<null>> {
    const { kind } = owner;
    this.commit(() =>
      this.sql.exec(
        `INSERT INTO ending_namespaces VALUES (?, ?, ?)
         ON CONFLICT (kind, name) DO UPDATE SET due = excluded.due`,
        kind,
        name,
        Date.now() + GRACE_MS,
      ),
    );
    const closed = await owner.close(name);
    this.commit(() => {
      this.sql.exec("DELETE FROM ending_namespaces WHERE kind = ? AND name = ?", kind, name);
      if (closed.ok) owner.complete(name);
    });
    return closed;
  }
}
