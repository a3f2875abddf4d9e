import type { Append, StreamEvent } from "../contracts/event.ts";
import type { AccountGap } from "../contracts/event-log.ts";
import { ACCESS_ACCOUNT, SERVICE_ACCOUNT, TENANT } from "../publishing/event-accounts.ts";
import { headersText } from "../publishing/event-headers.ts";
import { Line } from "./line.ts";

/*
 * Fair shares of the event buffer. Lines with an account count against its share once the buffer is full. Lines without
 * one (reports of schedulers, nodes) belong to the deployment and are evicted by age only. Shares are enforced before
 * any other line is evicted.
 */

/** Size above which a line of a non-root namespace is stored without payloads. */
const MAX_TENANT_LINE_BYTES = 64 * 1024;
export const mostBytesOf = (account: string | null): number =>
  account?.startsWith(TENANT) ? MAX_TENANT_LINE_BYTES : Number.POSITIVE_INFINITY;

/** The common account of a line's events; null when they have none, or several. */
export function accountOf({ events }: Append): string | null {
  const [account, ...others] = new Set(events.map(({ Account }) => Account));
  return others.length > 0 ? null : (account ?? null);
}

/** Maximum of all non-root namespaces together: a quarter. */
const TENANTS_SHARE = 1 / 4;
const MIN_TENANTS = 4;

/** Bytes and lines: of an account, of what shrinking removes from it, or as fractions of the buffer. */
export interface Amount {
  readonly bytes: number;
  readonly lines: number;
}

const NOTHING: Amount = { bytes: 0, lines: 0 };
/** Rows processed per statement. */
const PAGE = 50;
/** Accounts are shrunk this far below their share, so that not every append shrinks them. */
const SLACK = 0.02;

/** Buffer usage by account. Writes belong in a transaction; after a rollback, call `reload`. */
export class Shares {
  readonly #held = new Map<string, Amount>();
  /** Null until read from the rows. */
  #gaps: readonly AccountGap[] | null = null;

  constructor(private readonly sql: SqlStorage) {}

  reload(): void {
    this.#gaps = null;
    this.#held.clear();
    for (const { account, bytes, lines } of this.sql.exec<AccountRow>("SELECT account, bytes, lines FROM accounts"))
      this.#held.set(account, { bytes, lines });
  }

  /** The newest line of each account that was evicted for its share, while older lines are in the buffer. */
  get gaps(): readonly AccountGap[] {
    this.#gaps ??= this.sql
      .exec<{ account: string; upTo: number }>("SELECT account, upto AS upTo FROM account_gaps")
      .toArray();
    return this.#gaps;
  }

  /** Forgets gaps before the oldest line of the buffer: its index shows them. */
  forgetGapsBefore(oldest: number): void {
    if (!this.gaps.some(({ upTo }) => upTo < oldest)) return;
    this.sql.exec("DELETE FROM account_gaps WHERE upto < ?", oldest);
    this.#gaps = null;
  }

  /** Adds new lines. */
  add(lines: readonly { readonly account: string | null; readonly events: string }[]): void {
    const counted = lines.filter(({ account }) => account !== null);
    for (const [account, some] of Map.groupBy(counted, (line) => line.account ?? "")) {
      const bytes = some.reduce((sum, { events }) => sum + Buffer.byteLength(events), 0);
      this.count(account, { bytes, lines: some.length });
    }
  }

  /** Adjusts the usage of an account. */
  count(account: string, { bytes, lines }: Amount): void {
    const before = this.#held.get(account) ?? NOTHING;
    const held = { bytes: before.bytes + bytes, lines: before.lines + lines };
    if (held.lines > 0) {
      this.#held.set(account, held);
      this.sql.exec(
        `INSERT INTO accounts VALUES (?1, ?2, ?3)
         ON CONFLICT (account) DO UPDATE SET bytes = excluded.bytes, lines = excluded.lines`,
        account,
        held.bytes,
        held.lines,
      );
    } else {
      this.#held.delete(account);
      this.sql.exec("DELETE FROM accounts WHERE account = ?", account);
    }
  }

