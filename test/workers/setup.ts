import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, expect, vi } from "vitest";
import { clearAuthorizeCache } from "../../src/access/authorize/authorize-cached.ts";
import { clearCorsCache } from "../../src/access/system/cors-cached.ts";
import { clearHealthCache } from "../../src/monitoring/health.ts";
import type { StoredObject } from "../../src/platform/durable/stored-object.ts";
import { forgetGateLeases } from "../../src/sync/worker/gate-lease.ts";
import { forgetRuns } from "../../src/sync/worker/perform.ts";
import { hashPasswordsCheaply } from "./cheap-passwords.ts";
import { clock } from "./clock.ts";
import { made, noteWhatIsMade } from "./created-objects.ts";
import { deleteDeployments, emptyDeployment } from "./empty-deployment.ts";
import { holdLog } from "./held-log.ts";
import { keepLoadedWorker, setTimersDirectly } from "./loaded-worker.ts";
import { nameByDeployment, shareSettings } from "./own-deployment.ts";
import { prepareSchemas } from "./prepared-schemas.ts";
import { forgetRunningWorkers, noteRunningWorkers } from "./running-workers.ts";

// The runtime is shared with the files before this one.
clock.moves = false;

const namespaces: Readonly<Record<string, unknown>> = {
  AccessControl: env.ACCESS_CONTROL,
  ClusterRegistry: env.CLUSTER_REGISTRY,
  CredentialEngine: env.CREDENTIAL_ENGINE,
  EventLog: env.EVENT_LOG,
  EventSubscription: env.EVENT_SUBSCRIPTION,
  IdentityIssuer: env.IDENTITY_ISSUER,
  KvStore: env.KV_STORE,
  NodeSession: env.NODE_SESSION,
  SyncControl: env.SYNC_CONTROL,
  SyncDestination: env.SYNC_DESTINATION,
};

nameByDeployment();
shareSettings();
await deleteDeployments();
await keepLoadedWorker();
setTimersDirectly();
noteWhatIsMade();
noteRunningWorkers();
prepareSchemas();
hashPasswordsCheaply();
holdLog();

beforeEach(async () => {
  forgetRunningWorkers();
  await emptyDeployment();
  clearAuthorizeCache();
  clearCorsCache();
  forgetGateLeases();
  // A run of the test before would take the wake-ups of this one, and poll its own object.
  forgetRuns();
  clearHealthCache();
});

/** An object's next due time and its alarm. A running alarm counts as unset until it is set again, so this waits for it. */
async function lookAt(object: StoredObject, { id, storage }: DurableObjectState) {
  for (let tries = 25; ; tries--) {
    const seen = { name: id.name, due: object.nextDue(), alarm: await storage.getAlarm() };
    if (seen.due === null || seen.alarm !== null || tries === 0) return seen;
    await scheduler.wait(20);
  }
}

/** Invariant 2, on every object after every test: rows that wait imply an alarm, and in time. */
afterEach(async () => {
  const moves = clock.moves || vi.isMockFunction(Date.now);
  vi.restoreAllMocks();
  for (const [id, name] of made) {
    const objects = namespaces[name] as DurableObjectNamespace<StoredObject> | undefined;
    if (!objects) continue;
    const seen = await runInDurableObject(objects.get(objects.idFromString(id)), lookAt);
    if (seen.due === null) continue;
    const what = `alarm of ${seen.name ?? id}, whose rows wait`;
    expect(seen.alarm, what).not.toBeNull();
    // The alarm may stand later than the rows by the guard that is set while one runs.
    if (!moves) expect(seen.alarm, what).toBeLessThanOrEqual(Math.max(seen.due, Date.now()) + 6_000);
  }
});

// The next file runs in the same runtime: a clock that a test has stopped would stand still there, too.
afterEach(() => void vi.useRealTimers());
