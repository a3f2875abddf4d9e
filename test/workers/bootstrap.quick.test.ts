import { runInDurableObject } from "cloudflare:test";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { settings } from "../../src/platform/settings.ts";
import { accessObject, dump, eventsOf } from "./access.ts";
import { get, put } from "./client.ts";

const SECRET = "bootstrap-secret-of-the-tests";
const bootstrap = (body: object | undefined) => put("/v1/acl/bootstrap", body, { token: null });

/** The object as on a deployed service, where no setting names a root token. */
async function deployed(given: { BOOTSTRAP_SECRET?: string } = { BOOTSTRAP_SECRET: SECRET }): Promise<void> {
  await runInDurableObject(accessObject(), (object, { storage: { sql } }) => {
    sql.exec("DELETE FROM tokens");
    sql.exec("DELETE FROM facts WHERE name = 'bootstrapped'");
    const held = object as unknown as { env: object };
    // Its components have read the settings by then.
    vi.spyOn(settings(held.env), "BOOTSTRAP_SECRET", "get").mockReturnValue(given.BOOTSTRAP_SECRET);
    held.env = { ...held.env, DEV_ROOT_TOKEN: undefined };
  });
}

describe("the first root token of a deployed service", () => {
  beforeEach(() => deployed());

  it("is created for a caller with the secret, and works in both APIs", async () => {
    expect((await get("/v1/acl/token/self")).status).toBe(403);
    const made = await bootstrap({ BootstrapSecret: SECRET });
    expect(made.status).toBe(200);
    expect(made.body).toMatchObject({
      Name: "Bootstrap Token",
      Type: "management",
      Policies: null,
      Global: true,
      ExpirationTime: null,
      SecretID: expect.stringMatching(/^[0-9a-f-]{36}$/),
    });
    const token = { token: made.body.SecretID };
    expect((await get("/v1/acl/token/self", token)).body.AccessorID).toBe(made.body.AccessorID);
    expect((await get("/v1/sys/mounts", token)).status).toBe(200);
    expect(await dump()).not.toContain(made.body.SecretID);
  });

  it("is created once", async () => {
    const first = await bootstrap({ BootstrapSecret: SECRET });
    const again = await bootstrap({ BootstrapSecret: SECRET });
    expect([again.status, again.text]).toEqual([400, "ACL bootstrap already done (reset index: 1)"]);
    expect((await get("/v1/acl/tokens", { token: first.body.SecretID })).body).toHaveLength(1);
  });

  it("is created once under concurrent requests", async () => {
    const answers = await Promise.all(Array.from({ length: 8 }, () => bootstrap({ BootstrapSecret: SECRET })));
    expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array(7).fill(400)]);
  });

  it("is not created again after its revocation", async () => {
    const { body } = await bootstrap({ BootstrapSecret: SECRET });
    await put("/v1/auth/token/revoke-self", {}, { token: body.SecretID });
    expect((await bootstrap({ BootstrapSecret: SECRET })).status).toBe(400);
  });

  it.each([
    [undefined],
    [{}],
    [{ BootstrapSecret: "" }],
    [{ BootstrapSecret: "wrong" }],
    [{ BootstrapSecret: SECRET.toUpperCase() }],
  ])("returns 403 for %j, and stays available", async (body) => {
    const refused = await bootstrap(body);
    expect(refused.status).toBe(403);
    expect(refused.headers.get("content-type")).toMatch(/^text\/plain/);
    expect(refused.text).not.toContain(SECRET);
    expect((await bootstrap({ BootstrapSecret: SECRET })).status).toBe(200);
  });

  it("sends no event", async () => {
    const { body } = await bootstrap({ BootstrapSecret: SECRET });
    expect([body.CreateIndex, body.ModifyIndex]).toEqual([1, 1]);
    await runInDurableObject(accessObject(), (object) => object.bootstrap(null));
    expect(await dump()).not.toContain("ACLTokenUpserted");
  });
});

it("returns 403 without the setting, for any secret", async () => {
  await deployed({});
  for (const body of [{}, { BootstrapSecret: "" }, { BootstrapSecret: SECRET }, { BootstrapSecret: "undefined" }]) {
    expect((await bootstrap(body)).status).toBe(403);
  }
});

it("reports a deployment without its first token as not initialized", async () => {
  await deployed();
  expect((await get("/v1/sys/health", { token: null })).status).toBe(501);
  expect((await get("/v1/sys/seal-status", { token: null })).body).toMatchObject({ initialized: false, sealed: false });
  await bootstrap({ BootstrapSecret: SECRET });
  expect((await get("/v1/sys/health", { token: null })).status).toBe(200);
});

it("returns 400 in local development, where the setting names the root token", async () => {
  expect((await bootstrap({ BootstrapSecret: SECRET })).status).toBe(400);
  expect((await eventsOf("ACLToken")).filter(({ Key }) => Key !== "")).toEqual([]);
});
