import { env } from "cloudflare:workers";
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { engineDescriptions } from "../../src/credentials/engines/descriptions.ts";
import { engineTypes } from "../../src/credentials/engines/index.ts";
import { CredentialEngine } from "../../src/objects/credential-engine.ts";
import { madeUp } from "../made-up/engine/index.ts";
import type { LostAnswers } from "../made-up/engine/provider.ts";
import { part } from "../support/long.ts";
import { type Answer, del, get, put } from "./client.ts";
import { clock } from "./clock.ts";
import { countPolls, deaths, dieAt } from "./engine-deaths.ts";
import { byItself, rows, skippingWaits, succeeded } from "./engine-helpers.ts";
import { type Provider, subjects } from "./engine-subjects.ts";

/**
 * The promises of every type of engine: what it issues works, renews and goes; no death of a Worker and no lost answer
 * leaves anything at the provider.
 */

clock.moves = true;

const AT_ONCE = 16;

async function openMadeUp(): Promise<Provider> {
  const url = env.TEST_DOUBLES.madeUp;
  const control = async (path: string, body: unknown = {}): Promise<unknown> =>
    (await fetch(`${url}/_double/${path}`, { method: "POST", body: JSON.stringify(body) })).json();
  const { account, key } = (await control("accounts")) as { account: string; key: string };
  const of = `?account=${account}`;
  return {
    config: { url, key },
    role: { tier: "basic", ttl: 60 },
    everything: async () => {
      const keys = (await control(`everything${of}`)) as { id: string; kind: string }[];
      return keys.map(({ id, kind }) => `${kind} ${id}`).sort();
    },
    lose: (fault, count) => control(`faults${of}`, { method: "POST", fault, count } satisfies LostAnswers),
  };
}

const all = [
  ...subjects,
  {
    type: "made-up",
    upstream: "madeup",
    open: openMadeUp,
    polls: { issue: 1, rotation: 2 },
    calls: { issue: 1, revocation: 1, rotation: 2 },
  },
];

beforeAll(() => {
  engineTypes.push(madeUp);
  engineDescriptions.push(madeUp.description);
});
afterAll(() => {
  engineTypes.pop();
  engineDescriptions.pop();
});

