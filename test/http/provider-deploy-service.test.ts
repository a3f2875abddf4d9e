import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { sender } from "../../src/providers/outcome.ts";
import { deployService } from "../../src/sync/destinations/deploy-service/adapter.ts";
import type { Listing } from "../../src/sync/destinations/destination-type.ts";
import { RenderAccount, startDeployService } from "../doubles/deploy-service/server.ts";
import type { AccountDouble } from "../doubles/http-double.ts";
import { driverOf } from "../support/adapter-driver.ts";

/** Beyond the contract of every adapter (destination-contract.test.ts). */

let double: AccountDouble<RenderAccount>;
let account = new RenderAccount();

beforeAll(async () => {
  double = await startDeployService();
});
afterAll(() => double.close());
beforeEach(() => {
  account = double.open();
});

const at = driverOf(
  deployService,
  () => double,
  () => ({ api_key: account.token, service_id: account.service }),
);
const inGroup = () => ({ service_id: "", env_group_id: account.group });

describe("an environment group", () => {
  it("takes pushes and removals, and the service's variables stay", async () => {
    await at.put({ value: "of the service" });
    account.places.get(account.group)?.set("FOREIGN", "theirs");
    expect(await at.put({ value: "of the group" }, inGroup())).toEqual({ outcome: "ok", reference: "written" });
    expect(await at.inspect("written", inGroup(), "of the group")).toMatchObject({ state: "unchanged" });
    expect(Object.fromEntries(account.places.get(account.group) ?? [])).toEqual({
      FOREIGN: "theirs",
      [at.name]: "of the group",
    });
    expect(await at.remove(inGroup())).toEqual({ outcome: "ok" });
    expect([...(account.places.get(account.group)?.keys() ?? [])]).toEqual(["FOREIGN"]);
    expect(account.places.get(account.service)?.get(at.name)).toBe("of the service");
  });

  it("shows no value of other variables in an outcome", async () => {
    account.places.get(account.group)?.set("FOREIGN", "theirs-9d1c");
    expect(JSON.stringify(await at.put({}, inGroup()))).not.toContain("9d1c");
  });
});

describe("a listing", () => {
  const listed = async (body: Record<string, unknown>) => {
    const connection = deployService.connection.parse({ api_key: account.token, ...body });
    const context = { settings: { DEPLOY_SERVICE_URL: double.url }, send: sender({ deadlineMs: 5000 }) };
    const names: string[] = [];
    for (let cursor: string | null = ""; cursor !== null; ) {
      const page: Listing | undefined = await deployService.reading?.list(cursor, connection, context);
      if (page?.outcome !== "ok") throw new Error(page?.code);
      names.push(...page.names);
      cursor = page.next;
    }
    return names;
  };

  it.each([1, 100, 101, 250])("names all of %i variables once", async (count) => {
    const names = Array.from({ length: count }, (_, n) => `V${n}`);
    for (const id of [account.service, account.group]) {
      for (const name of names) account.places.get(id)?.set(name, "v");
    }
    expect(await listed({ service_id: account.service })).toEqual(names);
    expect(await listed({ env_group_id: account.group })).toEqual(names);
  });
});

describe("a create body", () => {
  it("names a service or a group, and nothing else", () => {
    expect(at.refused({ service_id: "" })).toEqual(["service_id"]);
    expect(at.refused({ env_group_id: "evg-1" })).toEqual(["env_group_id"]);
    expect(at.refused({ service_id: "evg-1" })).toEqual(["service_id"]);
    expect(at.refused({ service_id: "../x" })).toEqual(["service_id"]);
    expect(at.refused({ api_key: "" })).toEqual(["api_key"]);
    expect(at.refused({ service_id: "", env_group_id: "evg-1" })).toEqual([]);
  });
});
