import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ciVariables } from "../../../src/sync/destinations/ci-variables/adapter.ts";
import { driverOf } from "../../support/adapter-driver.ts";
import { judgeExchanges } from "../../support/published-api.ts";
import { published } from "./published.ts";
import { type CiDouble, startCiVariables } from "./server.ts";

// The adapter's requests and the double's answers are valid by the provider's documented facts.

let double: CiDouble;
beforeAll(async () => {
  double = await startCiVariables();
});
afterAll(() => double.close());

const scoped = { environment_scope: "production" };

describe("by the published facts", () => {
  it("requests and answers of pushes, removals and refusals are valid", async () => {
    const account = double.open();
    const at = driverOf(
      ciVariables,
      () => double,
      () => ({ access_token: account.token, project_id: "acme/web" }),
    );
    const judge = judgeExchanges(published);
    for (const place of [{}, scoped, { project_id: "", group_id: "acme" }, { project_id: "", location: "instance" }]) {
      const done = await at.put({}, place);
      if (done.outcome !== "ok") throw new Error(JSON.stringify([place, done]));
      expect(await at.put({ knownToExist: true, value: "another-value" }, place)).toMatchObject({ outcome: "ok" });
      expect(await at.put({ updatePolicy: "if-not-exists" }, place)).toMatchObject({ left: true });
      expect(await at.inspect("any", place, "x")).toMatchObject({ state: "changed", owned: true });
      expect(await at.remove(place)).toEqual({ outcome: "ok" });
      expect(await at.remove(place)).toEqual({ outcome: "ok" });
    }
    expect(await at.put({}, { hidden: true })).toMatchObject({ outcome: "ok" });
    expect(await at.put({ name: "not valid" })).toMatchObject({ outcome: "client" });
    expect(await at.probe({ access_token: "wrong" })).toMatchObject({ code: "auth_failed" });
    expect(await at.put({}, { project_id: "acme/missing" })).toMatchObject({ code: "not_found" });
    judge.stop();
    expect(judge.faults).toEqual([]);
    expect([...judge.seen].sort()).toContain("POST 201");
  });
});
