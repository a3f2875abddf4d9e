import { beforeEach, describe, expect, it, vi } from "vitest";
import type { PollResult } from "../../src/contracts/credential-engine.ts";
import { CredentialEngine } from "../../src/objects/credential-engine.ts";
import { get, put } from "./client.ts";
import { clock } from "./clock.ts";
import { byItself, engineObject, rows, skippingWaits, succeeded } from "./engine-helpers.ts";
import { openEngine, tenant, uuid, writeExisting } from "./engine-world.ts";

clock.moves = true;

beforeEach(() => openEngine());

const rotate = () => skippingWaits(() => put("/v1/cloud-b/rotate-root", {}));
const config = async () => (await get("/v1/cloud-b/config")).body.data;
const keys = async () =>
  ((await tenant.everything()).applications.find(({ id }) => id === tenant.root.object_id)?.passwords ?? []).map(
    ({ keyId }) => keyId,
  );
/** The engine can log in with its current secret, without a cached token. */
const works = async () => {
  await tenant.call({ change: "RevokeTokens" });
  await writeExisting();
};

describe("rotate-root", () => {
  // Proves: A.config.root_password_ttl.applied, A.engine.root-rotation, A.rotate-root.new-secret,
  // A.rotate-root.private, E.limits.root_password_ttl
  it("replaces the configured secret, shows its expiry, and keeps issuing", async () => {
    expect(await config()).not.toHaveProperty("root_password_expiration_date");
    const rotated = await rotate();
    expect([rotated.status, rotated.text]).toEqual([204, ""]);
    await byItself(uuid, async () => expect(await keys()).not.toContain(tenant.root.key_id));
    expect(await keys()).toHaveLength(1);
    const { root_password_expiration_date: ends } = await config();
    expect((Date.parse(ends) - Date.now()) / 86_400_000).toBeCloseTo(182, 0);
    await works();
    expect(await rows(uuid, "jobs")).toEqual([]);
  });

  it("keeps other secrets of the application over several rotations", async () => {
    const other = (await tenant.call({ change: "AddPassword", id: tenant.root.object_id, displayName: "theirs" })) as {
      keyId: string;
    };
    for (let n = 0; n < 2; n++) {
      expect((await rotate()).status).toBe(204);
      await byItself(uuid, async () => expect(await keys()).toHaveLength(2));
    }
    expect(await keys()).toContain(other.keyId);
    expect(await keys()).not.toContain(tenant.root.key_id);
    await works();
  });

  // Proves: A.rotate-root.propagation
  it("waits until the new secret is replicated", async () => {
    await openEngine({ lags: { password: { requests: 2 } } });
    expect((await rotate()).status).toBeLessThan(300);
    await byItself(uuid, async () => expect(await keys()).not.toContain(tenant.root.key_id), 5_000);
    await tenant.call({ change: "SetLags", lags: {} });
    await works();
  });

  it("returns 400 while a rotation is in progress", async () => {
    const answers = await Promise.all([rotate(), rotate()]);
    expect(answers.map(({ status }) => status).sort()).toEqual([204, 400]);
    expect(answers.map(({ text }) => text).join()).toContain("rotation in progress");
    await byItself(uuid, async () => expect(await keys()).toHaveLength(1));
  });

  it("refused by the provider keeps the secret and returns the reason", async () => {
    await tenant.fault({
      operation: "AddApplicationPassword",
      fault: "error",
      status: 403,
      code: "Authorization_RequestDenied",
      count: 9,
    });
    const refused = await rotate();
    expect(refused.status).toBe(400);
    expect(refused.body.errors.join()).toContain("Authorization_RequestDenied");
    expect(await keys()).toEqual([tenant.root.key_id]);
    await works();
  });

  it("returns 400 for a client id without an application", async () => {
    succeeded(await put("/v1/cloud-b/config", { client_id: crypto.randomUUID() }));
    const refused = await rotate();
    expect(refused.status).toBe(400);
    expect(await keys()).toEqual([tenant.root.key_id]);
  });

  it("is abandoned by a write of another secret, and removes only the new secret", async () => {
    await openEngine({ lags: { password: { ms: 60_000 } } });
    const asked = put("/v1/cloud-b/rotate-root", {});
    await vi.waitFor(async () => expect(await keys()).toHaveLength(2));
    await tenant.call({ change: "SetLags", lags: {} });
    const theirs = (await tenant.call({ change: "AddPassword", id: tenant.root.object_id })) as {
      keyId: string;
      secretText: string;
    };
    succeeded(await put("/v1/cloud-b/config", { client_secret: theirs.secretText }));
    expect((await asked).status).toBe(503);
    await byItself(uuid, async () => expect(await keys()).toHaveLength(2));
    expect(await keys()).toEqual([tenant.root.key_id, theirs.keyId]);
    await works();
  });
});

