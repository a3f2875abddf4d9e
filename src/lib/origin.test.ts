import { expect, it } from "vitest";
import { isSecureUrl, originOf } from "./origin.ts";

it.each([
  ["https://vault.example", "https://vault.example"],
  ["https://Vault.Example/", "https://vault.example"],
  ["https://vault.example:8443", "https://vault.example:8443"],
  ["https://vault.example:443", "https://vault.example"],
  ["http://127.0.0.1:8787", "http://127.0.0.1:8787"],
  ["http://localhost:1/", "http://localhost:1"],
])("%s is the origin %s", (text, origin) => {
  expect(originOf(text)).toBe(origin);
});

it.each([
  "",
  "vault.example",
  "http://vault.example",
  "https://vault.example/v1",
  "https://vault.example//",
  "https://vault.example?x",
  "https://vault.example#x",
  "https://user@vault.example",
  "https://vault.example:99999",
  "https://",
  "ftp://vault.example",
  "javascript:alert(1)",
  " https://vault.example",
])("%j is not an origin", (text) => {
  expect(originOf(text)).toBeNull();
});

it.each([
  ["https://intake.example/api/v2/logs?x=1", true],
  ["https://intake.example:8088", true],
  ["http://127.0.0.1:8088/services/collector/event", true],
  ["http://intake.example/lines", false],
  ["https://user:password@intake.example/lines", false],
  ["https://user@intake.example/lines", false],
  ["ftp://127.0.0.1/lines", false],
  ["intake.example", false],
])("%s may receive secrets: %s", (url, isSecure) => {
  expect(isSecureUrl(url)).toBe(isSecure);
});