describe.each(all)("an engine of type $type", ({ type, upstream, open, polls, calls, at = "creds/app" }) => {
  const { paths } = engineDescriptions.find((each) => each.type === type) ?? madeUp.description;
  let provider: Provider;
  let fresh: unknown;
  let uuid: string;
  beforeEach(async () => {
    provider = await open();
    succeeded(await put("/v1/sys/mounts/engine", { type }));
    const { config, document } = provider;
    succeeded(await put(`/v1/engine${paths.config}`, config));
    if (document) succeeded(await put(`/v1/engine/${document[0]}`, document[1]));
    succeeded(await put(`/v1/engine${paths.roles}/app`, provider.role));
    fresh = await provider.everything();
    uuid = (await get("/v1/sys/mounts/engine")).body.data.uuid;
  });

  const creds = (query = ""): Promise<Answer> => skippingWaits(() => get(`/v1/engine/${at}${query}`));
  const revoke = (lease_id: string) => skippingWaits(() => put("/v1/sys/leases/revoke", { lease_id }));
  const rotate = () => skippingWaits(() => put(`/v1/engine${paths.rotate}`, {}));
  const nothingIsLeft = async () => {
    expect(await rows(uuid, "leases")).toEqual([]);
    expect(await rows(uuid, "jobs")).toEqual([]);
    expect(await provider.everything()).toEqual(fresh);
  };

  it("is mounted and shown by its neutral and its upstream name", async () => {
    succeeded(await put("/v1/sys/mounts/other", { type: upstream }, { headers: { "X-Vault-Request": "true" } }));
    const shown = async (headers: Record<string, string>) =>
      (await get("/v1/sys/mounts/other", { headers })).body.data.type;
    expect([await shown({}), await shown({ "X-Vault-Request": "true" })]).toEqual([type, upstream]);
    const config = await get(`/v1/other${paths.config}`);
    expect([config.status, config.body.errors?.[0]], "nothing is configured").not.toContain("unsupported path");
    expect((await del("/v1/sys/mounts/other")).status).toBe(204);
  });

  it("issues credentials that work, renews their lease, and revokes it", async () => {
    const issued = succeeded(await creds("?verify=true"));
    expect(issued.body.warnings).toBeNull();
    expect(issued.body.lease_id).toMatch(new RegExp(`^engine/${at}/`));
    expect(issued.body).toMatchObject({ renewable: true, lease_duration: 60 });
    expect(await provider.everything()).not.toEqual(fresh);
    const renewed = succeeded(await put("/v1/sys/leases/renew", { lease_id: issued.body.lease_id, increment: 120 }));
    expect(renewed.body.lease_duration).toBe(120);
    succeeded(await revoke(issued.body.lease_id));
    await byItself(uuid, nothingIsLeft);
  });

  it("gets the same lease for a repeated request with a key", async () => {
    const ask = () => skippingWaits(() => get(`/v1/engine/${at}`, { headers: { "Idempotency-Key": "deploy" } }));
    const [{ body: first }, { body: again }] = [succeeded(await ask()), succeeded(await ask())];
    expect([again.lease_id, again.data]).toEqual([first.lease_id, first.data]);
    expect(await rows(uuid, "leases")).toHaveLength(1);
  });

  it("counts its leases for quotas, and refuses one before a call", async () => {
    succeeded(await put("/v1/sys/quotas/lease-count/engine", { path: "engine", max_leases: 1 }));
    succeeded(await put("/v1/sys/policies/acl/issuer", { policy: 'path "engine/*" { capabilities = ["read"] }' }));
    const { client_token: token } = succeeded(await put("/v1/auth/token/create", { policies: ["issuer"] })).body.auth;
    const ask = () => skippingWaits(() => get(`/v1/engine/${at}`, { token }));
    succeeded(await ask());
    const before = await provider.everything();
    expect((await ask()).status).toBe(429);
    expect(await provider.everything()).toEqual(before);
  });

  it("ends an expired lease by itself", async () => {
    succeeded(await creds());
    await byItself(uuid, nothingIsLeft);
  });

  it("leaves nothing when it is unmounted", async () => {
    succeeded(await creds());
    succeeded(await creds());
    succeeded(await del("/v1/sys/mounts/engine"));
    expect(await provider.everything()).toEqual(fresh);
  });

  it.each(deaths(polls.issue, AT_ONCE))(
    "leaves nothing of an issue whose Worker dies at poll %i (%s)",
    async (nth, when, calls) => {
      const died = dieAt(nth, when, calls);
      expect((await creds()).status).toBeGreaterThanOrEqual(500);
      expect(died()).toBe(true);
      await byItself(uuid, nothingIsLeft);
    },
  );

  it.each(["before", "after"] as const)("completes a revocation whose Worker dies (%s the report)", async (when) => {
    const { lease_id } = succeeded(await creds()).body;
    const died = dieAt(1, when, AT_ONCE);
    await revoke(lease_id);
    expect(died()).toBe(true);
    await byItself(uuid, nothingIsLeft);
  });

  it.each(part(deaths(calls.issue, 1)))(
    "leaves nothing of an issue whose Worker dies at call %i (%s the report)",
    async (...death) => {
      const died = dieAt(...death);
      expect((await creds()).status).toBeGreaterThanOrEqual(500);
      expect(died()).toBe(true);
      await byItself(uuid, nothingIsLeft);
    },
  );

  it.each(part(deaths(calls.revocation, 1)))(
    "completes a revocation whose Worker dies at call %i (%s the report)",
    async (...death) => {
      const { lease_id } = succeeded(await creds()).body;
      const died = dieAt(...death);
      await revoke(lease_id);
      expect(died()).toBe(true);
      await byItself(uuid, nothingIsLeft);
    },
  );

  it("has no further call at which its Worker could die", async () => {
    const issue = countPolls();
    const { lease_id } = succeeded(await creds()).body;
    const seen = { issue: issue() };
    const revocation = countPolls();
    succeeded(await revoke(lease_id));
    Object.assign(seen, { revocation: revocation() });
    const rotation = countPolls();
    succeeded(await rotate());
    expect({ ...seen, rotation: rotation() }).toEqual(calls);
  });

  it.each(["drop", "apply-then-drop"] as const)("issues once after a lost answer (%s)", async (fault) => {
    await provider.lose(fault, 1);
    // The waits for what a lost call has made are longer than the lease: here they take the time that they take.
    const { lease_id } = succeeded(await get(`/v1/engine/${at}?verify=true`)).body;
    succeeded(await revoke(lease_id));
    await byItself(uuid, nothingIsLeft);
  });

  it("finds and removes the orphans of an issue that was given up after lost answers", async () => {
    await provider.lose("apply-then-drop", 20);
    expect((await creds()).status).toBeGreaterThanOrEqual(400);
    await byItself(uuid, nothingIsLeft);
  });

  it("replaces its root secret, and removes the one before at the next rotation", async () => {
    succeeded(await rotate());
    await byItself(uuid, async () => expect(await rows(uuid, "jobs")).toEqual([]));
    fresh = await provider.everything();
    succeeded(await rotate());
    await byItself(uuid, async () => expect(await rows(uuid, "jobs")).toEqual([]));
    const after = await provider.everything();
    expect(after).not.toEqual(fresh);
    expect(JSON.stringify(after)).toHaveLength(JSON.stringify(fresh).length);
    succeeded(await creds("?verify=true"));
  });

  // The double of Google's token endpoint refuses a clock that differs from its own.
  it.runIf(type === "cloud-a" || type === "cloud-b")("replaces its root secret on time", async () => {
    succeeded(await put(`/v1/engine${paths.config}`, { rotation_period: "1h" }));
    await byItself(uuid, async () => expect(await provider.everything()).not.toEqual(fresh), 600_000);
    succeeded(await creds("?verify=true"));
  });

  it("keeps the root secret of a rotation soon after one whose answer was lost", async () => {
    // The call may still be applied, so its result is searched for, longer than the next rotation takes.
    await provider.lose("drop", 1);
    succeeded(await rotate());
    const second = rotate();
    const settled = () => byItself(uuid, async () => expect(await rows(uuid, "jobs")).toEqual([]));
    await settled();
    succeeded(await second);
    await settled();
    // A Worker of the rotation may still move the clock, beyond the time in which a lease is handed over.
    await vi.waitFor(async () => succeeded(await creds("?verify=true")));
  });

  it.each([...deaths(polls.rotation, AT_ONCE), ...part(deaths(calls.rotation, 1))])(
    "completes or undoes a rotation whose Worker dies at poll %i (%s, %i calls)",
    async (nth, when, calls) => {
      const died = dieAt(nth, when, calls);
      await rotate();
      expect(died()).toBe(true);
      await byItself(uuid, async () => expect(await rows(uuid, "jobs")).toEqual([]));
      const { lease_id } = succeeded(await creds("?verify=true")).body;
      succeeded(await revoke(lease_id));
      await byItself(uuid, async () => expect(await rows(uuid, "leases")).toEqual([]));
    },
  );
});

