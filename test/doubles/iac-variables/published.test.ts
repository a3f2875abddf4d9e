import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { iacVariables } from "../../../src/sync/destinations/iac-variables/adapter.ts";
import { driverOf } from "../../support/adapter-driver.ts";
import { judgeExchanges } from "../../support/published-api.ts";
import type { AccountDouble } from "../http-double.ts";
import { published } from "./published.ts";
import { type IacAccount, startIacVariables } from "./server.ts";

// The adapter's requests and the double's answers are valid by the facts of the provider's official client.

let double: AccountDouble<IacAccount>;
beforeAll(async () => {
  double = await startIacVariables();
});
afterAll(() => double.close());

describe("by the published facts", () => {
  it("requests and answers of pushes, removals and refusals are valid", async () => {
    const account = double.open();
    const workspace_id = "ws-web1234567890abc";
    const at = driverOf(
      iacVariables,
      () => double,
      () => ({ access_token: account.token, workspace_id }),
    );
    const judge = judgeExchanges(published);
    for (const place of [{}, { workspace_id: "", varset_id: "varset-web1234567890ab" }]) {
      expect(await at.put({}, place)).toMatchObject({ outcome: "ok" });
      expect(await at.put({ knownToExist: true, value: "another" }, place)).toMatchObject({ outcome: "ok" });
      expect(await at.put({ updatePolicy: "if-not-exists" }, place)).toMatchObject({ left: true });
      expect(await at.inspect("any", place)).toMatchObject({ state: "changed", owned: true });
      expect(await at.remove(place)).toEqual({ outcome: "ok" });
      expect(await at.remove(place)).toEqual({ outcome: "ok" });
    }
    expect(await at.probe({ access_token: "wrong" })).toMatchObject({ code: "auth_failed" });
    expect(await at.put({}, { workspace_id: "ws-missing1234567" })).toMatchObject({ code: "not_found" });
    account.fail("throttled", 1);
    expect(await at.put()).toMatchObject({ code: "throttled" });
    judge.stop();
    expect(judge.faults).toEqual([]);
    expect([...judge.seen].sort()).toEqual([
      "DELETE 204",
      "GET 200",
      "GET 401",
      "PATCH 200",
      "POST 201",
      "POST 404",
      "POST 429",
    ]);
  });
});
