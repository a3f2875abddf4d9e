import type { DataKeys } from "../../platform/crypto/data-keys.ts";
import { DeploymentState } from "../../platform/durable/deployment-state.ts";
import { Memo } from "../../platform/durable/memo.ts";
import type { EngineStates } from "../engines/engine-type.ts";

type Account = EngineStates["account"];

/**
 * The identities that have made something for one mount, a sealed row each. Read by `EngineAccounts`; leases, jobs and
 * roles have the id of theirs. A former identity is deleted with the last of them. Writes run inside the object's
 * transaction.
 */
export class AccountStore {
  readonly #state: DeploymentState;
  readonly #current: Memo<number>;
  readonly #accounts: Memo<ReadonlyMap<number, Account>>;

  constructor(
    private readonly sql: SqlStorage,
    private readonly keys: DataKeys,
    private readonly scope: string,
  ) {
    this.#state = new DeploymentState(sql);
    this.#current = new Memo(() => Number(this.#state.get("account") ?? 0));
    this.#accounts = new Memo(() => {
      const rows = sql.exec<{ id: number; sealed: ArrayBuffer }>("SELECT id, sealed FROM accounts ORDER BY id");
      return new Map(
        [...rows].map(({ id, sealed }) => [id, JSON.parse(keys.openText(sealed, this.#context(id))) as Account]),
      );
    });
  }

  /** Drops the values cached from rows; called after a rollback. */
  forgetMemos(): void {
    this.#current.forget();
    this.#accounts.forget();
  }

  /** Id of the identity for new calls. */
  current(): number {
    return this.#current.get();
  }

  /** @throws Sealed */
  find(id: number): Account | null {
    return this.#accounts.get().get(id) ?? null;
  }

  /** All recorded identities, by id. @throws Sealed */
  all(): ReadonlyMap<number, Account> {
    return this.#accounts.get();
  }

  /** Records an identity, or its newer secret. */
  put(id: number, account: Account): void {
    this.sql.exec(
      "INSERT INTO accounts VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET sealed = excluded.sealed",
      id,
      this.keys.seal(JSON.stringify(account), this.#context(id)),
    );
    this.#accounts.forget();
  }

  /** Makes an identity that of new calls. */
  setCurrent(id: number): void {
    this.#state.set("account", String(id));
    this.#current.forget();
  }

  /** An id that no lease, job or role has. */
  newId(): number {
    return Math.max(this.current(), ...this.#accounts.get().keys()) + 1;
  }

  /** Drops the record of the identity for new calls, whose secret was replaced: it is recorded again with the new one. */
  secretReplaced(): void {
    this.delete(this.current());
  }

  /** Whether a lease or a job has an identity. */
  isUsed(id: number): boolean {
    return ["leases", "jobs"].some(
      (table) => this.sql.exec(`SELECT 1 FROM ${table} WHERE account = ? LIMIT 1`, id).toArray().length > 0,
    );
  }

  delete(id: number): void {
    this.sql.exec("DELETE FROM accounts WHERE id = ?", id);
    this.#accounts.forget();
  }

  #context(id: number): string {
    return `${this.scope} account ${id}`;
  }
}
