import { expect, it } from "vitest";
import { memorySql } from "../../test/memory-sql.ts";
import { expiringSecrets } from "./expiring.ts";

it("expiring secrets are whole unless there are as many as the limit, those with unreadable times included", () => {
  const sql = memorySql(["CREATE TABLE secrets (path TEXT PRIMARY KEY, custom_metadata TEXT)"]);
  for (const [path, expires_at] of Object.entries({
    odd: "1 January",
    a: "2026-01-02",
    b: "2026-02-01",
    late: "2027-01-01",
  })) {
    sql.exec("INSERT INTO secrets VALUES (?, ?)", path, JSON.stringify({ expires_at }));
  }
  const found = (limit: number) => {
    const { secrets, isWhole } = expiringSecrets(sql, Date.parse("2026-03-01"), limit);
    return [secrets.map(({ path }) => path), isWhole];
  };
  expect(found(4)).toEqual([["a", "b"], true]);
  expect(found(3)).toEqual([["a", "b"], false]);
});
