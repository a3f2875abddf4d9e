import { beforeEach, describe, expect, it, vi } from "vitest";
import { part } from "../support/long.ts";
import { del, get, list, put } from "./client.ts";
import { clock } from "./clock.ts";
import { deaths, dieAt } from "./engine-deaths.ts";
import { byItself, mountEngine, openTenant, rows, skippingWaits, succeeded, type Tenant } from "./engine-helpers.ts";

clock.moves = true;

/** Static roles of Azure: passwords of applications that others have made, which the engine replaces on time. */

const HOUR = 3_600;
const DAY = 24 * HOUR;
const PERIOD = 720 * HOUR;

let tenant: Tenant;
let uuid: string;
let application: string;

const write = (name: string, body: Record<string, unknown>) =>
  skippingWaits(() => put(`/v1/cloud-b/static-roles/${name}`, body));
const adopt = (name: string, body: Record<string, unknown>) =>
  skippingWaits(() => put(`/v1/cloud-b/static-roles/${name}/import`, { application_object_id: application, ...body }));
const rotate = (name = "app") => skippingWaits(() => put(`/v1/cloud-b/rotate-role/${name}`, {}));
const role = async (name = "app") => succeeded(await get(`/v1/cloud-b/static-roles/${name}`)).body.data;
const creds = async (name = "app") => succeeded(await get(`/v1/cloud-b/static-creds/${name}`)).body.data;
const passwords = async () =>
  ((await tenant.everything()).applications.find(({ id }) => id === application)?.passwords ?? []).map(
    ({ keyId }) => keyId,
  );
const foreign = async () =>
  (await tenant.call({ change: "AddPassword", id: application, displayName: "theirs" })) as {
    keyId: string;
    secretText: string;
  };
const noJobs = async () => expect(await rows(uuid, "jobs")).toEqual([]);
const body = (more: Record<string, unknown> = {}) => ({
  application_object_id: application,
  rotation_period: PERIOD,
  ...more,
});

beforeEach(async () => {
  tenant = await openTenant();
  uuid = await mountEngine(tenant);
  application = tenant.existing_application.object_id;
});

