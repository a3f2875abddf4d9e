import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it, vi } from "vitest";
import type { Append } from "../../src/contracts/event.ts";
import type { Line } from "../../src/events/line.ts";
import { LineStore, lineMigrations } from "../../src/events/line-store.ts";
import { migrate } from "../../src/platform/durable/migrations.ts";
import { accessAccount, volumeAccount } from "../../src/publishing/event-accounts.ts";
import { eventLog } from "../../src/rpc/stubs.ts";
import { event } from "./streams.ts";

/* The cost of the log's storage, counted in rows, and its retention. */

/** Runs on the storage of a separate object. */
const inStorage = (run: (storage: DurableObjectStorage) => void | Promise<void>) =>
  runInDurableObject(env.EVENT_LOG.getByName(crypto.randomUUID()), (_object, { storage }) => run(storage));

/** A store on SQL that counts the rows it reads. */
function counting(sql: SqlStorage) {
  const cursors: { readonly rowsRead: number }[] = [];
  const counted = {
    exec: (...parameters: Parameters<SqlStorage["exec"]>) => {
      const cursor = sql.exec(...parameters);
      cursors.push(cursor);
      return cursor;
    },
  } as unknown as SqlStorage;
  return {
    make: () => new LineStore(counted),
    rows: () => cursors.splice(0).reduce((sum, { rowsRead }) => sum + rowsRead, 0),
  };
}

const entry = (seq: number, size = 100): Append => ({
  seq,
  events: [event({ Key: seq % 1_000 === 0 ? "rare" : `k${seq}`, Payload: { Job: { ID: "x".repeat(size) } } })],
});

const entries = (from: number, count: number): Append[] => Array.from({ length: count }, (_, n) => entry(from + n));

const LINES = 20_000;

it("resuming at any index, restarting and appending cost the same for any buffer size", async () => {
  await inStorage((storage) => {
    const { make, rows } = counting(storage.sql);
    const store = make();
    store.append("a", entries(1, LINES));
    rows();
    for (const cursor of [0, LINES / 2, LINES - 10]) {
      let found = 0;
      for (const { index } of store.after(cursor, null).lines) {
        found += 1;
        expect(index).toBe(cursor + found);
        if (found === 10) break;
      }
      expect(rows()).toBeLessThan(40);
    }
    const again = make();
    expect([again.lines, again.oldest, again.newest, again.bytes]).toEqual([LINES, 1, LINES, store.bytes]);
    expect(rows()).toBeLessThanOrEqual(4);
    again.append("a", [entry(LINES + 1)]);
    expect(rows()).toBeLessThanOrEqual(2);
  });
});

it("a reader of a topic reads each line of the backlog a few times at most", async () => {
  await inStorage((storage) => {
    const { make, rows } = counting(storage.sql);
    const store = make();
    store.append("a", entries(1, LINES));
    rows();
    let cursor = 0;
    while (cursor < LINES) {
      let read = 0;
      // A stream takes a chunk of so many lines at a time.
      for (const { index } of store.after(cursor, ['"Job"']).lines) {
        expect(index).toBe(++cursor);
        if (++read === 100) break;
      }
    }
    expect(rows()).toBeLessThan(4 * LINES);
  });
});

it("a filtered page reads a bounded number of lines and returns only possible matches", async () => {
  await inStorage((storage) => {
    const { make, rows } = counting(storage.sql);
    const store = make();
    store.append("a", entries(1, LINES));
    rows();
    const found: number[] = [];
    let cursor = 0;
    for (let pages = 0; cursor < LINES; pages++) {
      const { lines, upTo } = store.after(cursor, ['"rare"']);
      for (const { index } of lines) found.push(index);
      expect(rows()).toBeLessThan(6_000);
      expect(upTo).toBeGreaterThan(cursor);
      expect(pages).toBeLessThan(10);
      cursor = upTo;
    }
    expect(found).toEqual(Array.from({ length: LINES / 1_000 }, (_, n) => (n + 1) * 1_000));
  });
});

it("a reader that stops midway leaves no open cursor that locks the table", async () => {
  await inStorage((storage) => {
    const { sql } = storage;
    const store = new LineStore(sql);
    store.append("a", entries(1, 500));
    sql.exec("CREATE TABLE extra (id INTEGER)");
    for (const traces of [null, ['"k']]) {
      const seen: number[] = [];
      for (const { index } of store.after(0, traces).lines) {
        seen.push(index);
        if (seen.length === 40) break;
      }
      expect(seen).toEqual(Array.from({ length: 40 }, (_, n) => n + 1));
      sql.exec("DROP TABLE extra; CREATE TABLE extra (id INTEGER)");
    }
  });
});