  /** Subtracts lines before `first`, before their eviction. */
  evictBefore(first: number): void {
    if (this.#held.size === 0) return;
    const leaving = this.sql
      .exec<AccountRow>(
        `SELECT account, sum(octet_length(events)) AS bytes, count(*) AS lines FROM lines
         WHERE account IS NOT NULL AND idx < ? GROUP BY account`,
        first,
      )
      .toArray();
    for (const { account, bytes, lines } of leaving) this.count(account, { bytes: -bytes, lines: -lines });
  }

  /**
   * Shrinks accounts to their shares, oldest lines first: lines lose their payloads and, in accounts with a line bound,
   * are evicted. The newest line of the buffer stays.
   */
  shrink(maxLines: number, maxBytes: number, newest: number): Amount {
    const total = { bytes: 0, lines: 0 };
    for (const [account, held] of [...this.#held]) {
      const share = this.#shareOf(account);
      const [most, mostLines] = [share.bytes * maxBytes, share.lines * maxLines];
      if (held.bytes <= most && held.lines <= mostLines) continue;
      const shrunk = this.#shrink(account, most * (1 - SLACK), mostLines * (1 - SLACK), newest);
      total.bytes += shrunk.bytes;
      total.lines += shrunk.lines;
    }
    return total;
  }

  #shareOf(account: string): Amount {
    if (account === ACCESS_ACCOUNT) return { bytes: 1 / 4, lines: Number.POSITIVE_INFINITY };
    if (account === SERVICE_ACCOUNT) return { bytes: 1 / 4, lines: 1 / 2 };
    if (!account.startsWith(TENANT)) return { bytes: 1 / 2, lines: Number.POSITIVE_INFINITY };
    const tenants = [...this.#held.keys()].filter((name) => name.startsWith(TENANT)).length;
    const each = TENANTS_SHARE / Math.max(MIN_TENANTS, tenants);
    return { bytes: each, lines: each };
  }

  #shrink(account: string, bytes: number, lines: number, newest: number): Amount {
    const held = () => this.#held.get(account) ?? NOTHING;
    const total = { bytes: 0, lines: 0 };
    const counted = (shrunk: Amount) => {
      this.count(account, { bytes: -shrunk.bytes, lines: -shrunk.lines });
      total.bytes += shrunk.bytes;
      total.lines += shrunk.lines;
      return shrunk.bytes + shrunk.lines > 0;
    };
    while (held().bytes > bytes && counted(this.#removePayloads(account, newest)));
    // Accounts bounded only by bytes keep their lines without payloads.
    const leaves = () => held().lines > lines || (Number.isFinite(lines) && held().bytes > bytes);
    while (leaves() && counted(this.#evict(account, held().lines - lines, newest)));
    return total;
  }

  /** Removes the payloads of an account's oldest lines that have some. */
  #removePayloads(account: string, newest: number): Amount {
    const rows = this.sql
      .exec<{ idx: number; events: string }>(
        "SELECT idx, events FROM lines WHERE account = ? AND fat = 1 AND idx < ? ORDER BY idx LIMIT ?",
        account,
        newest,
        PAGE,
      )
      .toArray();
    let bytes = 0;
    for (const { idx, events } of rows) {
      const thin = withoutPayloads(idx, JSON.parse(events) as StreamEvent[]);
      const saved = Buffer.byteLength(events) - Buffer.byteLength(thin.text);
      this.sql.exec(
        "UPDATE lines SET events = ?, facts = ?, fat = 0, thinned = ? WHERE idx = ?",
        thin.text,
        headersText(thin.headers),
        saved,
        idx,
      );
      bytes += saved;
    }
    return { bytes, lines: 0 };
  }

  /** Evicts the oldest lines of an account, at most one page. Lines without payloads are the oldest. */
  #evict(account: string, wanted: number, newest: number): Amount {
    const limit = Math.max(1, Math.min(PAGE, Math.ceil(wanted)));
    const oldestOf = (fat: number) =>
      this.sql
        .exec<{ idx: number; source: string; seq: number; bytes: number }>(
          `SELECT idx, source, seq, octet_length(events) AS bytes FROM lines
           WHERE account = ? AND fat = ? AND idx < ? ORDER BY idx LIMIT ?`,
          account,
          fat,
          newest,
          limit,
        )
        .toArray();
    const thin = oldestOf(0);
    const rows = thin.length > 0 ? thin : oldestOf(1);
    for (const { idx, source, seq } of rows) {
      this.sql.exec(
        `INSERT INTO sources (source, seq, idx) VALUES (?, ?, ?) ON CONFLICT (source) DO UPDATE
         SET seq = max(seq, excluded.seq), idx = max(idx, excluded.idx)`,
        source,
        seq,
        idx,
      );
      this.sql.exec("DELETE FROM lines WHERE idx = ?", idx);
    }
    const last = rows.at(-1);
    if (last) this.#recordGap(account, last.idx);
    return { bytes: rows.reduce((sum, { bytes }) => sum + bytes, 0), lines: rows.length };
  }

  #recordGap(account: string, upTo: number): void {
    this.sql.exec(
      `INSERT INTO account_gaps VALUES (?, ?)
       ON CONFLICT (account) DO UPDATE SET upto = max(upto, excluded.upto)`,
      account,
      upTo,
    );
    this.#gaps = null;
  }
}

type AccountRow = { account: string; bytes: number; lines: number };

/** A line that reports the change without the object. */
export const withoutPayloads = (index: number, events: readonly StreamEvent[]): Line =>
  Line.of(
    index,
    events.map((event) => ({ ...event, Payload: {} })),
  );
