import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it, vi } from "vitest";
import type { Started } from "../../src/contracts/credential-engine.ts";
import { performJob, performJobs } from "../../src/credentials/runner/job-worker.ts";
import { clock, ShiftedClock } from "./clock.ts";
import { creds, engineObject, rows, succeeded } from "./engine-helpers.ts";
import { expectNothingLeft, openEngineWithRole, tenant, uuid } from "./engine-world.ts";

clock.moves = true;

const RETRY_AFTER_MS = 20_000;
/** Of a Worker after a wake-up. */
const BUDGET_MS = 10_000;

describe("a revocation at a provider that asks for a longer wait than its Worker has", () => {
  let lease: string;
  beforeEach(async () => {
    await openEngineWithRole();
    lease = succeeded(await creds("web")).body.lease_id.slice("cloud-b/".length);
    // Only the Workers of the test run.
    vi.spyOn(env.SYNC_WORK, "send").mockRejectedValue(new Error("later"));
    const headers = { "Retry-After": String(RETRY_AFTER_MS / 1_000) };
    await tenant.fault({ operation: "DeleteServicePrincipal", fault: "error", status: 503, code: "Busy", headers });
  });

  const wakeUp = () => performJobs(env, uuid, { budgetMs: BUDGET_MS });

  const afterWakeUp = async () => {
    await engineObject(uuid).revokeSoon([lease]);
    await wakeUp();
  };
  const forRequest = async () => {
    const started = await engineObject(uuid).revoke(lease);
    if (!started.ok || !started.value) throw new Error("not started");
    expect(await performJob(env, uuid, started.value as Started, BUDGET_MS)).toBeNull();
  };

  it.each([
    ["after a wake-up", afterWakeUp],
    ["for a request", forRequest],
  ] as const)("is continued after that wait, %s", async (_when, begin) => {
    await begin();
    const [work] = await rows(uuid, "work");
    expect(await rows(uuid, "jobs")).toMatchObject([{ kind: "removal", tries: 1, failures: 0 }]);
    expect(work).toMatchObject({ attempts: 0 });
    const wait = Number(work?.["ready_at"]) - Date.now();
    expect(wait).toBeLessThanOrEqual(RETRY_AFTER_MS);
    expect(wait).toBeGreaterThan(RETRY_AFTER_MS / 2);
    const calls = (await tenant.requests()).length;
    await wakeUp();
    expect((await tenant.requests()).length, "no call before its time").toBe(calls);
    const later = new ShiftedClock(RETRY_AFTER_MS);
    await wakeUp();
    later.end();
    await expectNothingLeft();
  });
});
