import { applyD1Migrations, listDurableObjectIds, reset, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, expect, vi } from "vitest";
import { forgetAnswers } from "../../src/access/authorizer.ts";
import { forgetHealth } from "../../src/metrics/health.ts";
import type { StoredObject } from "../../src/objects/stored-object.ts";
import { forgetPermissions } from "../../src/sync/perform.ts";
import { clock } from "./clock.ts";

beforeEach(async () => {
  await reset();
  forgetAnswers();
  forgetPermissions();
  forgetHealth();
  await applyD1Migrations(env.LISTINGS, env.TEST_MIGRATIONS);
});

/** Stores of earlier tests: emptied, and never used again, because each mount has a store of its own. */
const emptied = new Set<string>();

/** What an object waits for, and its alarm. One that just rings is not set until it has set itself again, so that is waited for. */
async function lookAt(object: StoredObject, { id, storage }: DurableObjectState) {
  for (let tries = 25; ; tries--) {
    const seen = { name: id.name, due: object.nextDue(), alarm: await storage.getAlarm() };
    if (seen.due === null || seen.alarm !== null || tries === 0) return seen;
    await scheduler.wait(20);
  }
}

/** Invariant 2, on every object after every test: rows that wait imply an alarm, and in time. */
afterEach(async () => {
  vi.restoreAllMocks();
  const mounts = [env.KV_STORE, env.CREDENTIAL_ENGINE];
  const others = [env.ACCESS_CONTROL, env.SYNC_DESTINATION, env.SYNC_CONTROL, env.IDENTITY_ISSUER];
  for (const namespace of [...mounts, ...others, env.CLUSTER_REGISTRY, env.NODE_SESSION, env.EVENT_LOG]) {
    const objects = namespace as DurableObjectNamespace<StoredObject>;
    for (const id of await listDurableObjectIds(objects)) {
      if (emptied.has(id.toString())) continue;
      if (mounts.some((each) => each === namespace)) emptied.add(id.toString());
      const seen = await runInDurableObject(objects.get(id), lookAt);
      if (seen.due === null) continue;
      const what = `alarm of ${seen.name ?? id.toString()}, whose rows wait`;
      expect(seen.alarm, what).not.toBeNull();
      // The alarm may stand later than the rows by the guard that is set while one runs.
      if (!clock.moves) expect(seen.alarm, what).toBeLessThanOrEqual(Math.max(seen.due, Date.now()) + 6_000);
    }
  }
});
