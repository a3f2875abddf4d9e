import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { pipelineVariables } from "../../../src/sync/destinations/pipeline-variables/adapter.ts";
import { driverOf } from "../../support/adapter-driver.ts";
import { judgeExchanges } from "../../support/published-api.ts";
import { published } from "./published.ts";
import { type PipelineDouble, startPipelineVariables } from "./server.ts";
import { bodyOf } from "./stand-in.ts";

// The adapter's requests and the double's answers are valid by the provider's published document.

let double: PipelineDouble;
beforeAll(async () => {
  double = await startPipelineVariables();
});
afterAll(() => double.close());

describe("by the published document", () => {
  it("requests and answers of pushes, removals and refusals are valid", async () => {
    const account = double.open();
    account.variables.set("TOKEN", { value: "theirs", isSecret: true, isReadOnly: true });
    const at = driverOf(
      pipelineVariables,
      () => double,
      () => bodyOf(account),
    );
    const judge = judgeExchanges(published);
    expect(await at.put()).toMatchObject({ outcome: "ok" });
    expect(await at.put({ name: "LONG", value: "v".repeat(32_000) })).toMatchObject({ outcome: "ok" });
    expect(await at.put({ updatePolicy: "owned-only", value: "next" })).toMatchObject({ outcome: "ok" });
    expect(await at.probe({ access_token: "wrong" })).toMatchObject({ code: "auth_failed" });
    expect(await at.probe({ project: "missing" })).toMatchObject({ code: "not_found" });
    expect(await at.probe({ variable_group_id: 7 })).toMatchObject({ code: "not_found" });
    account.fail("throttled", 1);
    expect(await at.put()).toMatchObject({ code: "throttled", retryAfterMs: 1000 });
    account.fail("forbidden", 1);
    expect(await at.put()).toMatchObject({ code: "permission_denied" });
    expect(await at.remove()).toEqual({ outcome: "ok" });
    expect(await at.remove()).toEqual({ outcome: "ok" });
    judge.stop();
    expect(judge.faults).toEqual([]);
    expect([...judge.seen].sort()).toEqual(["GET 200", "GET 401", "GET 404", "PUT 200", "PUT 403", "PUT 429"]);
  });
});
