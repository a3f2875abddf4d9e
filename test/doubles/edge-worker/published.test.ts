import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { edgeStore } from "../../../src/sync/destinations/edge-store/adapter.ts";
import { edgeWorker } from "../../../src/sync/destinations/edge-worker/adapter.ts";
import { driverOf } from "../../support/adapter-driver.ts";
import { judgeExchanges } from "../../support/published-api.ts";
import { type StoreDouble, startEdgeStore } from "../edge-store/server.ts";
import { faults } from "./envelope.ts";
import { published } from "./published.ts";
import { type EdgeDouble, startEdgeWorker } from "./server.ts";

// The adapters' requests and the doubles' answers are valid by the provider's published document.

let workers: EdgeDouble;
let stores: StoreDouble;
beforeAll(async () => {
  [workers, stores] = await Promise.all([startEdgeWorker(), startEdgeStore()]);
});
afterAll(() => Promise.all([workers.close(), stores.close()]));

describe("by the published document, requests and answers", () => {
  it("about secrets of a Worker are valid", async () => {
    const account = workers.open();
    const at = driverOf(
      edgeWorker,
      () => workers,
      () => account.body,
    );
    const judge = judgeExchanges(published);
    expect(await at.put()).toMatchObject({ outcome: "ok" });
    expect(await at.put({ updatePolicy: "if-not-exists", value: "next" })).toMatchObject({ left: true });
    expect(await at.inspect(null)).toMatchObject({ state: "present" });
    expect(await at.probe({ api_token: "wrong" })).toMatchObject({ code: "auth_failed" });
    expect(await at.probe({ script_name: "missing" })).toMatchObject({ code: "not_found" });
    account.faults.push(faults.throttled);
    expect(await at.put()).toMatchObject({ code: "throttled" });
    account.hasUndeployedVersion = true;
    expect(await at.put()).toMatchObject({ code: "undeployed_version" });
    account.hasUndeployedVersion = false;
    expect(await at.remove()).toEqual({ outcome: "ok" });
    judge.stop();
    expect(judge.faults).toEqual([]);
    expect(judge.seen).toEqual(
      new Set(["PATCH 200", "GET 200", "GET 403", "GET 401", "GET 404", "PATCH 429", "PATCH 400"]),
    );
  });

  it("about secrets of a Secrets Store are valid", async () => {
    const account = stores.open();
    const at = driverOf(
      edgeStore,
      () => stores,
      () => account.body,
    );
    const judge = judgeExchanges(published);
    expect(await at.put()).toMatchObject({ outcome: "ok" });
    expect(await at.put({ value: "next", knownToExist: true })).toMatchObject({ outcome: "ok" });
    expect(await at.inspect(null)).toMatchObject({ outcome: "ok", state: "present" });
    expect(await at.probe({ api_token: "wrong" })).toMatchObject({ code: "auth_failed" });
    expect(await at.probe({ store_id: "0".repeat(32) })).toMatchObject({ code: "not_found" });
    account.faults.push(faults.forbidden);
    expect(await at.put()).toMatchObject({ code: "permission_denied" });
    expect(await at.remove()).toEqual({ outcome: "ok" });
    judge.stop();
    expect(judge.faults).toEqual([]);
    for (const seen of ["POST 200", "PATCH 200", "DELETE 200", "GET 200", "GET 403"])
      expect(judge.seen).toContain(seen);
  });
});