it("holds a policy about a field of a made-up engine under both of its names", async () => {
  succeeded(await put("/v1/sys/mounts/engine", { type: "made-up" }));
  const rules =
    'path "engine/roles/*" { capabilities = ["create", "update"] denied_parameters = { level = ["Standard"] } }';
  succeeded(await put("/v1/sys/policies/acl/no-basic", { policy: rules }));
  const token = succeeded(await put("/v1/auth/token/create", { policies: ["no-basic"] })).body.auth.client_token;
  expect((await put("/v1/engine/roles/app", { tier: "basic" }, { token })).status).toBe(403);
  expect((await put("/v1/engine/roles/app", { tier: "other" }, { token })).status).toBe(204);
});

describe("an engine whose secrets end at the provider by themselves", () => {
  let account: string;
  let uuid: string;
  let lease: string;
  const control = async (path: string, body: unknown = {}) =>
    (await fetch(`${env.TEST_DOUBLES.madeUp}/_double/${path}`, { method: "POST", body: JSON.stringify(body) })).json();
  beforeEach(async () => {
    const opened = (await control("accounts")) as { account: string; key: string };
    account = opened.account;
    succeeded(await put("/v1/sys/mounts/engine", { type: "made-up" }));
    succeeded(await put("/v1/engine/config", { url: env.TEST_DOUBLES.madeUp, key: opened.key }));
    succeeded(await put("/v1/engine/roles/app", { ttl: 300 }));
    uuid = (await get("/v1/sys/mounts/engine")).body.data.uuid;
    lease = succeeded(await get("/v1/engine/creds/app")).body.lease_id;
  });

  const renew = () => put("/v1/sys/leases/renew", { lease_id: lease, increment: 1_200 });
  /** Seconds until the issued key ends at the provider. */
  const secondsLeft = async () => {
    const keys = (await control(`everything?account=${account}`)) as { kind: string; expires: number }[];
    return Math.round(((keys.find(({ kind }) => kind === "key")?.expires ?? 0) - Date.now()) / 1000);
  };

  it("moves their end with the lease, also after a lost answer", async () => {
    expect(await secondsLeft()).toBeLessThanOrEqual(300);
    await control(`faults?account=${account}`, { method: "PATCH", fault: "apply-then-drop", count: 1 });
    const { lease_duration, ...renewed } = succeeded(await renew()).body;
    expect(renewed).toMatchObject({ lease_id: lease, renewable: true });
    expect(lease_duration).toBeGreaterThan(1_190);
    expect(await secondsLeft()).toBeGreaterThan(1_190);
  });

  it.each(["before", "after"] as const)(
    "never extends a lease beyond its secret when the Worker dies (%s the report)",
    async (when) => {
      const died = dieAt(1, when, AT_ONCE);
      expect((await renew()).status).toBeGreaterThanOrEqual(500);
      expect(died()).toBe(true);
      await byItself(uuid, async () => expect(await rows(uuid, "jobs")).toEqual([]));
      const ttl = (await put("/v1/sys/leases/lookup", { lease_id: lease })).body.data.ttl;
      expect(await secondsLeft()).toBeGreaterThanOrEqual(ttl - 1);
    },
  );

  it("refuses a renewal that the provider refuses, and keeps the lease", async () => {
    succeeded(await put("/v1/engine/config", { key: "wrong" }));
    expect((await renew()).status).toBe(400);
    expect((await put("/v1/sys/leases/lookup", { lease_id: lease })).body.data.ttl).toBeLessThanOrEqual(300);
    expect(await rows(uuid, "jobs")).toEqual([]);
  });
});

