import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { deployService } from "../../../src/sync/destinations/deploy-service/adapter.ts";
import { driverOf } from "../../support/adapter-driver.ts";
import { judgeExchanges } from "../../support/published-api.ts";
import type { AccountDouble } from "../http-double.ts";
import { published } from "./published.ts";
import { type RenderAccount, startDeployService } from "./server.ts";

// The adapter's requests and the double's answers are valid by the provider's published document.

let double: AccountDouble<RenderAccount>;
beforeAll(async () => {
  double = await startDeployService();
});
afterAll(() => double.close());

describe.each(["service", "group"] as const)("a %s, by the published document", (kind) => {
  it("requests and answers of pushes, removals and refusals are valid", async () => {
    const account = double.open();
    const place = kind === "service" ? { service_id: account.service } : { env_group_id: account.group };
    const missing = kind === "service" ? { service_id: "srv-missing" } : { env_group_id: "evg-missing" };
    const at = driverOf(
      deployService,
      () => double,
      () => ({ api_key: account.token, ...place }),
    );
    const judge = judgeExchanges(published);
    expect(await at.put()).toMatchObject({ outcome: "ok" });
    expect(await at.put({ knownToExist: true, updatePolicy: "owned-only" })).toMatchObject({ outcome: "ok" });
    expect(await at.inspect("written", {}, "hunter2-hunter2")).toMatchObject({ state: "unchanged" });
    expect(await at.put({ name: "EMPTY", value: "" })).toMatchObject({ code: "value_empty" });
    expect(await at.put({}, missing)).toMatchObject({ code: "not_found" });
    expect(await at.probe({ api_key: "wrong" })).toMatchObject({ code: "auth_failed" });
    expect(await at.remove()).toEqual({ outcome: "ok" });
    expect(await at.remove()).toEqual({ outcome: "ok" });
    expect(await at.inspect(null)).toMatchObject({ state: "absent" });
    judge.stop();
    expect(judge.faults).toEqual([]);
    const statuses = ["DELETE 204", "DELETE 404", "GET 200", "GET 401", "GET 404", "PUT 200", "PUT 404"];
    expect([...judge.seen].sort()).toEqual(statuses);
  });
});
