import type { LeaseRow, LeaseView } from "../../contracts/credential-engine.ts";
import { earliest } from "../../lib/earliest.ts";
import { upperBound } from "../../lib/text-range.ts";
import { Memo } from "../../platform/durable/memo.ts";
import type { EngineStates } from "../engines/engine-type.ts";

/**
 * `ending`: revocation is in progress. `irrevocable`: revocation failed repeatedly, and an operator should intervene.
 */
type LeaseState = "live" | "ending" | "irrevocable";

interface NewLease {
  readonly id: string;
  readonly role: string;
  readonly token: string;
  readonly resources: EngineStates["resources"];
  /** Times in ms since 1970. `keyEnds`: the lease is not renewed beyond it. */
  readonly issued: number;
  readonly expires: number;
  readonly keyEnds: number;
  readonly renewable: boolean;
  /** Revocation time unless the response is sent before; null if the caller can repeat the request. */
  readonly handOverBy: number | null;
  readonly repeat: string | null;
  readonly sealed: Uint8Array | null;
  /** Id of the identity that made it. */
  readonly account: number;
}

/**
 * The leases of one mount: one row each, deleted after revocation. Read by `LeaseLifecycle`, job outcomes and the lease
 * routes. The two deadlines that every commit reads are kept in memory. Writes run inside the object's transaction.
 */
export class LeaseStore {
  readonly #nextExpiry: Memo<number | null>;
  /** Deadlines of the responses that were not sent yet, by lease: few at a time. */
  readonly #handOvers: Memo<Map<string, number>>;
  /** Numbers of leases by the path that issued them, once a quota has asked for them. */
  readonly #byPath: Memo<Map<string, number>>;

