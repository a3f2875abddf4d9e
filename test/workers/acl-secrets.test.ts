import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { AccessControl } from "../../src/objects/access-control.ts";
import { accessObject, issue } from "./access.ts";
import { get, put, send } from "./client.ts";
import { deployment } from "./deployment.ts";
import { dump } from "./stored-rows.ts";

/* Secrets of tokens made under /v1/acl, which Terraform reads back. */

const upstream = (token = "root") => ({ token: null, headers: { "X-Nomad-Token": token } });
const create = async (body: object) => (await send("POST", "/v1/acl/token", body)).body;
const secretOf = async (accessor: string, options: Parameters<typeof get>[1]): Promise<string> =>
  (await get(`/v1/acl/token/${accessor}`, options)).body.SecretID;

it("returns the secret only to management tokens in the upstream dialect, also after an update", async () => {
  const made = await create({ Name: "n", Type: "client", Policies: ["p"] });
  const boss = await create({ Type: "management" });
  const at = `/v1/acl/token/${made.AccessorID}`;
  expect(await secretOf(made.AccessorID, upstream())).toBe(made.SecretID);
  expect(await secretOf(made.AccessorID, upstream(boss.SecretID))).toBe(made.SecretID);
  const updated = await put(at, { Name: "m", Type: "client", Policies: ["p", "q"] }, upstream());
  expect(updated.body).toMatchObject({ Name: "m", SecretID: made.SecretID });
  expect((await put(at, { Type: "client", Policies: ["p"] })).body.SecretID).toBe("");
  expect(await secretOf(made.AccessorID, {})).toBe("");
  expect((await get(at, upstream((await create({ Type: "client", Policies: ["p"] })).SecretID))).status).toBe(403);
  expect((await get("/v1/acl/tokens", upstream())).text).not.toContain(made.SecretID);
  const { accessor } = await issue({ policies: ["p"] });
  expect(await secretOf(accessor, upstream())).toBe("");
});

it("returns the caller's own secret in both dialects, for tokens of either API", async () => {
  const made = await create({ Type: "client", Policies: ["p"] });
  const own = await issue({ policies: ["p"] });
  const tokens = [
    [made.SecretID, made.AccessorID],
    [own.client_token, own.accessor],
  ];
  for (const [secret, accessor] of tokens) {
    for (const options of [{ token: secret }, upstream(secret)]) {
      expect((await get("/v1/acl/token/self", options)).body.SecretID).toBe(secret);
      expect(await secretOf(accessor, options)).toBe(secret);
    }
  }
});

it("stores the secret sealed, bound to its token", async () => {
  const [made, other] = [await create({ Type: "management" }), await create({ Type: "management" })];
  expect(await dump()).not.toContain(made.SecretID);
  await runInDurableObject(accessObject(), (_object, { storage: { sql } }) => {
    const stolen = "(SELECT secret FROM tokens WHERE accessor = ?)";
    sql.exec(`UPDATE tokens SET secret = ${stolen} WHERE accessor = ?`, made.AccessorID, other.AccessorID);
  });
  const moved = await get(`/v1/acl/token/${other.AccessorID}`, upstream());
  expect([moved.status, moved.text.includes(made.SecretID)]).toEqual([503, false]);
  expect(await secretOf(made.AccessorID, upstream())).toBe(made.SecretID);
});

it("stores no secret with ACL_TOKEN_SECRETS=off, and deletes stored ones", async () => {
  const made = await create({ Type: "management" });
  const off = deployment({ ACL_TOKEN_SECRETS: "off" });
  const read = await off(`/v1/acl/token/${made.AccessorID}`, { token: null, headers: { "X-Nomad-Token": "root" } });
  expect(JSON.parse(read.text).SecretID).toBe("");
  const kept = await runInDurableObject(accessObject(), async (_object, state) => {
    const quiet = new AccessControl(state, { ...env, ACL_TOKEN_SECRETS: "off" } as Env);
    const next = await quiet.createClusterToken({ Name: "", Type: "management" });
    expect(next).toMatchObject({ ok: true, value: { SecretID: expect.stringMatching(/^[0-9a-f-]{36}$/) } });
    return state.storage.sql.exec("SELECT accessor FROM tokens WHERE secret IS NOT NULL").toArray();
  });
  expect(kept).toEqual([]);
  expect(await secretOf(made.AccessorID, upstream())).toBe("");
});

it("tokens are uploaded by both ids, as upstream, and changed by the accessor alone", async () => {
  await put("/v1/acl/policy/p", { Rules: 'path "a" {}' });
  const ids = { AccessorID: crypto.randomUUID(), SecretID: crypto.randomUUID() };
  const client = { Type: "client", Policies: ["p"] };
  const refused = async (body: object) => (await put("/v1/acl/token", { ...client, ...ids, ...body })).text;
  const absent = `cannot find token ${ids.AccessorID}`;
  expect(await refused({ Type: "management", Policies: null })).toBe(absent);
  for (const SecretID of ["", "root", undefined]) expect(await refused({ SecretID })).toBe(absent);
  expect(await refused({ AccessorID: "x" })).toBe("cannot find token x");
  const made = await put("/v1/acl/token", { ...client, ...ids });
  expect([made.status, made.body]).toEqual([200, expect.objectContaining(ids)]);
  expect((await get("/v1/acl/token/self", { token: ids.SecretID })).body.AccessorID).toBe(ids.AccessorID);
  const other = crypto.randomUUID();
  expect(await refused({ AccessorID: other })).toBe(`cannot find token ${other}`);
  const renamed = await put("/v1/acl/token", { ...client, AccessorID: ids.AccessorID, Name: "renamed" });
  expect(renamed.body).toMatchObject({ AccessorID: ids.AccessorID, Name: "renamed" });
  expect((await get("/v1/acl/token/self", { token: ids.SecretID })).body.Name).toBe("renamed");
});
