import { createHash } from "node:crypto";
import type { CloudFailure } from "../../contracts/cloud-calls.ts";
import { backoff } from "../../lib/backoff.ts";
import { earliest } from "../../lib/earliest.ts";
import type { DataKeys } from "../../platform/crypto/data-keys.ts";
import { Memo } from "../../platform/durable/memo.ts";
import type { EngineStates, IssueOutcome, PoolSpec } from "../engines/engine-type.ts";

/** The pool of one role. Times in ms, `due` since 1970: when it is filled or emptied next; null while it is full. */
export interface PoolRow extends Record<string, SqlStorageValue> {
  role: string;
  size: number;
  ttl: number;
  content: string;
  life: number;
  due: number | null;
  failures: number;
  failure: string | null;
}

/** Credentials that are ready. `until`: not handed over from then on; `ends`: end of their secret at the provider. */
interface ReadyRow extends Record<string, SqlStorageValue> {
  id: string;
  role: string;
  content: string;
  restored: string;
  holding: string;
  made: number;
  until: number;
  ends: number;
  sealed: ArrayBuffer;
}

/** Credentials without a user. */
export interface Ready {
  readonly id: string;
  readonly role: string;
  /** ms since 1970. */
  readonly made: number;
  /** Ids for the removal. */
  readonly resources: EngineStates["resources"];
}

const DUE_NOW = 0;

/**
 * The pools of roles, and credentials that are ready: one row each, deleted by their hand-over and by their removal.
 * Credentials in the making are jobs. Read by `WarmPool` and job outcomes; the next deadline is kept in memory. Writes run
 * inside the object's transaction.
 */
export class PoolStore {
  /** Pools by role: each request for credentials reads them. */
  readonly #pools: Memo<ReadonlyMap<string, PoolRow>>;
  readonly #nextDue: Memo<number | null>;

