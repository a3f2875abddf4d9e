import type { KeyHolder } from "../../contracts/access-control.ts";
import { ok, type Result } from "../../lib/result.ts";
import { upperBound } from "../../lib/text-range.ts";
import type { DataKeys } from "../../platform/crypto/data-keys.ts";
import type { DeploymentState } from "../../platform/durable/deployment-state.ts";
import { type ChangedKeys, NOTHING } from "../../platform/durable/object-context.ts";
import type { Outbox } from "../../platform/durable/outbox.ts";
import { rowsOf } from "../../platform/durable/outbox-lanes.ts";
import type { MountTable } from "../mounts/mounts.ts";
import { column } from "../rows.ts";

interface KeyRotationDependencies {
  readonly sql: SqlStorage;
  readonly outbox: Outbox;
  commit<T>(change: () => T, keys?: ChangedKeys): T;
}

/** The deployment's key term, and the objects that must rewrap their keys after a rotation. */
export class KeyRotation {
  constructor(
    private readonly deps: KeyRotationDependencies,
    private readonly state: DeploymentState,
    private readonly keys: DataKeys,
    private readonly mounts: MountTable,
  ) {}

  /** Sets the first term of a new deployment. Runs inside a transaction. */
  begin(now: number): void {
    this.state.set("term", "1");
    this.state.set("term_installed", String(now));
  }

  status(): { term: number; installed: number; pending: number } {
    const pending = rowsOf(this.deps.sql, "rekey");
    return { term: this.#term(), installed: Number(this.state.get("term_installed")), pending };
  }

  /** Advances this object to the next term, and enqueues the term for all other objects with keys. @throws Sealed */
  rotate(now: number): Result<null> {
    const term = this.#term() + 1;
    this.deps.commit(() => {
      this.keys.rotate(term, now);
      this.state.set("term", String(term));
      this.state.set("term_installed", String(now));
      for (const mount of this.mounts.every()) this.#enlist(`${mount.type} ${mount.uuid}`, term);
      const holders = this.deps.sql.exec<{ kind: string; name: string }>("SELECT kind, name FROM key_holders");
      for (const { kind, name } of holders) this.#enlist(`${kind} ${name}`, term);
    });
    return ok(null);
  }

  /** Registers or removes an object with data keys that is not a mount. @returns the current term */
  register(kind: KeyHolder, name: string, holds: boolean): number {
    const statement = holds
      ? "INSERT OR IGNORE INTO key_holders (kind, name) VALUES (?, ?)"
      : "DELETE FROM key_holders WHERE kind = ? AND name = ?";
    this.deps.commit(() => this.deps.sql.exec(statement, kind, name), NOTHING);
    return this.#term();
  }

  /** The destinations of one namespace as `type/name`, without those of its children. */
  destinationsIn(namespace: string): string[] {
    const query = `SELECT name FROM key_holders
      WHERE kind = 'sync-destination' AND name >= ? AND name < ? ORDER BY name`;
    return column(this.deps.sql, query, namespace, upperBound(namespace))
      .map((name) => name.slice(namespace.length))
      .filter((rest) => /^[^/]+\/[^/]+$/.test(rest));
  }

  /** Enqueues the term for an object; a newer term replaces it. */
  #enlist(lane: string, term: number): void {
    this.deps.outbox.enlistLatest("rekey", lane, { term });
  }

  #term(): number {
    return Number(this.state.get("term") ?? 1);
  }
}
