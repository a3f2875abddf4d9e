import { expect, it } from "vitest";
import { memorySql } from "../../test/memory-sql.ts";
import { TENANT } from "../publishing/event-accounts.ts";
import { lineMigrations } from "./line-store.ts";
import { Shares } from "./shares.ts";

it("evicts the oldest lines of an account above its share and keeps the oldest and newest line of the buffer", () => {
  const sql = memorySql(lineMigrations);
  const [account, events, lines] = [`${TENANT}a`, "[]", 40];
  for (let idx = 1; idx <= lines; idx++) {
    sql.exec(
      "INSERT INTO lines (idx, source, seq, upto, events, account) VALUES (?, 's', ?, ?, ?, ?)",
      idx,
      idx,
      2 * idx,
      events,
      account,
    );
  }
  const shares = new Shares(sql);
  shares.add(Array.from({ length: lines }, () => ({ account, events })));
  // A sixteenth of 320 lines are 20; shrinking goes 2 % below.
  expect(shares.shrink(320, 1_000_000, 1, lines).lines).toBe(21);
  const left = sql.exec<{ idx: number }>("SELECT idx FROM lines ORDER BY idx").toArray();
  expect(left.map(({ idx }) => idx)).toEqual([1, ...Array.from({ length: 18 }, (_, at) => 23 + at)]);
});