describe("static-roles/:name", () => {
  it("has a password of its application that works, and removes it, but not the application, on deletion", async () => {
    succeeded(await write("App", body({ metadata: { team: "a" } })));
    const { client_secret, ...shown } = await creds();
    const [keyId] = await passwords();
    expect(shown).toEqual({
      client_id: tenant.existing_application.client_id,
      secret_id: keyId,
      expiration: expect.stringMatching(/^\d{4}-.*Z$/),
      ttl: expect.closeTo(PERIOD - 300, -1),
      last_vault_rotation: expect.stringMatching(/^\d{4}-.*Z$/),
      rotation_period: PERIOD,
      metadata: { team: "a" },
    });
    expect(client_secret).toMatch(/8Q~/);
    const view = await role();
    expect(view).toMatchObject({ rotation_period: PERIOD, ttl: PERIOD, rotation_grace_period: 300, secret_id: keyId });
    expect(JSON.stringify([view, await rows(uuid, "roles")])).not.toContain(client_secret);
    expect((await list("/v1/cloud-b/static-roles")).body.data.keys).toEqual(["app"]);
    expect((await list("/v1/cloud-b/roles")).status).toBe(404);
    expect(await passwords()).toHaveLength(1);
    expect((await del("/v1/cloud-b/static-roles/app")).status).toBe(204);
    await byItself(uuid, noJobs);
    expect(await passwords()).toEqual([]);
    for (const path of ["static-roles/app", "static-creds/app"]) {
      expect((await get(`/v1/cloud-b/${path}`)).status, path).toBe(404);
    }
  });

  it("refuses a body, and makes no password for it", async () => {
    const table: readonly (readonly [body: Record<string, unknown>, error: string])[] = [
      [{ application_object_id: "" }, "application_object_id: required"],
      [{ application_object_id: "moon" }, "application_object_id: must be a UUID"],
      [{ rotation_period: "719h" }, "rotation_period: must be at least 720h"],
      [{ ttl: "721h" }, "ttl: is another name of rotation_period; send one of them"],
      [{ rotation_grace_period: -2 }, "rotation_grace_period: must be -1 or more"],
      [
        { rotation_grace_period: "360h" },
        "rotation_grace_period: must be at most half of rotation_period without an hour",
      ],
      [{ client_secret: "x" }, "client_secret: needs secret_id"],
      [{ secret_id: "x" }, "secret_id: must be a UUID"],
      [
        { application_object_id: tenant.root.object_id },
        "application_object_id: is the application that the engine itself acts as",
      ],
    ];
    for (const [more, error] of table) {
      const answer = await write("app", body(more));
      expect([answer.status, answer.body.errors], error).toEqual([400, [error]]);
    }
    const missing = await write("app", body({ application_object_id: crypto.randomUUID() }));
    expect([missing.status, missing.body.errors?.[0]]).toEqual([400, expect.stringContaining("error loading")]);
    expect([await passwords(), (await get("/v1/cloud-b/static-roles/app")).status]).toEqual([[], 404]);
    await noJobs();
  });

  it("keeps its password when its fields change, and its application for itself", async () => {
    succeeded(await write("app", body()));
    const { secret_id, ttl } = await creds();
    expect([ttl, (await write("other", body())).body.errors]).toEqual([
      expect.closeTo(PERIOD - 300, -1),
      ['application_object_id: the static role "app" has this application'],
    ]);
    succeeded(await write("app", { ttl: "8760h", rotation_grace_period: "1h", metadata: { a: "b" } }));
    // The password ends when it did.
    expect(await creds()).toMatchObject({ secret_id, rotation_period: 8_760 * HOUR, metadata: { a: "b" } });
    expect((await creds()).ttl).toBeLessThanOrEqual(PERIOD - HOUR);
    const other = await write("app", { application_object_id: crypto.randomUUID() });
    expect(other.body.errors).toEqual([
      "application_object_id: cannot be changed; delete the role and write another one",
    ]);
    succeeded(await write("app", { rotation_period: 0, rotation_grace_period: 0, seamless_rotation: false }));
    expect(await role()).toMatchObject({
      ttl: 17_520 * HOUR,
      rotation_grace_period: 300,
      seamless_rotation: false,
    });
  });

  it("has no credentials before the first rotation when they are deferred", async () => {
    succeeded(await write("app", body({ defer_initial_creds: true })));
    const refused = await get("/v1/cloud-b/static-creds/app");
    expect([refused.status, refused.body.errors]).toEqual([
      400,
      ["the role has no credentials yet: rotate it to make them"],
    ]);
    expect(await passwords()).toEqual([]);
    succeeded(await rotate());
    expect(await passwords()).toEqual([(await creds()).secret_id]);
  });

  it("answers metadata of the request after that of the role", async () => {
    succeeded(await write("app", body({ metadata: { team: "a" } })));
    const at = "/v1/cloud-b/static-creds/app?metadata=team=b&metadata=env=dev";
    expect((await get(at)).body.data.metadata).toEqual({ team: "a", env: "dev" });
  });
});

describe("a new static role", () => {
  it("has the seamless_rotation of the configuration unless its write says another", async () => {
    const config = async () => succeeded(await get("/v1/cloud-b/config")).body.data;
    expect("seamless_rotation" in (await config())).toBe(false);
    succeeded(await put("/v1/cloud-b/config", { seamless_rotation: false }));
    expect(await config()).toMatchObject({ seamless_rotation: false });
    succeeded(await write("app", body({ defer_initial_creds: true })));
    expect(await role()).toMatchObject({ seamless_rotation: false });
    // Later changes of the configuration leave it, as does a write that does not say.
    succeeded(await put("/v1/cloud-b/config", { seamless_rotation: true }));
    succeeded(await write("app", { metadata: { team: "a" } }));
    expect(await role()).toMatchObject({ seamless_rotation: false });
    succeeded(await write("app", { seamless_rotation: true }));
    expect(await role()).toMatchObject({ seamless_rotation: true });
    expect((await put("/v1/cloud-b/config", { seamless_rotation: "often" })).status).toBe(400);
  });
});