  constructor(private readonly sql: SqlStorage) {
    this.#nextExpiry = new Memo(
      () => sql.exec<{ at: number | null }>("SELECT min(expires) AS at FROM leases WHERE state = 'live'").one().at,
    );
    this.#handOvers = new Memo(() => {
      const rows = sql.exec<{ id: string; at: number }>(
        "SELECT id, hand_over_by AS at FROM leases WHERE hand_over_by IS NOT NULL",
      );
      return new Map([...rows].map(({ id, at }) => [id, at]));
    });
    this.#byPath = new Memo(() => {
      const counts = new Map<string, number>();
      for (const { id } of sql.exec<{ id: string }>("SELECT id FROM leases")) addLease(counts, id, 1);
      return counts;
    });
  }

  /** Drops the values cached from rows; called after a rollback. */
  forgetMemos(): void {
    this.#nextExpiry.forget();
    this.#handOvers.forget();
    this.#byPath.forget();
  }

  insert(lease: NewLease): void {
    const { id, expires, handOverBy } = lease;
    const handOvers = this.#handOvers.get();
    this.sql.exec(
      `INSERT INTO leases
       (id, role, token, holding, issued, expires, key_ends, renewable, state, hand_over_by, repeat, sealed,
        account)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'live', ?, ?, ?, ?)`,
      lease.id,
      lease.role,
      lease.token,
      JSON.stringify(lease.resources),
      lease.issued,
      lease.expires,
      lease.keyEnds,
      lease.renewable ? 1 : 0,
      lease.handOverBy,
      lease.repeat,
      lease.sealed,
      lease.account,
    );
    this.#nextExpiry.change((at) => Math.min(at ?? expires, expires));
    this.#byPath.change((counts) => addLease(counts, id, 1));
    if (handOverBy !== null) handOvers.set(id, handOverBy);
  }

  find(id: string): LeaseRow | null {
    return this.sql.exec<LeaseRow>("SELECT * FROM leases WHERE id = ?", id).toArray()[0] ?? null;
  }

  ofRepeat(repeat: string): LeaseRow | null {
    return this.sql.exec<LeaseRow>("SELECT * FROM leases WHERE repeat = ?", repeat).toArray()[0] ?? null;
  }

  extend(id: string, expires: number, renewable: boolean, now: number): void {
    this.#write(
      "UPDATE leases SET expires = ?, renewable = ?, renewed = ? WHERE id = ?",
      expires,
      renewable ? 1 : 0,
      now,
      id,
    );
  }

  /** Marks the lease as ending; its stored credentials are dropped and cannot be returned again. */
  end(id: string): void {
    this.#handedOver(
      id,
      "UPDATE leases SET state = 'ending', renewable = 0, failure = NULL, hand_over_by = NULL, repeat = NULL, sealed = NULL",
    );
  }

  /** Records that the response is about to be sent; the lease now lives for its TTL. */
  handOver(id: string): void {
    this.#handedOver(id, "UPDATE leases SET hand_over_by = NULL");
  }

  /** Brings the hand-over deadline forward; no effect after hand-over. */
  expectHandOver(id: string, by: number): void {
    this.#write("UPDATE leases SET hand_over_by = min(hand_over_by, ?) WHERE id = ?", by, id);
  }

  /** Up to `limit` leases whose hand-over deadline has passed. */
  notHandedOver(now: number, limit: number): LeaseRow[] {
    return this.sql
      .exec<LeaseRow>("SELECT * FROM leases WHERE hand_over_by <= ? ORDER BY hand_over_by LIMIT ?", now, limit)
      .toArray();
  }

  nextHandOver(): number | null {
    return earliest(...this.#handOvers.get().values());
  }

  failed(id: string, failure: string, state: LeaseState): void {
    this.#write("UPDATE leases SET state = ?, failure = ? WHERE id = ?", state, failure, id);
  }

  delete(id: string): void {
    this.#handedOver(id, "DELETE FROM leases");
    this.sql.exec("DELETE FROM lease_users WHERE lease = ?", id);
    this.#byPath.forget();
  }

  /** The number of leases of each path that has issued some. */
  countByPath(): ReadonlyMap<string, number> {
    return this.#byPath.get();
  }

  /** Expires the leases of a token that no other token shares; without a token, all leases. */
  expire(token: string | null, now: number): void {
    const change = "UPDATE leases SET expires = min(expires, ?) WHERE state = 'live'";
    if (token === null) this.#write(change, now);
    else this.#write(`${change} AND token = ? AND id NOT IN (SELECT lease FROM lease_users)`, now, token);
  }

  /** Sets the end of a shared lease. */
  setEnd(id: string, expires: number): void {
    this.#write("UPDATE leases SET expires = ? WHERE id = ? AND state = 'live'", expires, id);
  }

  /** Makes a lease that of later requests no more; its stored credentials are dropped. */
  unshare(id: string): void {
    this.#write("UPDATE leases SET repeat = NULL, sealed = NULL WHERE id = ?", id);
  }

  /** Up to `limit` live leases that have expired. */
  expired(now: number, limit: number): LeaseRow[] {
    return this.sql
      .exec<LeaseRow>("SELECT * FROM leases WHERE state = 'live' AND expires <= ? ORDER BY expires LIMIT ?", now, limit)
      .toArray();
  }

  nextExpiry(): number | null {
    return this.#nextExpiry.get();
  }

  /** A page of the leases under a prefix, sorted by id; of one state, or of all. */
  under(prefix: string, after: string, limit: number, state: LeaseState | null = null): LeaseRow[] {
    return this.sql
      .exec<LeaseRow>(
        `SELECT * FROM leases WHERE id > ? AND id >= ? AND id < ? AND (? IS NULL OR state = ?) ORDER BY id LIMIT ?`,
        after,
        prefix,
        upperBound(prefix),
        state,
        state,
        limit,
      )
      .toArray();
  }

  /** Up to `limit` names directly below a folder, sorted, after `behind`. Names of folders end with a slash. */
  names(folder: string, behind: string, limit: number): string[] {
    const names: string[] = [];
    for (let after = behind === "" ? folder : beyond(folder + behind); ; ) {
      const rows = this.sql
        .exec<{ id: string }>(
          "SELECT id FROM leases WHERE id > ? AND id < ? ORDER BY id LIMIT ?",
          after,
          upperBound(folder),
          Math.min(limit - names.length, NAMES_PER_READ),
        )
        .toArray();
      if (rows.length === 0) return names;
      for (const { id } of rows) {
        const slash = id.indexOf("/", folder.length);
        const end = slash < 0 ? id : id.slice(0, slash + 1);
        names.push(end.slice(folder.length));
        after = beyond(end);
        // The rest of a folder is skipped.
        if (slash >= 0) break;
      }
    }
  }

  /** Up to `limit` leases whose revocation failed and is retried later. */
  failures(limit: number): LeaseRow[] {
    return this.sql.exec<LeaseRow>("SELECT * FROM leases WHERE failure IS NOT NULL LIMIT ?", limit).toArray();
  }

  count(state: LeaseState | null = null): number {
    return this.sql
      .exec<{ n: number }>("SELECT count(*) AS n FROM leases WHERE ? IS NULL OR state = ?", state, state)
      .one().n;
  }

  /** Changes a lease, whose response has no deadline from now on. */
  #handedOver(id: string, change: string): void {
    const handOvers = this.#handOvers.get();
    for (const { expires } of this.sql.exec<{ expires: number }>(`${change} WHERE id = ? RETURNING expires`, id)) {
      // Another lease ends first.
      this.#nextExpiry.change((at) => (at !== null && at < expires ? at : undefined));
    }
    handOvers.delete(id);
  }

  #write(statement: string, ...values: (SqlStorageValue | Uint8Array)[]): void {
    this.sql.exec(statement, ...values);
    this.forgetMemos();
  }
}

/** The path that issued a lease. */
export const leasePath = (id: string): string => id.slice(0, id.lastIndexOf("/"));

/** Changes the number of leases of the path of one. */
export function addLease(counts: Map<string, number>, id: string, more: number): Map<string, number> {
  const path = leasePath(id);
  return counts.set(path, (counts.get(path) ?? 0) + more);
}

export const resourcesIn = (lease: LeaseRow): EngineStates["resources"] => JSON.parse(lease.holding) as object;

export const leaseView = (lease: LeaseRow, now: number): LeaseView => ({
  id: lease.id,
  issue_time: new Date(lease.issued).toISOString(),
  expire_time: new Date(lease.expires).toISOString(),
  last_renewal: lease.renewed === null ? null : new Date(lease.renewed).toISOString(),
  renewable: lease.renewable === 1 && lease.state === "live",
  ttl: secondsLeft(lease.expires, now),
  ...(lease.failure !== null && { revoke_error: lease.failure }),
});

export const secondsLeft = (expires: number, now: number): number => Math.round((expires - now) / 1000);

/** Names read at a time: one at a time, a statement each took most of a long list. */
const NAMES_PER_READ = 200;

/** The smallest key after a lease, or after everything in a folder. */
const beyond = (name: string): string => (name.endsWith("/") ? upperBound(name) : name);
