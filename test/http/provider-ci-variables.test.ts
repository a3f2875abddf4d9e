import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { sender } from "../../src/providers/outcome.ts";
import { ciVariables } from "../../src/sync/destinations/ci-variables/adapter.ts";
import type { Listing } from "../../src/sync/destinations/destination-type.ts";
import { type CiAccount, type CiDouble, startCiVariables } from "../doubles/ci-variables/server.ts";
import { driverOf } from "../support/adapter-driver.ts";

/** Beyond the contract of every adapter (destination-contract.test.ts). */

let double: CiDouble;
let account: CiAccount;

beforeAll(async () => {
  double = await startCiVariables();
});
afterAll(() => double.close());
beforeEach(() => {
  account = double.open();
});

const at = driverOf(
  ciVariables,
  () => double,
  () => ({ access_token: account.token, project_id: "acme/web" }),
);
const all = (place = "/projects/acme/web") => account.places.get(place) ?? [];
const ok = { outcome: "ok", reference: "*" };

describe("reading for an import", () => {
  const context = () => ({ settings: { CI_VARIABLES_URL: double.url }, send: sender({ deadlineMs: 5_000 }) });
  const connect = (more: object = {}) =>
    ciVariables.connection.parse({ access_token: account.token, project_id: "acme/web", ...more });

  it("goes on page by page, and leaves out hidden variables and other scopes", async () => {
    for (let each = 0; each < 45; each++) await at.put({ name: `V${each}` });
    await at.put({ name: "HIDDEN" }, { hidden: true });
    await at.put({ name: "ELSEWHERE" }, { environment_scope: "production" });
    const names: string[] = [];
    let pages = 0;
    for (let cursor: string | null = ""; cursor !== null; pages++) {
      const page: Listing | undefined = await ciVariables.reading?.list(cursor, connect(), context());
      if (page?.outcome !== "ok") throw new Error(JSON.stringify(page));
      names.push(...page.names);
      cursor = page.next;
    }
    expect([pages, names.length]).toEqual([3, 45]);
    expect(names).not.toContain("HIDDEN");
    const elsewhere = await ciVariables.reading?.list("", connect({ environment_scope: "production" }), context());
    expect(elsewhere).toMatchObject({ outcome: "ok", names: [] });
  });
});

describe("put", () => {
  it("writes one scope of a key and leaves the others", async () => {
    const scopes = ["*", "production", "review/*"];
    for (const environment_scope of scopes) {
      expect(await at.put({ value: `of-${environment_scope}-` }, { environment_scope })).toMatchObject({
        outcome: "ok",
      });
    }
    expect(await at.put({ value: "second-value", knownToExist: true }, { environment_scope: "production" })).toEqual({
      outcome: "ok",
      reference: "production",
    });
    expect(all().map(({ environment_scope, value }) => [environment_scope, value])).toEqual([
      ["*", "of-*-"],
      ["production", "second-value"],
      ["review/*", "of-review/*-"],
    ]);
    expect(await at.remove({ environment_scope: "*" })).toEqual({ outcome: "ok" });
    expect(all().map(({ environment_scope }) => environment_scope)).toEqual(["production", "review/*"]);
  });

  it.each([
    ["long-enough$1", {}, { masked: true, raw: true }],
    ["short", {}, { masked: false }],
    ["two words here", {}, { masked: false }],
    ["no\u00a0break\u3000here", {}, { masked: true }],
    ["😀😀😀😀", {}, { masked: false }],
    ["long-enough$1", { raw: false }, { masked: false, raw: false }],
    ["long-enough-1", { masking: "off" }, { masked: false }],
    ["long-enough-1", { hidden: true }, { masked: true, hidden: true }],
    ["v", { protected: true, variable_type: "file" }, { protected: true, variable_type: "file" }],
  ])("stores %j with %j as %j", async (value, changed, stored) => {
    expect(await at.put({ value }, changed)).toEqual(ok);
    expect(all()).toMatchObject([{ value, ...stored }]);
    expect(await at.put({ value, knownToExist: true }, changed)).toEqual(ok);
    expect(all()).toMatchObject([{ value, ...stored }]);
  });

  it("stores a value unmasked that the server does not mask, unless masking is required", async () => {
    account.isMaskable = (value) => !value.startsWith("glpat-");
    for (const change of [{}, { knownToExist: true }]) {
      expect(await at.put({ value: "glpat-1234567890", ...change })).toEqual(ok);
      expect(all()).toMatchObject([{ value: "glpat-1234567890", masked: false }]);
    }
    expect(await at.put({ value: "glpat-0987654321" }, { masking: "required" })).toMatchObject({ code: "unmaskable" });
  });

  it.each([{ masking: "required" }, { hidden: true }])(
    "refuses a value that cannot be masked by %j",
    async (changed) => {
      for (const value of ["short", "two words here", "two\nlines-here"]) {
        expect(await at.put({ value }, changed)).toMatchObject({ outcome: "client", code: "unmaskable" });
      }
      expect(account.writes).toBe(0);
    },
  );

  it("writes to a group and to the instance, which has no scopes", async () => {
    const own = { project_id: "" };
    expect(await at.put({}, { ...own, group_id: "acme" })).toEqual(ok);
    expect(await at.put({}, { ...own, location: "instance" })).toEqual(ok);
    expect(await at.put({ knownToExist: true }, { ...own, location: "instance" })).toEqual(ok);
    expect([all("/groups/acme").length, all("/admin/ci").length]).toEqual([1, 1]);
    const value = "v".repeat(10_001);
    expect(await at.put({ value }, { ...own, location: "instance" })).toMatchObject({ code: "value_too_large" });
  });

  it("reports a full project, and a token that may only read", async () => {
    expect(await at.put({}, { access_token: account.readToken })).toMatchObject({ code: "permission_denied" });
    account.maxVariables = 0;
    expect(await at.put()).toMatchObject({ outcome: "client", code: "quota_exceeded" });
  });
});

describe("inspect", () => {
  it("finds a hidden variable present, because its value is not shown", async () => {
    await at.put({}, { hidden: true });
    expect(await at.inspect("*", {}, "hunter2-hunter2")).toEqual({ outcome: "ok", state: "present", owned: true });
  });
});

describe("the connection", () => {
  it.each([
    [{ project_id: "" }, "project_id"],
    [{ project_id: "a/../b" }, "project_id"],
    [{ location: "group" }, "group_id"],
    [{ group_id: "acme" }, "group_id"],
    [{ project_id: "", location: "instance", environment_scope: "production" }, "environment_scope"],
    [{ project_id: "", location: "instance", hidden: true }, "hidden"],
    [{ hidden: true, masking: "off" }, "masking"],
    [{ address: "gitlab.example.com" }, "address"],
  ])("refuses %j", (changed, field) => expect(at.refused(changed)).toContain(field));

  it("is refused for a host that the operator does not list", async () => {
    const address = "https://gitlab.example.com";
    expect(await at.put({}, { address })).toMatchObject({ outcome: "client", code: "host_not_allowed" });
  });
});