describe("an engine whose credentials are not revoked", () => {
  let uuid: string;
  /** Seconds that are left of a life which began with the request, within 50. */
  const left = (life: number) => expect.closeTo(life - 25, -2);
  const control = async (path: string) =>
    (await fetch(`${env.TEST_DOUBLES.madeUp}/_double/${path}`, { method: "POST", body: "{}" })).json();
  beforeEach(async () => {
    const { key } = (await control("accounts")) as { key: string };
    succeeded(await put("/v1/sys/mounts/engine", { type: "made-up" }));
    succeeded(await put("/v1/engine/config", { url: env.TEST_DOUBLES.madeUp, key }));
    succeeded(await put("/v1/engine/roles/app", { session: true, ttl: 300, max_ttl: 900 }));
    uuid = (await get("/v1/sys/mounts/engine")).body.data.uuid;
  });

  it("ends the lease with the secret, and neither renews it nor calls the provider to revoke it", async () => {
    const { lease_id, ...issued } = succeeded(await get("/v1/engine/creds/app?verify=true")).body;
    expect(issued).toMatchObject({
      renewable: false,
      lease_duration: left(300),
      warnings: null,
      data: { ttl: left(300) },
    });
    expect((await put("/v1/sys/leases/renew", { lease_id })).body.errors).toEqual(["lease is not renewable"]);
    await put("/v1/engine/config", { key: "wrong" });
    expect((await put("/v1/sys/leases/revoke", { lease_id })).status).toBe(204);
    expect(await rows(uuid, "leases")).toEqual([]);
    expect(await rows(uuid, "jobs")).toEqual([]);
  });

  it("needs no hand-over of its lease", async () => {
    const marked = vi.spyOn(CredentialEngine.prototype, "handOver");
    const { lease_id } = succeeded(await get("/v1/engine/creds/app")).body;
    expect(marked).not.toHaveBeenCalled();
    expect(await rows(uuid, "leases")).toMatchObject([{ hand_over_by: null, state: "live" }]);
    expect((await put("/v1/sys/leases/lookup", { lease_id })).status).toBe(200);
  });

  it("takes the parameters of a request from its query or its body, within the role's maximum", async () => {
    const durations = [
      await get("/v1/engine/creds/app?ttl=10m"),
      await put("/v1/engine/creds/app", { ttl: "10m", verify: true }),
      await put("/v1/engine/creds/app", { ttl: 1_200 }),
      await put("/v1/engine/creds/app", {}),
    ].map((answer) => succeeded(answer).body.lease_duration);
    // Counted from the beginning of the request.
    for (const [at, most] of [600, 600, 900, 300].entries()) {
      expect(durations[at]).toBeLessThanOrEqual(most);
      expect(durations[at]).toBeGreaterThan(most - 60);
    }
    expect((await get("/v1/engine/creds/app?ttl=soon")).body.errors).toEqual([expect.stringMatching(/^ttl: /)]);
    expect((await put("/v1/engine/creds/app", { ttl: "soon" })).body.errors).toEqual([expect.stringMatching(/^ttl: /)]);
  });

  it("answers credentials without a lease at a path that ends in another word than the role", async () => {
    const actions = vi.spyOn(console, "info").mockImplementation(() => undefined);
    const token = succeeded(await put("/v1/engine/app/app/token", { ttl: 60 })).body;
    expect(token).toMatchObject({ lease_id: "", renewable: false, lease_duration: 0, data: { ttl: left(60) } });
    const action = actions.mock.calls
      .map(([line]) => JSON.parse(line))
      .find((each) => each.event === "credentials-issued");
    expect(action).toMatchObject({ role: expect.stringContaining("app"), token: expect.any(String) });
    expect(JSON.stringify(action)).not.toContain(token.data.key);
    expect(succeeded(await get("/v1/engine/app/app/token")).body.data.key).not.toBe(token.data.key);
    expect((await get("/v1/engine/app/none/token")).body.errors).toEqual(['there is no role "none"']);
    expect(await rows(uuid, "leases")).toEqual([]);
    expect(await rows(uuid, "jobs")).toEqual([]);
  });

  it("keeps further kinds of roles apart from those at its first path", async () => {
    expect((await get("/v1/engine/static-roles?list=true")).status).toBe(404);
    expect((await put("/v1/engine/static-role/app", { ttl: 60 })).body.errors).toEqual([
      expect.stringMatching(/^tier: /),
    ]);
    succeeded(await put("/v1/engine/static-role/app", { tier: "gold" }));
    succeeded(await put("/v1/engine/static-role/b", { tier: "gold" }));
    expect(succeeded(await get("/v1/engine/static-roles?list=true")).body.data.keys).toEqual(["app", "b"]);
    expect(succeeded(await get("/v1/engine/roles?list=true")).body.data.keys).toEqual(["app"]);
    expect(succeeded(await get("/v1/engine/roles/app")).body.data).toMatchObject({ tier: "basic" });
    expect(succeeded(await get("/v1/engine/static-role/app")).body.data).toMatchObject({ tier: "gold" });
    expect(succeeded(await put("/v1/engine/static-role/app/rotate", {})).body.warnings).toEqual([
      "the tier was rotated",
    ]);
    expect((await put("/v1/engine/static-role/none/rotate", {})).body.errors).toEqual(['there is no role "none"']);
    succeeded(await get("/v1/engine/static-role/app/key"));
    succeeded(await del("/v1/engine/static-role/app"));
    expect((await get("/v1/engine/static-role/app")).status).toBe(404);
    expect((await get("/v1/engine/roles/app")).status).toBe(200);
  });

  it("keeps a further document with the configuration", async () => {
    expect((await get("/v1/engine/config/lives")).status).toBe(404);
    expect((await put("/v1/engine/config/lives", { session: "2m" })).status).toBe(204);
    expect((await get("/v1/engine/config/lives")).body.data).toEqual({ session: 120 });
    expect((await get("/v1/engine/config")).body.data).toEqual({ url: env.TEST_DOUBLES.madeUp });
    expect(succeeded(await get("/v1/engine/creds/app")).body).toMatchObject({ lease_duration: left(120) });
  });

  it("answers the data of a rotation", async () => {
    expect(succeeded(await put("/v1/engine/rotate-root", {})).body.data).toEqual({ key_id: expect.any(String) });
  });
});
