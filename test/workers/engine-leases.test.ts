import { runInDurableObject } from "cloudflare:test";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { itRows } from "../support/rows.ts";
import { accessObject, holderOf, issue, path, policies } from "./access.ts";
import { get, list, put, send } from "./client.ts";
import { clock } from "./clock.ts";
import {
  byItself,
  creds,
  dynamicRole,
  engineObject,
  lookup,
  mountEngine,
  openTenant,
  revoke,
  rows,
  succeeded,
  unmount,
  writeRole,
} from "./engine-helpers.ts";
import { fresh, openEngine, tenant, uuid } from "./engine-world.ts";
import { holdAnswer } from "./held-call.ts";

clock.moves = true;

beforeEach(() => openEngine());

const renew = (lease_id: string, increment?: string | number) => put("/v1/sys/leases/renew", { lease_id, increment });
const nothingIsLeft = async () => expect(await tenant.everything()).toEqual(fresh);
/** Columns of a lease beside its id and what is unique. */
const REST =
  "role, token, holding, issued, expires, key_ends, renewed, renewable, state, failure, NULL AS repeat, sealed, hand_over_by, account";
const existing = () => ({ application_object_id: tenant.existing_application.object_id });
const passwords = async () =>
  (await tenant.everything()).applications.find(({ id }) => id === tenant.existing_application.object_id)?.passwords ??
  [];

/** Runs with the clock advanced by `seconds`. */
async function later<T>(seconds: number, run: () => Promise<T>): Promise<T> {
  const real = Date.now.bind(Date);
  const clock = vi.spyOn(Date, "now").mockImplementation(() => real() + seconds * 1000);
  try {
    return await run();
  } finally {
    clock.mockRestore();
  }
}

describe("the TTL of a lease", () => {
  // Proves: A.role.ttl.applied, A.role.ttl.default
  it.each([
    [{}, 2_764_800, null],
    [{ ttl: 20, max_ttl: 30 }, 20, null],
    [{ ttl: 20, explicit_max_ttl: 60 }, 20, null],
    [{ explicit_max_ttl: 10 }, 10, /TTL of .* exceeded the effective max_ttl of "10s"/],
  ])("of role %j is %i seconds", async (ttls, seconds, warning) => {
    await writeRole("app", { ...existing(), ...ttls });
    const { body } = await creds("app");
    expect(body.lease_duration).toBe(seconds);
    if (warning) expect(body.warnings.join()).toMatch(warning);
    else expect(body.warnings).toBeNull();
  });

  // Proves: A.role.max_ttl.default, A.role.ttl.default
  it("is bounded by the mount, and its password by the maximum TTL", async () => {
    succeeded(await put("/v1/sys/mounts/cloud-b/tune", { default_lease_ttl: "10m", max_lease_ttl: "1h" }));
    await writeRole("app", existing());
    await writeRole("long", { ...existing(), ttl: "2h" });
    expect((await creds("app")).body.lease_duration).toBe(600);
    expect((await creds("long")).body.lease_duration).toBe(3600);
    for (const { endDateTime } of await passwords()) {
      expect(Date.parse(endDateTime) - Date.now()).toBeLessThanOrEqual(2 * 3_600_000);
    }
  });

  it("expires, and its credentials are revoked", async () => {
    await writeRole("web", dynamicRole(tenant, { ttl: 60 }));
    const { body } = await creds("web");
    await byItself(uuid, async () => {
      await nothingIsLeft();
      expect((await lookup(body.lease_id)).status).toBe(400);
    });
  });

  // Proves: A.role.max_ttl.applied
  it("is extended from now by a renewal, up to the maximum TTL", async () => {
    await writeRole("app", { ...existing(), ttl: 100, max_ttl: 300 });
    const { lease_id: lease } = (await creds("app")).body;
    const first = await later(50, () => renew(lease));
    expect(first.status, first.text).toBe(200);
    expect(first.body).toMatchObject({
      lease_id: lease,
      lease_duration: 100,
      renewable: true,
      data: null,
      warnings: null,
    });
    const second = await later(140, () => renew(lease, "10m"));
    expect(second.body.lease_duration).toBeLessThanOrEqual(160);
    expect(second.body.lease_duration).toBeGreaterThan(150);
    expect(second.body.renewable).toBe(false);
    expect(second.body.warnings.join()).toContain("exceeded the effective max_ttl");
    const third = await later(150, () => renew(lease));
    expect([third.status, third.body.errors]).toEqual([400, ["lease is not renewable"]]);
    const shown = (await lookup(lease)).body.data;
    expect(shown).toMatchObject({
      id: lease,
      path: "cloud-b/creds/app",
      renewable: false,
      last_renewal: expect.any(String),
    });
    const over = await later(301, () => renew(lease));
    expect([over.status, over.body.errors]).toEqual([400, ["lease expired"]]);
  });

  it("is not extended after its role is deleted, with a warning", async () => {
    await writeRole("app", { ...existing(), ttl: 100 });
    const { lease_id: lease } = (await creds("app")).body;
    succeeded(await send("DELETE", "/v1/cloud-b/roles/app"));
    const renewed = await later(50, () => renew(lease));
    expect(renewed.body.lease_duration).toBeLessThanOrEqual(51);
    expect(renewed.body.warnings.join()).toContain("the role is deleted");
    expect((await revoke(lease)).status).toBe(204);
    expect(await passwords()).toEqual([]);
  });

  itRows([
    [{}, /lease_id must be specified/],
    [{ lease_id: "cloud-b/creds/app/none" }, /lease not found/],
    [{ lease_id: "elsewhere/creds/app/none" }, /lease not found/],
    [{ lease_id: "cloud-b/creds/app/none", increment: "soon" }, /increment/],
  ])("returns 400 for a renewal with %j", async (body, because) => {
    const refused = await put("/v1/sys/leases/renew", body);
    expect(refused.status).toBe(400);
    expect(refused.body.errors.join()).toMatch(because);
  });
});