it("lines of any size are read in any combination", async () => {
  await inStorage((storage) => {
    const store = new LineStore(storage.sql);
    const sizes = Array.from({ length: 200 }, (_, n) => (n % 50 === 7 ? 1_000_000 : (n * 977) % 40_000));
    for (const [n, size] of sizes.entries()) store.append("a", [entry(n + 1, size)]);
    for (const traces of [null, ['"k']]) {
      const indexes = [...store.after(3, traces).lines].map(({ index }) => index);
      expect(indexes).toEqual(sizes.map((_, n) => n + 1).slice(3));
    }
  });
});

it("eviction reads no more than the evicted lines", async () => {
  await inStorage((storage) => {
    const { make, rows } = counting(storage.sql);
    const store = make();
    store.append("a", entries(1, LINES));
    const { bytes } = store;
    rows();
    store.trim(LINES, bytes - 1);
    const gone = LINES - store.lines;
    expect(gone).toBeGreaterThan(100);
    expect(gone).toBeLessThan(LINES * 0.03);
    // Once to note their sources, once to delete them, and a few seeks to find the first that stays.
    expect(rows()).toBeLessThan(3 * gone + 100);
    const counted = storage.sql
      .exec<{ n: number; bytes: number; oldest: number }>(
        "SELECT count(*) AS n, sum(length(CAST(events AS BLOB))) AS bytes, min(idx) AS oldest FROM lines",
      )
      .one();
    expect(counted).toEqual({ n: store.lines, bytes: store.bytes, oldest: store.oldest });
  });
});

it.each([
  ["lines", 50, 1_000_000],
  ["bytes", 1_000, 9_000],
  ["neither, with room for less than one", 1, 1],
])("keeps counters equal to its rows while %s are bounded, for any sizes", async (_what, lines, bytes) => {
  await inStorage((storage) => {
    const store = new LineStore(storage.sql);
    for (let seq = 1; seq <= 300; seq++) {
      store.append(`s${seq % 3}`, [entry(seq, (seq * 37) % 400)]);
      store.trim(lines, bytes);
      expect(store.lines === 1 || (store.lines <= lines && store.bytes <= bytes)).toBe(true);
      expect(store.newest).toBe(seq);
    }
    const again = new LineStore(storage.sql);
    expect([again.lines, again.bytes, again.oldest]).toEqual([store.lines, store.bytes, store.oldest]);
    for (const source of ["s0", "s1", "s2"]) {
      const before = again.newest;
      const { indexes, lines: added } = again.append(source, [entry(1)]);
      expect([added.length, again.newest]).toEqual([0, before]);
      expect(indexes[0]).toBeGreaterThan(295);
    }
  });
});

/** Totals over the rows of a store's tables, which its counters must equal. */
const counted = (sql: SqlStorage) => ({
  ...sql
    .exec<{ lines: number; bytes: number; oldest: number; newest: number }>(
      "SELECT count(*) AS lines, sum(octet_length(events)) AS bytes, min(idx) AS oldest, max(idx) AS newest FROM lines",
    )
    .one(),
  accounts: sql
    .exec(
      `SELECT account, sum(octet_length(events)) AS bytes, count(*) AS lines FROM lines WHERE account IS NOT NULL
       GROUP BY account ORDER BY account`,
    )
    .toArray(),
});
const booked = (store: LineStore, sql: SqlStorage) => ({
  lines: store.lines,
  bytes: store.bytes,
  oldest: store.oldest,
  newest: store.newest,
  accounts: sql.exec("SELECT account, bytes, lines FROM accounts ORDER BY account").toArray(),
});

/** An entry that counts against an account's share. */
const of = (account: string, each: Append): Append => ({
  ...each,
  events: each.events.map((one) => ({ ...one, Account: account })),
});

/** All lines, page by page. */
function everyLine(store: LineStore): Line[] {
  const found: Line[] = [];
  for (let cursor = 0; cursor < store.newest; ) {
    const { lines, upTo } = store.after(cursor, null);
    found.push(...lines);
    cursor = upTo;
  }
  return found;
}

