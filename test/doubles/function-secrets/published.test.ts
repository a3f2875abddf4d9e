import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { functionSecrets } from "../../../src/sync/destinations/function-secrets/adapter.ts";
import { driverOf } from "../../support/adapter-driver.ts";
import { judgeExchanges } from "../../support/published-api.ts";
import type { AccountDouble } from "../http-double.ts";
import { published } from "./published.ts";
import { type SupabaseAccount, startFunctionSecrets } from "./server.ts";

// The adapter's requests and the double's answers are valid by the provider's published document.

let double: AccountDouble<SupabaseAccount>;
beforeAll(async () => {
  double = await startFunctionSecrets();
});
afterAll(() => double.close());

describe("by the published document", () => {
  it("requests and answers of pushes, removals and refusals are valid", async () => {
    const account = double.open();
    const at = driverOf(
      functionSecrets,
      () => double,
      () => ({ access_token: account.token, project_ref: account.project }),
    );
    const judge = judgeExchanges(published);
    expect(await at.put()).toMatchObject({ outcome: "ok" });
    expect(await at.put({ name: "LONG", value: "v".repeat(24_576) })).toMatchObject({ outcome: "ok" });
    expect(await at.put({ knownToExist: true, updatePolicy: "owned-only", value: "" })).toMatchObject({
      outcome: "ok",
    });
    expect(await at.probe({ access_token: "wrong" })).toMatchObject({ code: "auth_failed" });
    expect(await at.put({}, { project_ref: "missingmissingmissin" })).toMatchObject({ code: "permission_denied" });
    account.fail("throttled", 1);
    expect(await at.put()).toMatchObject({ code: "throttled", retryAfterMs: 1000 });
    expect(await at.remove()).toEqual({ outcome: "ok" });
    expect(await at.remove()).toEqual({ outcome: "ok" });
    judge.stop();
    expect(judge.faults).toEqual([]);
    expect([...judge.seen].sort()).toEqual(["DELETE 200", "GET 200", "GET 401", "POST 201", "POST 403", "POST 429"]);
  });
});
