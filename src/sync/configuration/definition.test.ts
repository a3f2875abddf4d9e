import { expect, it } from "vitest";
import { define, typeOf } from "./definition.ts";

const origin = "https://service.test";
const settings = { SYNC_ALLOWED_HOSTS: "example.com" };

it("keeps the end of a login that a write repeats, also where it is a map", () => {
  const type = typeOf("https");
  if (!type) throw new Error("the type https is missing");
  const body = { url: "https://example.com/{{ .Name }}", headers: { authorization: "Bearer a", "x-team": "b" } };
  const write = (changes: object, before: Parameters<typeof define>[2]) => {
    const defined = define(type, { body: { ...body, ...changes }, mode: "write", origin }, before, settings);
    if (!defined.ok) throw new Error(defined.message);
    return defined.value.definition;
  };
  const first = write({ credentials_expire_at: "2031-01-31" }, null);
  // As it is read from its row.
  const stored = JSON.parse(JSON.stringify(first)) as typeof first;
  expect(write({ method: "POST" }, stored).credentialsEnd).toBe(first.credentialsEnd);
  expect(write({ headers: "*****" }, stored).credentialsEnd).toBe(first.credentialsEnd);
  expect(write({ headers: { authorization: "Bearer c" } }, stored).credentialsEnd).toBeNull();
});