describe("POST static-creds/:name/token", () => {
  const scope = "https://graph.microsoft.com/.default";
  const obtain = (body: Record<string, unknown>, name = "app") => put(`/v1/cloud-b/static-creds/${name}/token`, body);

  it("answers a token of the application for the scope, without a lease, and stores it nowhere", async () => {
    succeeded(await write("app", body()));
    const { body: answer } = succeeded(await obtain({ scope }));
    const { access_token: token, ...rest } = answer.data;
    expect([answer.lease_id, rest]).toEqual([
      "",
      { token_type: "Bearer", expires_in: expect.any(Number), ext_expires_in: expect.any(Number) },
    ]);
    const claims = JSON.parse(atob(token.split(".")[1].replaceAll("-", "+").replaceAll("_", "/")));
    expect(claims).toMatchObject({ aud: "https://graph.microsoft.com", appid: tenant.existing_application.client_id });
    for (const table of ["roles", "jobs"] as const) {
      expect(JSON.stringify(await rows(uuid, table)), table).not.toContain(token);
    }
  });

  it("refuses a scope that the provider does not know, and a role without a password", async () => {
    succeeded(await write("app", body({ defer_initial_creds: true })));
    const early = await obtain({ scope });
    expect([early.status, early.body.errors]).toEqual([
      400,
      ["the role has no credentials yet: rotate it to make them"],
    ]);
    succeeded(await rotate());
    const { client_secret } = await creds();
    for (const wrong of ["openid", "https://graph.microsoft.com", "https://nowhere.example/.default"]) {
      const answer = await obtain({ scope: wrong });
      expect([answer.status, answer.body.errors?.[0]], wrong).toEqual([
        400,
        expect.stringMatching(/^error obtaining a token: No access token was given: the (scope|tenant)/),
      ]);
      expect(JSON.stringify(answer.body)).not.toContain(client_secret);
    }
    for (const none of [{}, { scope: "" }, { scope: 7.5 }, { scope: "x".repeat(1025) }]) {
      expect((await obtain(none)).status, JSON.stringify(none).slice(0, 40)).toBe(400);
    }
    expect((await obtain({ scope }, "none")).status).toBe(404);
  });
});

describe("POST static-creds/:name/token, while the provider does not answer a login", () => {
  const scope = "https://graph.microsoft.com/.default";
  /** Its limit of the login is 25 s. */
  const LOGIN_MS = 25_000;

  it.each([
    ["fails", { fault: "error", status: 503, code: "temporarily_unavailable" }, 502],
    ["throttles", { fault: "error", status: 429, code: "throttled" }, 502],
    ["answers no JSON", { fault: "raw", status: 200, body: "<html>" }, 502],
    ["cuts the connection", { fault: "drop" }, 502],
    ["is silent beyond the limit of the login", { fault: "delay", ms: 3_000 }, 504],
  ] as const)("answers an error without secrets when the provider %s", async (_what, fault, status) => {
    succeeded(await write("app", body()));
    const { client_secret } = await creds();
    const set = globalThis.setTimeout as (run: () => void, ms: number, ...given: unknown[]) => unknown;
    const brief = (run: () => void, ms = 0, ...given: unknown[]) =>
      set(run, ms > 20_000 && ms <= LOGIN_MS ? 300 : ms, ...given);
    // A busy machine may need longer than the brief limit for the other answers.
    if (fault.fault === "delay")
      vi.spyOn(globalThis, "setTimeout").mockImplementation(brief as unknown as typeof setTimeout);
    await tenant.fault({ ...fault, operation: "Token", count: 10 });
    const answer = await put("/v1/cloud-b/static-creds/app/token", { scope });
    expect([answer.status, answer.body.errors?.[0]], answer.text).toEqual([
      status,
      expect.stringContaining("error obtaining a token: "),
    ]);
    expect(answer.text).not.toContain(client_secret);
    expect(await creds()).toMatchObject({ client_secret });
    expect(await rows(uuid, "jobs")).toEqual([]);
  });
});

