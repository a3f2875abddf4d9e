import { afterAll, beforeAll, expect, it } from "vitest";
import { sender } from "../../../src/providers/outcome.ts";
import { clusterSecretsDestination } from "../../../src/sync/destinations/cluster-secrets/adapter.ts";
import { driverOf } from "../../support/adapter-driver.ts";
import { judgeExchanges } from "../../support/published-api.ts";
import { published } from "./published.ts";
import { type ClusterDouble, startCluster } from "./server.ts";
import { faults } from "./stand-in.ts";

// The adapter's requests and the double's answers are valid by the published document.

let double: ClusterDouble;
beforeAll(async () => {
  double = await startCluster();
});
afterAll(() => double.close());

it("requests and answers of pushes, reads, removals and refusals are valid by the published document", async () => {
  const account = double.open();
  const body = () => ({ host: double.url, namespace: account.namespace, token: account.token });
  const at = driverOf(clusterSecretsDestination, () => double, body);
  const judge = judgeExchanges(published);
  const first = await at.put({ data: { password: "hunter2" } });
  expect(first).toMatchObject({ outcome: "ok" });
  expect(await at.put({ data: { password: "next" }, knownToExist: true })).toMatchObject({ outcome: "ok" });
  expect(await at.remove()).toEqual({ outcome: "ok" });
  expect(await at.put({ data: { password: "again" } })).toMatchObject({ outcome: "ok" });
  account.secrets.replace(at.name, { password: "theirs" });
  expect(await at.put({ data: { password: "ours" }, updatePolicy: "owned-only" })).toMatchObject({ code: "not_owned" });
  expect(await at.inspect(null)).toMatchObject({ outcome: "ok" });
  const { reading } = clusterSecretsDestination;
  const context = { settings: { SYNC_ALLOWED_HOSTS: "127.0.0.1" }, send: sender({ deadlineMs: 5_000 }) };
  const connection = clusterSecretsDestination.connection.parse(body());
  expect(await reading?.list("", connection, context)).toMatchObject({ names: [at.name] });
  expect(await reading?.read?.(at.name, connection, context)).toMatchObject({ outcome: "ok" });
  expect(await at.probe()).toEqual({ outcome: "ok" });
  expect(await at.probe({ token: "wrong" })).toMatchObject({ code: "auth_failed" });
  account.faults.push(faults.throttled);
  expect(await at.put({ data: { password: "next" } })).toMatchObject({ code: "throttled" });
  account.denied.add("patch");
  expect(await at.put({ data: { password: "next" } })).toMatchObject({ code: "permission_denied" });
  account.denied.clear();
  expect(await at.remove()).toEqual({ outcome: "ok" });
  judge.stop();
  expect(judge.faults).toEqual([]);
  for (const seen of ["PATCH 201", "PATCH 200", "PATCH 429", "PATCH 403", "DELETE 200", "POST 201"]) {
    expect(judge.seen).toContain(seen);
  }
});