  /** @param restored id of the restore that the object's rows came from; empty without one */
  constructor(
    private readonly sql: SqlStorage,
    private readonly keys: DataKeys,
    private readonly scope: string,
    private readonly restored: () => string,
  ) {
    this.#pools = new Memo(
      () => new Map([...sql.exec<PoolRow>("SELECT * FROM pools ORDER BY role")].map((row) => [row.role, row])),
    );
    this.#nextDue = new Memo(() => {
      const due = earliest(...this.all().map((row) => row.due));
      const { until } = sql
        .exec<{ until: number | null }>(
          "SELECT min(CASE WHEN restored = ? THEN until ELSE 0 END) AS until FROM pooled",
          restored(),
        )
        .one();
      return earliest(due, until);
    });
  }

  /** Drops the values cached from rows; called after a rollback. */
  forgetMemos(): void {
    this.#pools.forget();
    this.#nextDue.forget();
  }

  /** The next time at which a pool changes, ms since 1970. */
  nextDue(): number | null {
    return this.#nextDue.get();
  }

  find(role: string): PoolRow | null {
    return this.#pools.get().get(role) ?? null;
  }

  all(): PoolRow[] {
    return [...this.#pools.get().values()];
  }

  /**
   * Sets the pool of a role as written, which is due then. @param lifeMs of a secret that is handed over now
   */
  put(role: string, { size, ttl, content }: PoolSpec, lifeMs: number): void {
    this.#write(
      `INSERT INTO pools (role, size, ttl, content, life, due) VALUES (?, ?, ?, ?, ?, ${DUE_NOW})
       ON CONFLICT (role) DO UPDATE SET size = excluded.size, ttl = excluded.ttl, content = excluded.content,
       life = excluded.life, due = ${DUE_NOW}, failures = 0, failure = NULL`,
      role,
      size,
      ttl * 1000,
      contentOf(content),
      lifeMs,
    );
  }

  /** Raises the life of secrets that are handed over; those made for a shorter one are of no use. */
  setLife(role: string, lifeMs: number): void {
    this.#write(`UPDATE pools SET life = ?, due = ${DUE_NOW} WHERE role = ?`, lifeMs, role);
  }

  delete(role: string): void {
    this.#write("DELETE FROM pools WHERE role = ?", role);
  }

  /** Makes a pool due at a time; null: it is full. */
  setDue(role: string, due: number | null): void {
    this.#write("UPDATE pools SET due = ? WHERE role = ?", due, role);
  }

  /** Records a failed filling, which is tried again at a time. */
  failed(role: string, failure: string, due: number): void {
    this.#write("UPDATE pools SET failures = failures + 1, failure = ?, due = ? WHERE role = ?", failure, due, role);
  }

  /** Adds credentials, and ends a row of failures. */
  add(id: string, { role, ttl, content }: PoolRow, outcome: IssueOutcome<EngineStates>, made: number): void {
    this.#write(
      `INSERT INTO pooled (id, role, content, restored, holding, made, until, ends, sealed)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      id,
      role,
      content,
      this.restored(),
      JSON.stringify(outcome.resources),
      made,
      made + ttl,
      outcome.endsAt,
      this.keys.seal(JSON.stringify(outcome), this.#context(id)),
    );
    this.#write(`UPDATE pools SET failures = 0, failure = NULL, due = ${DUE_NOW} WHERE role = ?`, role);
  }

  /** Whether credentials may be handed over. @param lifeMs how long their secret must live */
  has(pool: PoolRow, lifeMs: number, now: number): boolean {
    return this.#oldest(pool, lifeMs, now) !== undefined;
  }

  /** Takes the oldest credentials that may be handed over; their row is deleted. @throws Sealed */
  take(pool: PoolRow, lifeMs: number, now: number): IssueOutcome<EngineStates> | null {
    const row = this.#oldest(pool, lifeMs, now);
    if (!row) return null;
    const outcome = JSON.parse(this.keys.openText(row.sealed, this.#context(row.id))) as IssueOutcome<EngineStates>;
    this.#write("DELETE FROM pooled WHERE id = ?", row.id);
    this.setDue(pool.role, DUE_NOW);
    return outcome;
  }

  #oldest({ role, content }: PoolRow, lifeMs: number, now: number): ReadyRow | undefined {
    return this.sql
      .exec<ReadyRow>(
        `SELECT * FROM pooled WHERE role = ? AND content = ? AND restored = ? AND until > ? AND ends >= ?
         ORDER BY made, id LIMIT 1`,
        role,
        content,
        this.restored(),
        now,
        now + lifeMs,
      )
      .toArray()[0];
  }

  /**
   * Credentials of a role that will not be handed over: older than the pool's TTL, made for another content or a shorter
   * life, made before a restore, after which another caller may have them, or more than the pool's size. Without a pool:
   * all of them.
   */
  unfit(role: string, now: number): Ready[] {
    const pool = this.find(role);
    const isFit = ({ content, restored, until, ends }: ReadyRow) =>
      content === pool?.content && restored === this.restored() && until > now && ends >= now + pool.life;
    const rows = this.#rows(role);
    const fit = rows.filter(isFit);
    const kept = new Set(fit.slice(Math.max(fit.length - (pool?.size ?? 0), 0)));
    return rows.filter((row) => !kept.has(row)).map(ready);
  }

  /** Roles with ready credentials. */
  roles(): string[] {
    const rows = this.sql.exec<{ role: string }>("SELECT DISTINCT role FROM pooled ORDER BY role");
    return [...rows].map(({ role }) => role);
  }

  ofRole(role: string): Ready[] {
    return this.#rows(role).map(ready);
  }

  #rows(role: string): ReadyRow[] {
    return this.sql.exec<ReadyRow>("SELECT * FROM pooled WHERE role = ? ORDER BY made, id", role).toArray();
  }

  /** The number of ready credentials of a role. */
  count(role: string): number {
    return this.sql.exec<{ n: number }>("SELECT count(*) AS n FROM pooled WHERE role = ?", role).one().n;
  }

  /** Deletes credentials that are handed over or removed. */
  remove({ id }: Ready): void {
    this.#write("DELETE FROM pooled WHERE id = ?", id);
  }

  #context(id: string): string {
    return `${this.scope} pooled ${id}`;
  }

  #write(statement: string, ...values: (SqlStorageValue | Uint8Array)[]): void {
    this.sql.exec(statement, ...values);
    this.forgetMemos();
  }
}

const ready = ({ id, role, made, holding }: ReadyRow): Ready => ({
  id,
  role,
  made,
  resources: JSON.parse(holding) as object,
});

/** Identifies a content: credentials of another one are not handed over. */
export const contentOf = (content: unknown): string =>
  createHash("sha256").update(JSON.stringify(content)).digest("base64url");

/** Back-off of a pool that cannot be filled: half a minute at first, an hour at most. */
const FILL_RETRY = { base: 30_000, cap: 3_600_000 };

/** The next time at which a pool is filled after a failure, ms since 1970. */
export const nextFill = ({ failures }: Pick<PoolRow, "failures">, failure: CloudFailure | null, now: number): number =>
  now + Math.max(backoff(failures, FILL_RETRY), failure?.retryAfterMs ?? 0);