describe("a revocation", () => {
  it("counts missing resources as revoked", async () => {
    await writeRole("web", dynamicRole(tenant));
    await writeRole("app", existing());
    const [web, app] = [(await creds("web")).body, (await creds("app")).body];
    const application = (await tenant.everything()).applications.find(({ appId }) => appId === web.data.client_id);
    await tenant.call({ change: "DeleteApplication", id: application?.id ?? "", permanently: true });
    const [password] = await passwords();
    await tenant.call({
      change: "RemovePassword",
      id: tenant.existing_application.object_id,
      keyId: password?.keyId ?? "",
    });
    await later(100, async () => {
      for (const { lease_id: lease } of [web, app]) expect((await revoke(lease)).status).toBe(204);
      for (const { lease_id: lease } of [web, app]) expect((await lookup(lease)).status).toBe(400);
    });
    await nothingIsLeft();
    expect((await revoke(web.lease_id)).status).toBe(204);
  });

  it("without sync returns 202 and completes after the response", async () => {
    await writeRole("web", dynamicRole(tenant));
    const { lease_id: lease } = (await creds("web")).body;
    const accepted = await put("/v1/sys/leases/revoke", { lease_id: lease, sync: false });
    expect([accepted.status, accepted.body.data]).toEqual([202, null]);
    await byItself(uuid, nothingIsLeft);
  });

  it("refused by the provider returns the reason, is retried, and completes after the cause is removed", async () => {
    await writeRole("web", dynamicRole(tenant));
    const { lease_id: lease } = (await creds("web")).body;
    await tenant.call({ change: "LockScope", scope: tenant.resource_group });
    const refused = await revoke(lease);
    expect(refused.status).toBe(400);
    expect(refused.body.errors.join()).toMatch(/failed to revoke entry: .*ScopeLocked/);
    // The credentials are deleted; only the locked right remains.
    expect(await tenant.everything()).toMatchObject({ applications: fresh.applications, principals: fresh.principals });
    expect((await lookup(lease)).body.data).toMatchObject({
      renewable: false,
      revoke_error: expect.stringMatching(/ScopeLocked/),
    });
    await byItself(
      uuid,
      async () => expect(await rows(uuid, "leases")).toMatchObject([{ state: "irrevocable" }]),
      400_000,
    );
    expect((await renew(lease)).body.errors.join()).toContain("failed previous revocation attempts");
    const { accessor: mount_id } = (await get("/v1/sys/mounts/cloud-b")).body.data;
    expect((await get("/v1/sys/leases/count?type=irrevocable")).body.data).toEqual({
      lease_count: 1,
      counts: { [mount_id]: 1 },
    });
    expect((await get("/v1/sys/leases?type=irrevocable")).body).toMatchObject({
      data: { lease_count: 1, leases: [{ lease_id: lease, mount_id, error: expect.stringMatching(/ScopeLocked/) }] },
      warnings: null,
    });
    expect((await get("/v1/sys/leases")).status).toBe(404);
    expect((await get("/v1/sys/leases?type=irrevocable&limit=0")).status).toBe(400);
    await tenant.call({ change: "UnlockScope", scope: tenant.resource_group });
    expect((await revoke(lease)).status).toBe(204);
    await nothingIsLeft();
    expect(await rows(uuid, "jobs")).toEqual([]);
  });

  it("LIST returns every name of a long folder once, and folders among names", async () => {
    await writeRole("app", existing());
    const id = (await creds("app")).body.lease_id.replace("cloud-b/", "");
    const numbers = Array.from({ length: 1_203 }, (_, n) => String(n).padStart(4, "0"));
    // Folders before, among and after names, each with more than is read at a time.
    const folders = ["0000x", "0450x", "1300"].map((name) => `${name}/`);
    const below = folders.flatMap((name) => numbers.slice(0, 250).map((number) => name + number));
    await runInDurableObject(engineObject(uuid), (_object, { storage: { sql } }) => {
      for (const name of [...numbers, ...below]) {
        sql.exec(`INSERT INTO leases SELECT ? AS id, ${REST} FROM leases WHERE id = ?`, id.replace(/[^/]+$/, name), id);
      }
      sql.exec("DELETE FROM leases WHERE id = ?", id);
    });
    const found = (await list("/v1/sys/leases/lookup/cloud-b/creds/app")).body.data.keys;
    const wanted = [...numbers, ...folders].sort();
    expect(found).toEqual(wanted);
    // The object's pages have no name twice, either.
    expect(await engineObject(uuid).leaseNames("creds/app/", "")).toEqual(wanted.slice(0, 1_000));
  });

  it("of a prefix revokes all leases below it, and LIST returns the remaining names", async () => {
    await writeRole("app", existing());
    await writeRole("other", existing());
    const [first] = [
      (await creds("app")).body.lease_id,
      (await creds("app")).body.lease_id,
      (await creds("other")).body.lease_id,
    ];
    expect((await list("/v1/sys/leases/lookup")).body.data.keys).toEqual(["cloud-b/"]);
    expect((await list("/v1/sys/leases/lookup/cloud-b")).body.data.keys).toEqual(["creds/"]);
    expect((await list("/v1/sys/leases/lookup/cloud-b/creds/")).body.data.keys).toEqual(["app/", "other/"]);
    expect((await list("/v1/sys/leases/lookup/cloud-b/creds/app")).body.data.keys).toHaveLength(2);
    expect((await put(`/v1/sys/leases/revoke-prefix/${first}`, {})).status).toBe(204);
    expect(await rows(uuid, "leases")).toHaveLength(2);
    expect((await put("/v1/sys/leases/revoke-prefix/cloud-b/creds/app", {})).status).toBe(204);
    expect((await list("/v1/sys/leases/lookup/cloud-b/creds/")).body.data.keys).toEqual(["other/"]);
    expect((await put("/v1/sys/leases/revoke-prefix/cloud-b", {})).status).toBe(204);
    expect(await passwords()).toEqual([]);
    expect((await list("/v1/sys/leases/lookup/cloud-b")).status).toBe(404);
    expect((await put("/v1/sys/leases/revoke-prefix/none", {})).status).toBe(204);
  });

  it("of an empty prefix is refused, and ends no lease", async () => {
    await writeRole("app", existing());
    const { lease_id: lease } = (await creds("app")).body;
    for (const at of ["leases/revoke-prefix/", "leases/revoke-prefix//", "revoke-prefix/", "leases/revoke-force/"])
      for (const body of [{}, { sync: false }]) {
        const { status, body: answer } = await put(`/v1/sys/${at}`, body);
        expect({ at, status, errors: answer.errors }).toEqual({
          at,
          status: 400,
          errors: ["prefix must be specified"],
        });
      }
    expect((await lookup(lease)).status).toBe(200);
  });

  it("by force deletes leases that cannot be revoked", async () => {
    await writeRole("app", existing());
    const { lease_id: lease } = (await creds("app")).body;
    await tenant.fault({
      operation: "RemoveApplicationPassword",
      fault: "error",
      status: 403,
      code: "Authorization_RequestDenied",
      count: 99,
    });
    expect((await revoke(lease)).status).toBe(400);
    expect((await put("/v1/sys/leases/revoke-force/cloud-b/creds/app", {})).status).toBe(204);
    expect((await lookup(lease)).status).toBe(400);
    expect(await rows(uuid, "work")).toEqual([]);
    expect(await passwords()).toHaveLength(1);
  });

  it("of a prefix, and LIST, require sudo", async () => {
    const { client_token: token } = await holderOf(path("sys/leases/*", "update", "list", "read"));
    for (const at of ["revoke-prefix/cloud-b", "revoke-force/cloud-b", "tidy"]) {
      expect((await put(`/v1/sys/leases/${at}`, {}, { token })).status, at).toBe(403);
    }
    expect((await list("/v1/sys/leases/lookup/cloud-b", { token })).status).toBe(403);
    expect((await put("/v1/sys/leases/lookup", { lease_id: "cloud-b/creds/x/y" }, { token })).status).toBe(400);
    expect((await put("/v1/sys/leases/tidy", {})).status).toBe(202);
  });
});

