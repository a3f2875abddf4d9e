import { expect, it } from "vitest";
import { accountOfKey } from "./connection.ts";

it("returns the account encoded in an access key's id", () => {
  const rows = [
    // Published examples of the key format.
    ["ASIAQNZGKIQY56JQ7WML", "029608264753"],
    ["ASIAY34FZKBOKMUTVV7A", "609629065308"],
    ["AKIAY34FZKBOAAAAAAAA", "609629065308"],
    // Keys from before March 2019 and texts of another format are returned unchanged.
    ["AKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7EXAMPLE"],
    ["AKIAJ34FZKBOKMUTVV7A", "AKIAJ34FZKBOKMUTVV7A"],
    ["test", "test"],
    ["", ""],
  ];
  for (const [id = "", account] of rows) expect(accountOfKey(id), id).toBe(account);
});
