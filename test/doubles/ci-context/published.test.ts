import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ciContext } from "../../../src/sync/destinations/ci-context/adapter.ts";
import { driverOf } from "../../support/adapter-driver.ts";
import { judgeExchanges } from "../../support/published-api.ts";
import type { AccountDouble } from "../http-double.ts";
import { published } from "./published.ts";
import { type ContextAccount, startCiContext } from "./server.ts";

// The adapter's requests and the double's answers are valid by the facts of the provider's official client.

let double: AccountDouble<ContextAccount>;
beforeAll(async () => {
  double = await startCiContext();
});
afterAll(() => double.close());

describe("by the published facts", () => {
  it("requests and answers of pushes, removals and refusals are valid", async () => {
    const account = double.open();
    account.pageSize = 1;
    const at = driverOf(
      ciContext,
      () => double,
      () => ({ access_token: account.token, context_id: account.contextId }),
    );
    const project = { context_id: "", project_slug: account.project };
    const judge = judgeExchanges(published);
    for (const place of [{}, project]) {
      expect(await at.put({}, place)).toMatchObject({ outcome: "ok" });
      expect(await at.put({ name: "OTHER" }, place)).toMatchObject({ outcome: "ok" });
      expect(await at.put({ knownToExist: true, updatePolicy: "if-not-exists" }, place)).toMatchObject({ left: true });
      expect(await at.inspect("any", place)).toMatchObject({ outcome: "ok" });
      expect(await at.remove(place)).toEqual({ outcome: "ok" });
      expect(await at.remove(place)).toEqual({ outcome: "ok" });
    }
    expect(await at.probe({ access_token: "wrong" })).toMatchObject({ code: "auth_failed" });
    expect(await at.put({}, { context_id: crypto.randomUUID() })).toMatchObject({ code: "not_found" });
    account.fail("throttled", 1);
    expect(await at.put()).toMatchObject({ code: "throttled" });
    judge.stop();
    expect(judge.faults).toEqual([]);
    expect([...judge.seen].sort()).toEqual([
      "DELETE 200",
      "DELETE 404",
      "GET 200",
      "GET 401",
      "GET 404",
      "POST 201",
      "PUT 200",
      "PUT 404",
      "PUT 429",
    ]);
  });
});