describe("leases of a token", () => {
  const reader = () => policies({ reader: path("cloud-b/creds/*", "read") });

  it("are revoked with the token and its children", async () => {
    await reader();
    await writeRole("app", existing());
    const parent = (await issue({ policies: ["reader", "root"] })).client_token;
    const child = (await issue({ policies: ["reader"] }, { token: parent })).client_token;
    await creds("app", { token: parent });
    await creds("app", { token: child });
    const kept = (await creds("app")).body.lease_id;
    succeeded(await put("/v1/auth/token/revoke", { token: parent }));
    await byItself(uuid, async () => expect(await passwords()).toHaveLength(1));
    expect((await lookup(kept)).status).toBe(200);
  });

  it("are revoked when the token expires", async () => {
    await reader();
    await writeRole("app", existing());
    const { client_token: token } = await issue({ policies: ["reader"], ttl: "2m" });
    await creds("app", { token });
    await byItself(uuid, async () => expect(await passwords()).toEqual([]));
  });

  it("are refused for a token without remaining uses", async () => {
    await reader();
    await writeRole("app", existing());
    const { client_token: token } = await issue({ policies: ["reader"], num_uses: 1 });
    const refused = await creds("app", { token });
    expect([refused.status, refused.body.errors.join()]).toEqual([400, expect.stringContaining("no use left")]);
    expect(await passwords()).toEqual([]);
    expect(await rows(uuid, "jobs")).toEqual([]);
  });

  it("are refused for a token that ends during issuing", async () => {
    await reader();
    await writeRole("web", dynamicRole(tenant));
    const { client_token: token } = await issue({ policies: ["reader"] });
    const principal = holdAnswer(async () => (await tenant.requests()).at(-1)?.operation === "CreateServicePrincipal");
    const asked = creds("web", { token });
    await vi.waitFor(() => expect(principal.isHeld()).toBe(true));
    await accessObject().revokeToken({ own: token });
    await vi.waitFor(async () => expect(await rows(uuid, "jobs")).toMatchObject([{ kind: "removal" }]));
    principal.release();
    expect((await asked).status).toBe(503);
    expect(await rows(uuid, "leases")).toEqual([]);
    await byItself(uuid, nothingIsLeft);
  });
});

