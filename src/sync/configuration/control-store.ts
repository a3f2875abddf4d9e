import { DEFAULTS, type SyncConfig } from "../../contracts/sync-control.ts";
import { texts, upsert } from "../rows.ts";

/**
 * Owns the tables `config`, `permissions`, `resuming` and `targets` of `SyncControl`. Each call is one indexed
 * statement; writes run inside the caller's transaction.
 */
export class ControlStore {
  constructor(private readonly sql: SqlStorage) {}

  config(): SyncConfig {
    const [row] = this.sql
      .exec<{ disabled: number; queue_capacity: number }>("SELECT disabled, queue_capacity FROM config")
      .toArray();
    return row ? { disabled: row.disabled === 1, queue_capacity: row.queue_capacity } : DEFAULTS;
  }

  setConfig({ disabled, queue_capacity }: SyncConfig): void {
    upsert(this.sql, "config", { id: 1, disabled: disabled ? 1 : 0, queue_capacity }, "id");
  }

  /** The stored upper bound of the ends of gate leases; 0 without any. */
  leasedUntil(): number {
    return this.sql.exec<{ until: number }>("SELECT until FROM permissions").toArray()[0]?.until ?? 0;
  }

  setLeasedUntil(until: number): void {
    upsert(this.sql, "permissions", { id: 1, until }, "id");
  }

  /** The destination after which the next page to wake begins; null while none is to be woken. */
  resuming(): string | null {
    return this.sql.exec<{ after: string }>("SELECT after FROM resuming").toArray()[0]?.after ?? null;
  }

  /** @param after null ends it */
  setResuming(after: string | null): void {
    if (after === null) this.sql.exec("DELETE FROM resuming");
    else upsert(this.sql, "resuming", { id: 1, after }, "id");
  }

  /**
   * Sets the targets of a destination, none after its deletion. Idempotent.
   * @returns other destinations with a common target
   */
  useTargets(destination: string, targets: readonly string[]): string[] {
    const others = new Set<string>();
    this.sql.exec("DELETE FROM targets WHERE destination = ?", destination);
    for (const target of targets) {
      for (const other of texts(this.sql, "SELECT destination FROM targets WHERE target = ?", target))
        others.add(other);
      this.sql.exec("INSERT INTO targets VALUES (?, ?)", target, destination);
    }
    return [...others];
  }
}
