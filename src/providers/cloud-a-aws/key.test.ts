import { expect, it } from "vitest";
import { accountOfKey } from "./secrets-manager.ts";

it("reads the account in the id of an access key", () => {
  const rows = [
    // Examples that the articles on the format publish.
    ["ASIAQNZGKIQY56JQ7WML", "029608264753"],
    ["ASIAY34FZKBOKMUTVV7A", "609629065308"],
    ["AKIAY34FZKBOAAAAAAAA", "609629065308"],
    // Keys from before March 2019, and what is no such key, stand for themselves.
    ["AKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7EXAMPLE"],
    ["AKIAJ34FZKBOKMUTVV7A", "AKIAJ34FZKBOKMUTVV7A"],
    ["test", "test"],
    ["", ""],
  ];
  for (const [id = "", account] of rows) expect(accountOfKey(id), id).toBe(account);
});