describe("static-roles/:name/import", () => {
  it("takes over a password with its text, which a deleted role leaves, and a rotation replaces", async () => {
    const { keyId, secretText } = await foreign();
    succeeded(await adopt("app", { secret_id: keyId, client_secret: secretText, ttl: PERIOD }));
    expect(await creds()).toMatchObject({ secret_id: keyId, client_secret: secretText });
    succeeded(await del("/v1/cloud-b/static-roles/app"));
    await byItself(uuid, noJobs);
    expect(await passwords()).toEqual([keyId]);
    succeeded(await write("app", body({ secret_id: keyId, client_secret: secretText })));
    succeeded(await rotate());
    const { secret_id } = await creds();
    expect(await passwords()).toEqual([keyId, secret_id]);
    succeeded(await del("/v1/cloud-b/static-roles/app"));
    await byItself(uuid, noJobs);
    expect(await passwords()).toEqual([]);
  });

  it("replaces a password without its text at once, or with skip_import_rotation by the first rotation", async () => {
    const [first, second] = [await foreign(), await foreign()];
    succeeded(await adopt("app", { secret_id: first.keyId, seamless_rotation: false }));
    await byItself(uuid, noJobs);
    const { secret_id } = await creds();
    expect(await passwords()).toEqual([second.keyId, secret_id]);
    succeeded(await del("/v1/cloud-b/static-roles/app"));
    await byItself(uuid, noJobs);
    succeeded(await adopt("app", { secret_id: second.keyId, skip_import_rotation: true }));
    expect([(await get("/v1/cloud-b/static-creds/app")).status, (await role()).secret_id]).toEqual([400, second.keyId]);
    succeeded(await rotate());
    expect(await passwords()).toEqual([second.keyId, (await creds()).secret_id]);
  });

  it("refuses a password that the application does not have, and another text than its own", async () => {
    const { keyId } = await foreign();
    const none = crypto.randomUUID();
    const table = [
      [{ secret_id: none }, `secret_id: the application has no password with the id '${none}'`],
      [{ secret_id: keyId, client_secret: "@@@" }, "client_secret: is not the text of the password secret_id"],
      [{}, "secret_id: required"],
    ] as const;
    for (const [given, error] of table) expect((await adopt("app", given)).body.errors).toEqual([error]);
    expect(await passwords()).toEqual([keyId]);
  });

  it("is repeated by clients that send the fields of the creation with each update", async () => {
    const { keyId, secretText } = await foreign();
    const imported = body({ secret_id: keyId, client_secret: secretText });
    succeeded(await write("app", imported));
    succeeded(await rotate());
    const { secret_id } = await creds();
    succeeded(await write("app", { ...imported, metadata: { a: "b" } }));
    expect((await creds()).secret_id).toBe(secret_id);
  });
});

describe("the rotation of a static role of Azure", () => {
  it("is on time, and the password before works until its grace period ends", async () => {
    succeeded(await write("app", body({ rotation_grace_period: DAY })));
    const first = await creds();
    const seen = [first.secret_id];
    let overlap = 0;
    await byItself(
      uuid,
      async () => {
        const { secret_id } = await creds();
        if (secret_id !== seen.at(-1)) seen.push(secret_id);
        const there = await passwords();
        if (there.length > 1) overlap++;
        expect(there.length).toBeLessThanOrEqual(2);
        expect(there).toContain(secret_id);
        expect([seen.length, there]).toEqual([2, [secret_id]]);
      },
      (DAY * 1000) / 3,
      25 * DAY * 1000,
    );
    expect(overlap).toBeGreaterThan(0);
    expect(await rows(uuid, "leases")).toEqual([]);
  });

  it("removes the password before at once without a grace period", async () => {
    for (const more of [{ rotation_grace_period: -1 }, { seamless_rotation: false }]) {
      succeeded(await write("app", body(more)));
      succeeded(await rotate());
      await byItself(uuid, noJobs);
      expect(await passwords()).toEqual([(await creds()).secret_id]);
      succeeded(await del("/v1/cloud-b/static-roles/app"));
      await byItself(uuid, noJobs);
    }
  });

  it("never leaves three passwords when it is asked for twice", async () => {
    succeeded(await write("app", body()));
    succeeded(await rotate());
    const { secret_id: second } = await creds();
    succeeded(await rotate());
    expect(await passwords()).toEqual([second, (await creds()).secret_id]);
    await byItself(uuid, async () => expect(await passwords()).toEqual([(await creds()).secret_id]), 60_000);
  });

  it("waits until logins with the new password succeed", async () => {
    await tenant.call({ change: "SetLags", lags: { password: { requests: 2 } } });
    succeeded(await skippingWaits(() => write("app", body())));
    const logins = (await tenant.requests()).filter(({ operation }) => operation === "Token");
    expect(logins.filter(({ status }) => status === 401)).toHaveLength(2);
    expect(await passwords()).toEqual([(await creds()).secret_id]);
  });

  it("needs no login for an application without a principal", async () => {
    await tenant.call({ change: "DeleteServicePrincipal", id: tenant.existing_application.principal_id });
    succeeded(await write("app", body()));
    expect(await passwords()).toEqual([(await creds()).secret_id]);
  });

  it("is repeated after a refusal, and says so in the log and the audit log, without a secret", async () => {
    const [lines, warnings] = [vi.spyOn(console, "info"), vi.spyOn(console, "warn")];
    succeeded(await write("app", body()));
    const { secret_id, client_secret } = await creds();
    const refused = { fault: "error", status: 403, code: "Authorization_RequestDenied", count: 2 } as const;
    await tenant.fault({ operation: "AddApplicationPassword", ...refused });
    await byItself(
      uuid,
      async () => expect((await creds()).secret_id).not.toBe(secret_id),
      60_000,
      (PERIOD - 300) * 1000,
    );
    const texts = [...lines.mock.calls, ...warnings.mock.calls].map(([line]) => String(line));
    expect(texts.some((line) => line.includes('"role-rotated"') && line.includes("static-roles/app"))).toBe(true);
    expect(texts.some((line) => line.includes("job-failed"))).toBe(true);
    for (const secret of [client_secret, (await creds()).client_secret]) {
      expect(texts.join("\n")).not.toContain(secret);
    }
  });
});

