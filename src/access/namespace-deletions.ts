import type { Result } from "../lib/result.ts";

/** `cluster`: flat namespaces of the cluster API, by name. `secrets`: the tree of the secrets API, by path. */
export type NamespaceKind = "cluster" | "secrets";

interface Ending extends Record<string, SqlStorageValue> {
  kind: NamespaceKind;
  name: string;
}

/** The deletion of one kind of namespace. */
export interface DeletionSteps {
  /** Asks the owners of the namespace's content to refuse, or to admit no more content. Idempotent. */
  close(name: string): Promise<Result<null>>;
  /** Deletes the namespace's own rows inside the caller's transaction. */
  complete(name: string): void;
}

interface Dependencies {
  readonly sql: SqlStorage;
  readonly steps: Readonly<Record<NamespaceKind, DeletionSteps>>;
  commit<T>(change: () => T): T;
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
  readonly #deps: Dependencies;
  readonly #running = new Map<string, Promise<Result<null>>>();

  constructor(deps: Dependencies) {
    this.#deps = deps;
  }

  has(kind: NamespaceKind, name: string): boolean {
    const { sql } = this.#deps;
    return sql.exec("SELECT 1 FROM ending_namespaces WHERE kind = ? AND name = ?", kind, name).toArray().length > 0;
  }

  /**
   * Deletes a namespace. Concurrent calls share one run. Rejects while an owner is unreachable; the alarm then retries.
   */
  end(kind: NamespaceKind, name: string): Promise<Result<null>> {
    const key = `${kind} ${name}`;
    const running = this.#running.get(key) ?? this.#run(kind, name).finally(() => this.#running.delete(key));
    this.#running.set(key, running);
    return running;
  }

  nextDue(): number | null {
    return this.#deps.sql.exec<{ due: number | null }>("SELECT min(due) AS due FROM ending_namespaces").one().due;
  }

  /** Resumes interrupted deletions. Never rejects. */
  async resume(now: number): Promise<void> {
    const due = this.#deps.sql
      .exec<Ending>("SELECT kind, name FROM ending_namespaces WHERE due <= ? ORDER BY due LIMIT 20", now)
      .toArray();
    await Promise.allSettled(due.map(({ kind, name }) => this.end(kind, name)));
  }

  async #run(kind: NamespaceKind, name: string): Promise<Result<null>> {
    const { sql, commit, steps } = this.#deps;
    commit(() =>
      sql.exec(
        `INSERT INTO ending_namespaces VALUES (?, ?, ?)
         ON CONFLICT (kind, name) DO UPDATE SET due = excluded.due`,
        ...[kind, name, Date.now() + GRACE_MS],
      ),
    );
    const closed = await steps[kind].close(name);
    commit(() => {
      sql.exec("DELETE FROM ending_namespaces WHERE kind = ? AND name = ?", kind, name);
      if (closed.ok) steps[kind].complete(name);
    });
    return closed;
  }
}