describe("a repeated request", () => {
  const key = { "X-Orch-Idempotency-Key": "deploy-7" };

  it("gets the same lease, sequentially and concurrently", async () => {
    await writeRole("web", dynamicRole(tenant, { ttl: 600 }));
    const answers = await Promise.all([creds("web", { headers: key }), creds("web", { headers: key })]);
    answers.push(await creds("web", { headers: { "Idempotency-Key": "deploy-7" } }));
    const [first] = answers;
    for (const { status, text, body } of answers) {
      expect(status, text).toBe(200);
      expect([body.lease_id, body.data]).toEqual([first?.body.lease_id, first?.body.data]);
    }
    expect((await tenant.everything()).applications).toHaveLength(fresh.applications.length + 1);
    expect((await creds("web")).body.lease_id).not.toBe(first?.body.lease_id);
  });

  it("gets a new lease for another caller or role, and after the lease has ended", async () => {
    await writeRole("web", dynamicRole(tenant));
    await writeRole("app", existing());
    const { client_token: token } = await holderOf(path("cloud-b/creds/*", "read"));
    const leases = [
      await creds("app", { headers: key }),
      await creds("app", { headers: key, token }),
      await creds("web", { headers: key }),
    ].map(({ body }) => body.lease_id);
    expect(new Set(leases).size).toBe(3);
    await revoke(leases[0]);
    expect((await creds("app", { headers: key })).body.lease_id).not.toBe(leases[0]);
  });

  it("stores its credentials sealed", async () => {
    await writeRole("app", existing());
    const { client_secret: secret } = (await creds("app", { headers: key })).body.data;
    const [lease] = await rows(uuid, "leases");
    expect(Buffer.from(lease?.["sealed"] as ArrayBuffer).toString("latin1")).not.toContain(secret);
    expect(JSON.stringify(lease)).not.toContain(secret);
    await creds("app");
    expect((await rows(uuid, "leases")).filter(({ sealed }) => sealed !== null)).toHaveLength(1);
  });
});