describe("accounts of the buffer", () => {
  it("keep the lines of all others while one namespace exceeds the buffer", async () => {
    await inStorage((storage) => {
      const store = new LineStore(storage.sql);
      const [LIMIT_LINES, LIMIT_BYTES] = [2_000, 1_000_000];
      store.append("registry", entries(1, 500));
      store.append(
        "access",
        entries(1, 100).map((each) => of(accessAccount("b/"), each)),
      );
      for (let seq = 1; seq <= 6_000; seq++) {
        store.append("flood", [of(accessAccount("a/deep/"), entry(seq, seq % 3 === 0 ? 30_000 : 50))]);
        store.trim(LIMIT_LINES, LIMIT_BYTES);
      }
      const left = storage.sql.exec<{ source: string; n: number }>(
        "SELECT source, count(*) AS n FROM lines GROUP BY source ORDER BY source",
      );
      const n = Object.fromEntries(left.toArray().map((row) => [row.source, row.n]));
      expect([n["registry"], n["access"]]).toEqual([500, 100]);
      expect(n["flood"]).toBeGreaterThan(50);
      expect(n["flood"]).toBeLessThanOrEqual(LIMIT_LINES - 600);
      expect(store.bytes).toBeLessThanOrEqual(LIMIT_BYTES);
      expect(booked(store, storage.sql)).toEqual(counted(storage.sql));
      // The oldest lines have lost their payload or are gone; the newest is whole, and all are found in order.
      const found = everyLine(store);
      expect(found.map(({ index }) => index)).toEqual(
        storage.sql
          .exec<{ idx: number }>("SELECT idx FROM lines ORDER BY idx")
          .toArray()
          .map(({ idx }) => idx),
      );
      expect(JSON.parse(found.at(-1)?.text ?? "")[0].Payload.Job.ID).toHaveLength(30_000);
      // A repeated append is recognised after its line has left from the middle.
      expect(store.append("flood", [entry(1)]).lines).toEqual([]);
    });
  });

  it("show the newest line that they lost, until all older lines are gone, also after a restart", async () => {
    await inStorage((storage) => {
      const { sql } = storage;
      const store = new LineStore(sql);
      const flood = (from: number, count: number) => entries(from, count).map((each) => of(accessAccount("a/"), each));
      store.append("registry", [entry(1)]);
      store.append("flood", flood(1, 100));
      // A sixteenth of 80 lines are 5; shrinking goes 2 % below.
      store.trim(80, 1_000_000);
      const gaps = [{ account: accessAccount("a/"), upTo: 97 }];
      expect([store.oldest, store.lines, store.gaps]).toEqual([1, 5, gaps]);
      // Evictions by an earlier release, of which there is only the number.
      sql.exec("DROP TABLE account_gaps");
      sql.exec("UPDATE migrations SET applied = ? WHERE module = 'events'", lineMigrations.length - 1);
      migrate(storage, "events", lineMigrations);
      expect(new LineStore(sql).gaps).toEqual(gaps);
      store.reload();
      store.append("registry", entries(2, 200));
      store.trim(80, 1_000_000);
      expect([store.oldest > 97, store.gaps, new LineStore(sql).gaps]).toEqual([true, [], []]);
      expect(booked(store, sql)).toEqual(counted(sql));
    });
  });

  it("of the oldest lines lose these, too", async () => {
    await inStorage((storage) => {
      const store = new LineStore(storage.sql);
      store.append(
        "flood",
        entries(1, 100).map((each) => of(accessAccount("a/"), each)),
      );
      store.trim(80, 1_000_000);
      expect([store.oldest, store.lines, store.gaps]).toEqual([97, 4, []]);
      expect(booked(store, storage.sql)).toEqual(counted(storage.sql));
    });
  });

  it("keep lines about root policies and volumes, without their payloads if necessary", async () => {
    await inStorage((storage) => {
      const store = new LineStore(storage.sql);
      for (const [at, account] of [accessAccount(""), volumeAccount("prod")].entries()) {
        store.append(
          `s${at}`,
          entries(1, 300).map((each) => of(account, each)),
        );
        for (let seq = 301; seq <= 400; seq++) {
          store.append(`s${at}`, [of(account, entry(seq, 20_000))]);
          store.trim(100_000, 1_000_000);
        }
      }
      expect(store.lines).toBe(800);
      expect(store.bytes).toBeLessThanOrEqual(1_000_000);
      const [first] = [...store.after(0, null).lines];
      expect(JSON.parse(first?.text ?? "")[0]).toMatchObject({ Index: 1, Key: "k1", Payload: {} });
    });
  });

  it("keep all lines of one account while the buffer has room", async () => {
    await inStorage((storage) => {
      const store = new LineStore(storage.sql);
      store.append(
        "s",
        entries(1, 90).map((each) => of(accessAccount("a/"), { ...each, events: entry(each.seq, 9_000).events })),
      );
      store.trim(1_000, 1_000_000);
      const whole = [...store.after(0, null).lines].every(({ text }) => text.length > 9_000);
      expect([store.lines, whole]).toEqual([90, true]);
    });
  });

  it("shorten a line of a namespace above 64 KiB to its headers", async () => {
    await inStorage((storage) => {
      const store = new LineStore(storage.sql);
      for (const [account, whole] of [
        ["a/", false],
        ["", true],
      ] as const) {
        const { lines } = store.append(`s${account}`, [of(accessAccount(account), entry(1, 66_000))]);
        expect((lines[0]?.text.length ?? 0) > 66_000, account).toBe(whole);
      }
    });
  });

  it("keep counters equal to the rows, also after a restart, for any lines", async () => {
    await inStorage((storage) => {
      let store = new LineStore(storage.sql);
      const accounts = [null, accessAccount(""), accessAccount("a/"), accessAccount("b/c/"), volumeAccount("x")];
      for (let seq = 1; seq <= 600; seq++) {
        const account = accounts[(seq * 7 + Math.floor(seq / 40)) % accounts.length] ?? null;
        const each = entry(seq, (seq * 977) % 5_000);
        store.append(`s${seq % 4}`, [account === null ? each : of(account, each)]);
        store.trim(150, 200_000);
        expect(store.lines <= 150 && store.bytes <= 200_000, `after ${seq}`).toBe(true);
        expect(booked(store, storage.sql), `after ${seq}`).toEqual(counted(storage.sql));
        if (seq % 50 === 0) {
          store = new LineStore(storage.sql);
          expect(booked(store, storage.sql), `restarted after ${seq}`).toEqual(counted(storage.sql));
        }
      }
    });
  });
});