type Method = (this: { ctx: DurableObjectState }, ...parameters: unknown[]) => unknown;

describe("a rotation whose Worker dies", () => {
  it.each(
    [1, 2, 3, 4, 5].flatMap((nth) => [
      [nth, "before"],
      [nth, "after"],
    ]) as [number, string][],
  )("at poll %i (%s the object has received the report) completes automatically", async (nth, when) => {
    const original = CredentialEngine.prototype.poll as unknown as Method;
    let polls = 0;
    let deaths = 0;
    const spy = vi.spyOn(CredentialEngine.prototype, "poll").mockImplementation(function (
      this: unknown,
      ...parameters
    ) {
      const polled = () => original.apply(this as ThisParameterType<Method>, parameters) as PollResult;
      if (parameters[1] === null || deaths === 2 || ++polls < nth) return polled();
      if (when === "after" && deaths === 0) polled();
      deaths++;
      throw new Error("killed");
    });
    await rotate();
    expect(deaths).toBe(2);
    await byItself(uuid, async () => {
      expect(await rows(uuid, "jobs")).toEqual([]);
      expect(await keys()).toHaveLength(1);
    });
    expect(await keys()).not.toContain(tenant.root.key_id);
    spy.mockRestore();
    await works();
  });

  it.each(["apply-then-drop", "drop"] as const)(
    "with a lost answer to the new secret (%s) creates another one",
    async (fault) => {
      await tenant.fault({ operation: "AddApplicationPassword", fault });
      expect((await rotate()).status).toBe(204);
      await byItself(uuid, async () => expect(await keys()).toHaveLength(1));
      await works();
    },
  );
});

const HOUR_MS = 3_610_000;

describe("automatic rotation", () => {
  it("runs after each period", async () => {
    await openEngine({}, { rotation_period: "1h" });
    await byItself(uuid, async () => expect(await keys()).not.toContain(tenant.root.key_id), 5_000, HOUR_MS);
    const [first] = await keys();
    expect(await config()).toHaveProperty("root_password_expiration_date");
    await byItself(uuid, async () => expect(await keys()).not.toContain(first), 5_000, 3 * HOUR_MS);
    await works();
  });

  it("runs at the scheduled times", async () => {
    await openEngine({}, { rotation_schedule: "17 * * * *" });
    await byItself(uuid, async () => expect(await keys()).not.toContain(tenant.root.key_id), 5_000, HOUR_MS);
    await works();
  });

  it("is announced by the configuration, unless it is disabled", async () => {
    await openEngine({}, { rotation_period: "1h" });
    const { next_rotation_date: next } = (await config()) as { next_rotation_date: string };
    expect((Date.parse(next) - Date.now()) / 60_000).toBeCloseTo(60, 0);
    succeeded(await put("/v1/cloud-b/config", { disable_automated_rotation: true }));
    expect(await config()).not.toHaveProperty("next_rotation_date");
  });

  it("is retried after a refusal by the provider", async () => {
    await openEngine({}, { rotation_period: "1h" });
    await tenant.fault({
      operation: "AddApplicationPassword",
      fault: "error",
      status: 403,
      code: "Authorization_RequestDenied",
    });
    await byItself(uuid, async () => expect(await keys()).not.toContain(tenant.root.key_id), 15_000, HOUR_MS);
    await works();
  });

  it("does not run while it is disabled", async () => {
    await openEngine({}, { rotation_period: "1h", disable_automated_rotation: true });
    // Until its events are delivered.
    await vi.waitFor(async () => expect(await engineObject(uuid).nextDue()).toBeNull());
    succeeded(await put("/v1/cloud-b/config", { disable_automated_rotation: false }));
    expect(await engineObject(uuid).nextDue()).toBeGreaterThan(Date.now());
  });
});
