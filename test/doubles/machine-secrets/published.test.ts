import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { machineSecrets } from "../../../src/sync/destinations/machine-secrets/adapter.ts";
import { driverOf } from "../../support/adapter-driver.ts";
import { judgeExchanges } from "../../support/published-api.ts";
import type { AccountDouble } from "../http-double.ts";
import { published } from "./published.ts";
import { type FlyAccount, startMachineSecrets } from "./server.ts";

// The adapter's requests and the double's answers are valid by the provider's published document.

let double: AccountDouble<FlyAccount>;
beforeAll(async () => {
  double = await startMachineSecrets();
});
afterAll(() => double.close());

describe("by the published document", () => {
  it("requests and answers of pushes, removals and refusals are valid", async () => {
    const account = double.open();
    const at = driverOf(
      machineSecrets,
      () => double,
      () => ({ api_token: account.token, app: account.app }),
    );
    const judge = judgeExchanges(published);
    const put = await at.put();
    expect(put).toMatchObject({ outcome: "ok" });
    expect(await at.put({ knownToExist: true, updatePolicy: "if-not-exists", value: "" })).toMatchObject({
      left: true,
    });
    expect(await at.inspect(put.outcome === "ok" ? (put.reference ?? null) : null)).toMatchObject({
      state: "unchanged",
    });
    expect(await at.probe({ api_token: "wrong" })).toMatchObject({ code: "auth_failed" });
    expect(await at.put({}, { app: "missing" })).toMatchObject({ code: "not_found" });
    account.fail("throttled", 1);
    expect(await at.put()).toMatchObject({ code: "throttled" });
    expect(await at.remove()).toEqual({ outcome: "ok" });
    expect(await at.remove()).toEqual({ outcome: "ok" });
    judge.stop();
    expect(judge.faults).toEqual([]);
    expect([...judge.seen].sort()).toEqual(["GET 200", "GET 401", "POST 200", "POST 404", "POST 429"]);
  });
});
