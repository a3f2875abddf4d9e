import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { edgeWorker } from "../../src/sync/destinations/edge-worker/adapter.ts";
import { type Account, type EdgeDouble, startEdgeWorker } from "../doubles/edge-worker/server.ts";
import { AdapterCalls } from "../support/adapter-calls.ts";

let double: EdgeDouble;
let account: Account;
let at: AdapterCalls<ReturnType<typeof edgeWorker.connection.parse>>;

beforeAll(async () => {
  double = await startEdgeWorker();
});
afterAll(() => double.close());
beforeEach(() => {
  account = double.open();
  at = new AdapterCalls(edgeWorker, account.body, { settings: { EDGE_API_URL: double.url } });
});

describe("the adapter", () => {
  it.each([
    [10_214, "undeployed_version"],
    [10_215, "undeployed_version"],
    [10_054, "value_too_large"],
    [10_055, "quota_exceeded"],
    [10_007, "not_found"],
    [4_711, "refused"],
  ])("names code %i %s, and quotes no text", async (code, expected) => {
    account.faults.push({ kind: "status", status: 400, errors: [{ code, message: "hunter2-hunter2" }] });
    const put = await at.put("N");
    expect(put).toMatchObject({ outcome: "client", code: expected, message: expect.stringContaining(`${code}`) });
    expect(JSON.stringify(put)).not.toContain("hunter2");
  });

  it("takes an answer 200 without success for a failure", async () => {
    account.faults.push({ kind: "status", status: 200, errors: [{ code: 10_054, message: "x" }] });
    expect(await at.put("N")).toMatchObject({ outcome: "client", code: "value_too_large" });
  });
});
