import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { deploySite } from "../../src/sync/destinations/deploy-site/adapter.ts";
import { SiteAccount, startDeploySite } from "../doubles/deploy-site/server.ts";
import type { AccountDouble } from "../doubles/http-double.ts";
import { driverOf } from "../support/adapter-driver.ts";

/** Beyond the contract of every adapter (destination-contract.test.ts). */

let double: AccountDouble<SiteAccount>;
let account = new SiteAccount();

beforeAll(async () => {
  double = await startDeploySite();
});
afterAll(() => double.close());
beforeEach(() => {
  account = double.open();
});

const at = driverOf(
  deploySite,
  () => double,
  () => ({ access_token: account.token, account_id: account.id, site_id: "site-1", deploy_context: "production" }),
);
const variable = (site = "site-1") => account.sites.get(site)?.get(at.name);
const values = () =>
  variable()?.values.map(({ context, context_parameter: branch, value }) => [branch ?? context, value]);

describe("put and remove", () => {
  it("write one context and leave the others, and remove the variable with its last value", async () => {
    const branch = { deploy_context: "branch:next" };
    await at.put({ value: "one" });
    await at.put({ value: "two" }, branch);
    await at.put({ value: "three" }, { deploy_context: "deploy-preview" });
    await at.put({ value: "four", knownToExist: true });
    expect(values()).toEqual([
      ["next", "two"],
      ["deploy-preview", "three"],
      ["production", "four"],
    ]);
    expect(await at.remove()).toEqual({ outcome: "ok" });
    expect(await at.remove(branch)).toEqual({ outcome: "ok" });
    expect(values()).toEqual([["deploy-preview", "three"]]);
    expect(await at.remove({ deploy_context: "deploy-preview" })).toEqual({ outcome: "ok" });
    expect(variable()).toBeUndefined();
  });

  it("leave a value of another hand in another context by owned-only", async () => {
    await at.put({ value: "theirs" }, { deploy_context: "deploy-preview" });
    expect(await at.put({ updatePolicy: "owned-only" })).toMatchObject({ outcome: "ok" });
    expect(values()).toHaveLength(2);
  });

  it.each([
    [{ deploy_context: "all" }, {}],
    [{ deploy_context: "deploy-preview", is_secret: false }, { deploy_context: "all" }],
  ])("spare a value of %j that one of %j would replace, by policy", async (theirs, ours) => {
    await at.put({ value: "theirs" }, theirs);
    const before = values();
    expect(await at.put({ updatePolicy: "if-not-exists" }, ours)).toEqual({ outcome: "ok", left: true });
    expect(await at.put({ updatePolicy: "owned-only" }, ours)).toMatchObject({ outcome: "client", code: "not_owned" });
    expect(await at.inspect(null, ours)).toMatchObject({ state: "absent" });
    expect(await at.remove(ours)).toEqual({ outcome: "ok" });
    expect(values()).toEqual(before);
    expect(await at.put({ value: "ours" }, ours)).toMatchObject({ outcome: "ok" });
    expect(values()?.map(([, value]) => value)).toEqual(["ours"]);
  });

  it.each([
    [{}, true],
    [{ is_secret: false }, false],
    [{ deploy_context: "all" }, false],
  ])("make a variable with %j secret: %s", async (changed, isSecret) => {
    await at.put({}, changed);
    expect(variable()).toMatchObject({ is_secret: isSecret });
    expect(await at.inspect("reference", changed, "hunter2-hunter2")).toMatchObject({
      state: isSecret ? "changed" : "unchanged",
    });
  });

  it("write variables of a team, and scopes with a paid plan", async () => {
    expect(await at.put({}, { scopes: ["builds"] })).toMatchObject({ outcome: "client", code: "plan_required" });
    account.isPaid = true;
    expect(await at.put({}, { site_id: "", scopes: ["builds"] })).toMatchObject({ outcome: "ok" });
    expect(variable("")).toMatchObject({ scopes: ["builds"] });
    expect(variable()).toBeUndefined();
  });
});

describe("the connection", () => {
  it.each([
    [{ deploy_context: "staging" }, "deploy_context"],
    [{ deploy_context: "" }, "deploy_context"],
    [{ deploy_context: "all", is_secret: true }, "is_secret"],
    [{ scopes: "everything" }, "scopes"],
    [{ scopes: "post-processing" }, "scopes"],
    [{ account_id: "a/b" }, "account_id"],
  ])("refuses %j", (changed, field) => expect(at.refused(changed)).toContain(field));
});
