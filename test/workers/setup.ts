import { applyD1Migrations, listDurableObjectIds, reset, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, expect, vi } from "vitest";
import { forgetAnswers } from "../../src/access/authorizer.ts";
import type { StoredObject } from "../../src/objects/stored-object.ts";

beforeEach(async () => {
  await reset();
  forgetAnswers();
  await applyD1Migrations(env.LISTINGS, env.TEST_MIGRATIONS);
});

/** Invariant 2, on every object after every test: rows that wait imply an alarm, and in time. */
afterEach(async () => {
  vi.restoreAllMocks();
  for (const namespace of [env.ACCESS_CONTROL, env.KV_STORE, env.SYNC_DESTINATION, env.EVENT_LOG]) {
    const objects = namespace as DurableObjectNamespace<StoredObject>;
    for (const id of await listDurableObjectIds(objects)) {
      const seen = await runInDurableObject(objects.get(id), async (object, state) => ({
        name: state.id.name,
        due: object.nextDue(),
        alarm: await state.storage.getAlarm(),
      }));
      if (seen.due !== null) expect(seen.alarm, `alarm of ${seen.name}, whose rows wait`).not.toBeNull();
    }
  }
});