describe("a static role of Azure while Workers die and answers are lost", () => {
  const onePassword = async () => {
    await noJobs();
    expect(await passwords()).toEqual([(await creds()).secret_id]);
  };

  /** Lookup, password, principal, two logins. */
  const POLLS = 5;

  it.each(part(deaths(POLLS, 16)))("has one password after a death at poll %i (%s) of its write", async (...death) => {
    const died = dieAt(...death);
    await write("app", body());
    expect(died()).toBe(true);
    vi.restoreAllMocks();
    await byItself(uuid, onePassword);
  });

  it.each(part(deaths(1, 1)))("has no password after a death at call %i (%s) of its deletion", async (...death) => {
    succeeded(await write("app", body()));
    const died = dieAt(...death);
    await del("/v1/cloud-b/static-roles/app");
    expect(died()).toBe(true);
    vi.restoreAllMocks();
    await byItself(uuid, async () => {
      await noJobs();
      expect(await passwords()).toEqual([]);
    });
  });

  it.each(part(deaths(POLLS, 16)))(
    "has its two passwords after a death at poll %i (%s) of a rotation",
    async (...death) => {
      succeeded(await write("app", body({ rotation_grace_period: "10h" })));
      const { secret_id } = await creds();
      const died = dieAt(...death);
      await byItself(
        uuid,
        async () => {
          const next = (await creds()).secret_id;
          expect([died(), next === secret_id]).toEqual([true, false]);
          expect(await passwords()).toEqual([secret_id, next]);
          await noJobs();
        },
        50_000,
        (PERIOD - 10 * HOUR) * 1000,
      );
    },
  );

  it.each(part(deaths(2, 16)))(
    "removes the password before after a death at poll %i (%s) of that",
    async (...death) => {
      succeeded(await write("app", body()));
      succeeded(await rotate());
      expect(await passwords()).toHaveLength(2);
      const died = dieAt(...death);
      await byItself(
        uuid,
        async () => {
          expect(died()).toBe(true);
          await onePassword();
        },
        60_000,
      );
    },
  );

  const LOST = (["GetApplication", "AddApplicationPassword", "ListServicePrincipals"] as const).flatMap((operation) =>
    (["drop", "apply-then-drop"] as const).map((fault) => [operation, fault] as const),
  );

  it.each(LOST)("has one password after a lost answer of %s (%s)", async (operation, fault) => {
    await tenant.fault({ operation, fault });
    succeeded(await skippingWaits(() => write("app", body())));
    await byItself(uuid, onePassword);
  });

  it("finds and removes the passwords of a write that was given up after lost answers", async () => {
    const { keyId } = await foreign();
    await tenant.fault({ operation: "AddApplicationPassword", fault: "apply-then-drop", count: 20 });
    expect((await skippingWaits(() => write("app", body()))).status).toBeGreaterThanOrEqual(400);
    await byItself(uuid, async () => {
      await noJobs();
      expect(await passwords()).toEqual([keyId]);
    });
    expect((await get("/v1/cloud-b/static-roles/app")).status).toBe(404);
  });

  it("leaves no password of a mount that goes while a role is written", async () => {
    const died = dieAt(3, "before", 16);
    await write("app", body());
    expect(died()).toBe(true);
    vi.restoreAllMocks();
    succeeded(await del("/v1/sys/mounts/cloud-b"));
    await byItself(uuid, async () => expect(await passwords()).toEqual([]));
  });
});
