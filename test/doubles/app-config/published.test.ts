import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { appConfig } from "../../../src/sync/destinations/app-config/adapter.ts";
import { driverOf } from "../../support/adapter-driver.ts";
import { judgeExchanges } from "../../support/published-api.ts";
import type { AccountDouble } from "../http-double.ts";
import { published } from "./published.ts";
import { type AppAccount, startAppConfig } from "./server.ts";

// The adapter's requests and the double's answers are valid by the provider's published schema.

let double: AccountDouble<AppAccount>;
beforeAll(async () => {
  double = await startAppConfig();
});
afterAll(() => double.close());

describe("by the published schema", () => {
  it("requests and answers of pushes, removals and refusals are valid", async () => {
    const account = double.open();
    const at = driverOf(
      appConfig,
      () => double,
      () => ({ access_token: account.token, app: account.app }),
    );
    const judge = judgeExchanges(published);
    expect(await at.put()).toMatchObject({ outcome: "ok" });
    expect(await at.put({ knownToExist: true, updatePolicy: "if-not-exists" })).toMatchObject({ left: true });
    expect(await at.inspect("written", {}, "another")).toMatchObject({ state: "changed" });
    expect(await at.probe({ access_token: "wrong" })).toMatchObject({ code: "auth_failed" });
    expect(await at.put({}, { app: "missing" })).toMatchObject({ code: "not_found" });
    account.fail("throttled", 1);
    expect(await at.put()).toMatchObject({ code: "throttled" });
    expect(await at.remove()).toEqual({ outcome: "ok" });
    expect(await at.remove()).toEqual({ outcome: "ok" });
    expect(account.vars.size).toBe(0);
    judge.stop();
    expect(judge.faults).toEqual([]);
    expect([...judge.seen].sort()).toEqual(["GET 200", "GET 401", "PATCH 200", "PATCH 404", "PATCH 429"]);
  });
});