it("concurrent appends share one sync to disk", async () => {
  const log = eventLog(env);
  await log.append("warm", [entry(1)]);
  const syncs = await runInDurableObject(env.EVENT_LOG.getByName("log"), async (object, { storage }) => {
    const sync = vi.spyOn(storage, "sync");
    const indexes = await Promise.all(Array.from({ length: 100 }, (_, n) => object.append(`s${n}`, [entry(1)])));
    expect(indexes.flat()).toEqual(Array.from({ length: 100 }, (_, n) => n + 2));
    return sync.mock.calls.length;
  });
  expect(syncs).toBeGreaterThan(0);
  expect(syncs).toBeLessThanOrEqual(2);
});

it("lines stored before headers existed are returned, also by filters", async () => {
  await inStorage((storage) => {
    const { sql } = storage;
    sql.exec(
      "DROP TABLE lines; DROP TABLE sources; DROP TABLE accounts; DROP TABLE books; DROP TABLE account_gaps; DELETE FROM migrations WHERE module = 'events'",
    );
    migrate(storage, "events", lineMigrations.slice(0, 3));
    for (let idx = 5; idx <= 8; idx++) {
      const events = JSON.stringify([{ ...event({ Key: `é${idx}` }), Index: idx }]);
      sql.exec(
        "INSERT INTO lines (idx, source, seq, bytes, events) VALUES (?, 'a', ?, ?, ?)",
        idx,
        idx,
        Buffer.byteLength(events),
        events,
      );
    }
    sql.exec("INSERT INTO sources VALUES ('a', 8, 8), ('b', 3, 4)");
    migrate(storage, "events", lineMigrations);
    const store = new LineStore(sql);
    expect([store.oldest, store.newest, store.lines]).toEqual([5, 8, 4]);
    expect(store.bytes).toBe(
      sql.exec<{ n: number }>("SELECT sum(length(CAST(events AS BLOB))) AS n FROM lines").one().n,
    );
    expect(store.append("a", [entry(6), entry(9)]).indexes).toEqual([6, 9]);
    expect(store.append("b", [entry(3)]).indexes).toEqual([4]);
    const lines = [...store.after(4, ['"é7"']).lines].filter(({ headers: facts }) =>
      facts.some(({ Key }) => Key === "é7"),
    );
    expect(lines.map(({ index }) => index)).toEqual([7]);
  });
});

it("concurrent lines are all stored once and in order, for any number", async () => {
  await inStorage((storage) => {
    const store = new LineStore(storage.sql);
    let next = 1;
    for (const count of [1, 13, 14, 15, 100]) {
      const { indexes } = store.append("a", entries(next, count));
      expect(indexes).toEqual(Array.from({ length: count }, (_, n) => next + n));
      next += count;
    }
    // A repeated line keeps its first index, whether its first copy is new or was stored before.
    const { indexes, lines } = store.append("a", [
      entry(next),
      entry(next + 1),
      entry(next),
      entry(2),
      entry(next + 2),
    ]);
    expect(indexes).toEqual([next, next + 1, next, 2, next + 2]);
    expect(lines.map(({ index }) => index)).toEqual([next, next + 1, next + 2]);
    const found = [...new LineStore(storage.sql).after(0, null).lines];
    expect(found.map(({ index }) => index)).toEqual(Array.from({ length: next + 2 }, (_, n) => n + 1));
    for (const { index, text } of found) expect(JSON.parse(text)[0]).toMatchObject({ Index: index, Key: `k${index}` });
  });
});
