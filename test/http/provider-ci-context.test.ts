import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { sender } from "../../src/providers/outcome.ts";
import { ciContext } from "../../src/sync/destinations/ci-context/adapter.ts";
import { ContextAccount, startCiContext } from "../doubles/ci-context/server.ts";
import type { AccountDouble } from "../doubles/http-double.ts";
import { driverOf } from "../support/adapter-driver.ts";

/** Beyond the contract of every adapter (destination-contract.test.ts). */

let double: AccountDouble<ContextAccount>;
let account = new ContextAccount();

beforeAll(async () => {
  double = await startCiContext();
});
afterAll(() => double.close());
beforeEach(() => {
  account = double.open();
});

const at = driverOf(
  ciContext,
  () => double,
  () => ({ access_token: account.token, context_id: account.contextId }),
);
const inProject = () => ({ context_id: "", project_slug: account.project });

describe("reading for an import", () => {
  it("lists the names of a context page by page, and those of a project", async () => {
    const context = { settings: { CI_CONTEXT_URL: double.url }, send: sender({ deadlineMs: 5_000 }) };
    const list = (cursor: string, more: object = { context_id: account.contextId }) =>
      ciContext.reading?.list(cursor, ciContext.connection.parse({ access_token: account.token, ...more }), context);
    account.pageSize = 2;
    for (const name of ["A", "B", "C"]) account.write(account.context, name, "v");
    expect(await list("")).toEqual({ outcome: "ok", names: ["A", "B"], next: "2" });
    expect(await list("2")).toEqual({ outcome: "ok", names: ["C"], next: null });
    expect(await list("", inProject())).toEqual({ outcome: "ok", names: [], next: null });
    expect(ciContext.reading?.read).toBeUndefined();
  });
});

describe("a context", () => {
  it("finds its variable beyond the first page", async () => {
    account.pageSize = 1;
    for (const name of ["A", "B", "C"]) account.write(account.context, name, "v");
    expect(await at.put()).toEqual({ outcome: "ok", reference: account.context.get(at.name)?.updatedAt });
    expect(await at.inspect(account.context.get(at.name)?.updatedAt ?? "")).toMatchObject({ state: "unchanged" });
    expect(await at.put({ updatePolicy: "if-not-exists" })).toEqual({ outcome: "ok", left: true });
  });

  it("reports a full context", async () => {
    for (let index = 0; index < 100; index++) account.write(account.context, `A${index}`, "v");
    expect(await at.put()).toMatchObject({ outcome: "client", code: "invalid_request" });
  });
});

describe("a project", () => {
  it("has variables of its own, whose changes do not show", async () => {
    const first = await at.put({}, inProject());
    expect(first).toEqual({ outcome: "ok", reference: at.name });
    expect(await at.put({ value: "two", knownToExist: true }, inProject())).toEqual(first);
    expect(account.ofProject.get(at.name)).toMatchObject({ value: "two" });
    expect(account.context.size).toBe(0);
    expect(await at.inspect(at.name, inProject())).toEqual({ outcome: "ok", state: "present", owned: null });
    expect(await at.remove(inProject())).toEqual({ outcome: "ok" });
    expect(await at.remove(inProject())).toEqual({ outcome: "ok" });
    expect(await at.inspect(null, inProject())).toMatchObject({ state: "absent" });
  });

  it("refuses an empty value, and is told from a missing project", async () => {
    expect(await at.put({ value: "" }, inProject())).toMatchObject({ outcome: "client", code: "value_empty" });
    const missing = { context_id: "", project_slug: "gh/acme/missing" };
    for (const outcome of [await at.put({}, missing), await at.remove(missing), await at.inspect(null, missing)]) {
      expect(outcome).toMatchObject({ outcome: "client", code: "not_found" });
    }
  });
});

describe("the connection", () => {
  it.each([
    [{ context_id: "" }, "context_id"],
    [{ context_id: "prod" }, "context_id"],
    [{ project_slug: "gh/acme/web" }, "project_slug"],
    [{ context_id: "", project_slug: "acme/web" }, "project_slug"],
  ])("refuses %j", (changed, field) => expect(at.refused(changed)).toContain(field));
});
