import { expect, it } from "vitest";
import { memorySql } from "../../test/memory-sql.ts";
import { TENANT } from "../publishing/event-accounts.ts";
import { lineMigrations } from "./line-store.ts";
import { Shares } from "./shares.ts";

it("evicts the oldest lines of an account above its share, and keeps their gap until older lines are gone", () => {
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
  expect(shares.shrink(320, 1_000_000, lines).lines).toBe(21);
  const left = sql.exec<{ idx: number }>("SELECT idx FROM lines ORDER BY idx").toArray();
  expect(left.map(({ idx }) => idx)).toEqual(Array.from({ length: 19 }, (_, at) => 22 + at));
  const gap = [{ account, upTo: 21 }];
  expect([shares.gaps, new Shares(sql).gaps]).toEqual([gap, gap]);
  shares.forgetGapsBefore(21);
  expect(shares.gaps).toEqual(gap);
  shares.forgetGapsBefore(22);
  expect([shares.gaps, new Shares(sql).gaps]).toEqual([[], []]);
});
