import { expect, it } from "vitest";
import { answered, memoryEngine, refusedWith, reportOf } from "../../../test/memory-engine.ts";

/** An engine with one live lease. */
function withLease() {
  const engine = memoryEngine();
  const now = Date.now();
  const { wanted, polled } = engine.issue("static", now);
  const key = answered({ keyId: "key", secretText: "secret", endsAt: now + 10 * 3_600_000 });
  engine.runner.poll(wanted, reportOf(polled, key), now);
  return { engine, job: wanted.job };
}

it("starts the revocation of every lease at once when the mount is disabled", () => {
  const { engine, job } = withLease();
  expect(engine.teardown.close(false)).toEqual({ left: 1, failure: null });
  expect(engine.leases.find(job)?.state).toBe("ending");
  expect(engine.jobs.kindOf(job)).toBe("removal");
});

it("fills pools at once after it was cancelled", () => {
  const engine = memoryEngine();
  const spec = { size: 1, ttl: 600, content: {} };
  for (const role of ["dynamic", "full"]) engine.pool.put(role, spec, 1_000);
  engine.teardown.close(false);
  engine.pool.setDue("dynamic", Date.now() + 60_000);
  engine.pool.setDue("full", null);
  engine.teardown.reopen();
  expect(engine.pool.find("dynamic")?.due).toBeLessThanOrEqual(Date.now());
  expect(engine.pool.find("full")?.due).toBeNull();
});

it("retries failed revocations in the first round of disabling only", () => {
  const { engine, job } = withLease();
  const wanted = { job, kind: "removal" as const };
  const started = engine.lifecycle.revoke(job);
  const now = Date.now();
  engine.runner.poll(wanted, reportOf(started?.polled ?? null, refusedWith("permission_denied")), now);
  expect(engine.teardown.close(false).failure).toMatchObject({ id: job });
  expect(engine.work.find(job)?.readyAt).toBeGreaterThan(Date.now());
  expect(engine.teardown.close(true).failure).toBeNull();
  expect(engine.work.find(job)?.readyAt).toBeLessThanOrEqual(Date.now());
});
