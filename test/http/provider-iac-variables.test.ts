import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { iacVariables } from "../../src/sync/destinations/iac-variables/adapter.ts";
import type { AccountDouble } from "../doubles/http-double.ts";
import { IacAccount, startIacVariables } from "../doubles/iac-variables/server.ts";
import { driverOf } from "../support/adapter-driver.ts";

/** Beyond the contract of every adapter (destination-contract.test.ts). */

const workspace_id = "ws-web1234567890abc";
const varset_id = "varset-web1234567890ab";
let double: AccountDouble<IacAccount>;
let account = new IacAccount();

beforeAll(async () => {
  double = await startIacVariables();
});
afterAll(() => double.close());
beforeEach(() => {
  account = double.open();
});

const at = driverOf(
  iacVariables,
  () => double,
  () => ({ access_token: account.token, workspace_id }),
);
const inSet = { workspace_id: "", varset_id };
const all = (place = `/workspaces/${workspace_id}`) => account.places.get(place) ?? [];

describe("put", () => {
  it("writes a sensitive environment variable, and changes only its value and description", async () => {
    expect(await at.put()).toEqual({ outcome: "ok", reference: expect.stringMatching(/^v-/) });
    expect(all()).toMatchObject([{ key: at.name, category: "env", sensitive: true, hcl: false }]);
    expect(await at.put({ value: "two", knownToExist: true })).toMatchObject({ outcome: "ok" });
    expect(all()).toMatchObject([{ value: "two", version: 2 }]);
  });

  it("writes to a variable set, and finds its variable beyond the first page", async () => {
    account.pageSize = 2;
    for (const key of ["A", "B", "C"]) expect(await at.put({ name: key }, inSet)).toMatchObject({ outcome: "ok" });
    expect(await at.put({ name: "C", value: "two", knownToExist: true }, inSet)).toMatchObject({ outcome: "ok" });
    expect(all(`/varsets/${varset_id}`).map(({ key, value }) => [key, value])).toMatchObject([
      ["A", expect.any(String)],
      ["B", expect.any(String)],
      ["C", "two"],
    ]);
    expect(all()).toEqual([]);
  });

  it("keeps categories apart", async () => {
    const terraform = { category: "terraform", hcl: true };
    expect(await at.put({ value: '["a"]' }, terraform)).toMatchObject({ outcome: "ok" });
    expect(await at.put()).toMatchObject({ outcome: "ok" });
    expect(await at.remove(terraform)).toEqual({ outcome: "ok" });
    expect(all()).toMatchObject([{ category: "env" }]);
  });

  it("makes an adopted variable sensitive", async () => {
    await at.put({}, { sensitive: false });
    expect(await at.put({ value: "two", knownToExist: true })).toMatchObject({ outcome: "ok" });
    expect(all()).toMatchObject([{ sensitive: true, value: "two" }]);
  });

  it("reports not found for a token that may only read, because the provider hides what is denied", async () => {
    account.readOnly = true;
    expect(await at.put()).toMatchObject({ outcome: "client", code: "not_found" });
  });
});

describe("inspect", () => {
  it("compares the value of a variable that is not sensitive", async () => {
    const plain = { sensitive: false };
    await at.put({ value: "one" }, plain);
    expect(await at.inspect("v", plain, "one")).toMatchObject({ state: "unchanged", owned: true });
    expect(await at.inspect("v", plain, "two")).toMatchObject({ state: "changed" });
  });

  it("finds a variable present on a server without versions", async () => {
    account.hasVersions = false;
    const put = await at.put();
    expect(put).toEqual({ outcome: "ok", reference: all()[0]?.id });
    expect(await at.inspect("reference")).toMatchObject({ state: "present", owned: true });
  });
});

describe("the connection", () => {
  it.each([
    [{ workspace_id: "" }, "workspace_id"],
    [{ varset_id }, "varset_id"],
    [{ workspace_id: "web" }, "workspace_id"],
    [{ hcl: true }, "hcl"],
    [{ category: "both" }, "category"],
  ])("refuses %j", (changed, field) => expect(at.refused(changed)).toContain(field));

  it("is refused for a host that the operator does not list", async () => {
    const address = "https://terraform.example.com";
    expect(await at.put({}, { address })).toMatchObject({ outcome: "client", code: "host_not_allowed" });
  });
});
