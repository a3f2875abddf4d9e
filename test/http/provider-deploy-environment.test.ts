import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { sender } from "../../src/providers/outcome.ts";
import { deployEnvironment } from "../../src/sync/destinations/deploy-environment/adapter.ts";
import { RailwayAccount, startDeployEnvironment } from "../doubles/deploy-environment/server.ts";
import { bodyOf } from "../doubles/deploy-environment/stand-in.ts";
import { objectOf } from "../support/adapter-calls.ts";
import { driverOf } from "../support/adapter-driver.ts";

/** Beyond the contract of every adapter (destination-contract.test.ts). */

let double: Awaited<ReturnType<typeof startDeployEnvironment>>;
let account = new RailwayAccount();

beforeAll(async () => {
  double = await startDeployEnvironment();
});
afterAll(() => double.close());
beforeEach(() => {
  account = double.open();
});

const at = driverOf(
  deployEnvironment,
  () => double,
  () => bodyOf(account),
);
const variables = (service: string = account.serviceId) => account.places.get(service);

describe("put", () => {
  it("writes many variables with one deployment, or none, and leaves those of others", async () => {
    variables()?.set("FOREIGN", "theirs");
    const context = { settings: { DEPLOY_ENVIRONMENT_URL: double.url }, send: sender({ deadlineMs: 5000 }) };
    const objects = ["A", "B", "C"].map((name) => objectOf(name));
    const connect = (changed: object) => deployEnvironment.connection.parse({ ...bodyOf(account), ...changed });
    await deployEnvironment.batch?.putMany(objects, connect({}), context);
    expect([...(variables()?.keys() ?? [])]).toEqual(["FOREIGN", "A", "B", "C"]);
    expect(account.deployments).toBe(1);
    await deployEnvironment.batch?.putMany(objects, connect({ skip_deploys: true }), context);
    expect(account.deployments).toBe(1);
  });

  it("writes shared variables without a service", async () => {
    expect(await at.put({}, { service_id: "" })).toMatchObject({ outcome: "ok" });
    expect(variables("")?.size).toBe(1);
    expect(variables()?.size).toBe(0);
  });

  it("refuses a value with a reference, which the provider would replace", async () => {
    expect(await at.put({ value: `a ${"$"}{{Postgres.DATABASE_URL}}` })).toMatchObject({ code: "value_invalid" });
    expect(account.requests).toEqual([]);
  });

  it("sends a workspace's token as a bearer token", async () => {
    expect(await at.probe({ token_type: "workspace" })).toEqual({ outcome: "ok" });
    expect(await at.probe({ token_type: "workspace", access_token: "wrong" })).toMatchObject({ outcome: "client" });
  });
});

describe("an answer 200 with errors", () => {
  it.each([
    [{ project_id: "11111111-2222-4333-8444-555555555555" }, "permission_denied"],
    [{ environment_id: "11111111-2222-4333-8444-555555555555" }, "not_found"],
  ])("is a refusal: %j", async (changed, code) => {
    expect(await at.put({}, changed)).toMatchObject({ outcome: "client", code });
    expect(await at.remove(changed)).toMatchObject({ outcome: "client", code });
  });
});