describe("verified credentials", () => {
  it("are returned once they work", async () => {
    const tenant = await openTenant({ lags: { password: { requests: 3 }, principalInLogin: { requests: 2 } } });
    await mountEngine(tenant, "slow");
    await put("/v1/slow/roles/web", { cloud_roles: [{ role_name: "Reader", scope: tenant.resource_group }] });
    const issued = await get("/v1/slow/creds/web?verify=true");
    expect(issued.status, issued.text).toBe(200);
    expect(issued.body.warnings).toBeNull();
    const { client_id: clientId } = issued.body.data;
    const tokens = (await tenant.requests()).filter(({ operation }) => operation === "Token");
    expect(tokens.filter(({ status }) => status !== 200).length).toBeGreaterThan(0);
    expect(tokens.slice(-3).every(({ status }) => status === 200)).toBe(true);
    expect(clientId).toEqual(expect.any(String));
  });
});

describe("disabling the mount", () => {
  it("revokes all its leases, and removes the applications of its roles", async () => {
    await writeRole("web", dynamicRole(tenant));
    await writeRole("kept", dynamicRole(tenant, { persist_app: true }));
    for (const role of ["web", "web", "kept"]) succeeded(await creds(role));
    expect((await unmount()).status).toBe(204);
    expect((await creds("web")).status).toBe(404);
    await byItself(uuid, nothingIsLeft);
    for (const table of ["config", "roles", "leases", "jobs"] as const)
      expect(await rows(uuid, table), table).toEqual([]);
  });

  it("returns 400 while a lease cannot be revoked, and succeeds after revoke-force", async () => {
    await writeRole("app", existing());
    const { lease_id: lease } = succeeded(await creds("app")).body;
    await tenant.fault({
      operation: "RemoveApplicationPassword",
      fault: "error",
      status: 403,
      code: "Authorization_RequestDenied",
      count: 99,
    });
    const refused = await unmount();
    expect(refused.status).toBe(400);
    expect(refused.body.errors.join()).toMatch(
      /failed to revoke "cloud-b\/creds\/app\/.*Authorization_RequestDenied.*revoke-force/,
    );
    expect((await lookup(lease)).status).toBe(200);
    succeeded(await put("/v1/sys/leases/revoke-force/cloud-b", {}));
    expect((await unmount()).status).toBe(204);
  });

  it("deletes an engine that was never configured", async () => {
    await mountEngine(null, "empty");
    expect((await unmount("empty")).status).toBe(204);
    expect((await get("/v1/empty/config")).status).toBe(404);
  });
});

it("writes an audit line per action, with actor and object and without secrets", async () => {
  const lines: string[] = [];
  vi.spyOn(console, "info").mockImplementation((line: string) => void lines.push(line));
  await writeRole("app", existing());
  const { client_token: token, accessor } = await holderOf(path("cloud-b/creds/*", "read"));
  const { body } = await creds("app", { token });
  await revoke(body.lease_id);
  const id = body.lease_id.slice("cloud-b/".length);
  const events = lines.map((line) => JSON.parse(line));
  expect(events).toEqual(
    expect.arrayContaining([
      expect.objectContaining({ event: "role-written", role: "app" }),
      expect.objectContaining({ event: "lease-issued", lease: id, role: "app", token: accessor }),
      expect.objectContaining({ event: "lease-revoked", job: id }),
    ]),
  );
  for (const secret of [body.data.client_secret, tenant.client_secret, token])
    expect(lines.join()).not.toContain(secret);
  expect((await engineObject(uuid).leaseCount()).total).toBe(0);
});
