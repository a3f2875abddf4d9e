import { expect, it } from "vitest";
import { encoded } from "./api.ts";

it("encoded keeps slashes, and refuses names that a URL resolves", () => {
  expect(encoded("secret/data/a b/ä?#%2F/x")).toBe("secret/data/a%20b/%C3%A4%3F%23%252F/x");
  expect(encoded("secret/data/..a/.b//c")).toBe("secret/data/..a/.b//c");
  for (const path of ["secret/data/../sys", "secret/data/.", ".."])
    expect(() => encoded(path)).toThrow("cannot be requested");
});
