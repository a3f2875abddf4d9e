import { beforeEach, describe, expect, it } from "vitest";
import { del, get, list, put } from "./client.ts";
import { clock } from "./clock.ts";
import { byItself, rows, succeeded } from "./engine-helpers.ts";
import { openProject } from "./gcp-helpers.ts";

clock.moves = true;

const SCOPES = ["https://www.googleapis.com/auth/cloud-platform"];

let project: Awaited<ReturnType<typeof openProject>>;
let fresh: string[];
let uuid: string;

beforeEach(async () => {
  project = await openProject();
  succeeded(await put("/v1/sys/mounts/gcp", { type: "cloud-c" }));
  uuid = (await get("/v1/sys/mounts/gcp")).body.data.uuid;
  expect((await get("/v1/gcp/config")).status).toBe(404);
  expect((await put("/v1/gcp/config", project.config)).status).toBe(204);
  fresh = await project.everything();
});

const errorsOf = async (path: string, body: object) => (await put(`/v1/gcp/${path}`, body)).body.errors;
const rightsOf = async (resource: string) =>
  (await project.everything()).filter((each) => each.startsWith(`right ${resource} `) && each.includes("vault"));

describe("the configuration", () => {
  it("answers everything but the key, and keeps what a write leaves out", async () => {
    expect((await put("/v1/gcp/config", { ttl: "1h", max_ttl: 7_200 })).status).toBe(204);
    const { data } = (await get("/v1/gcp/config")).body;
    expect(data).toMatchObject({ ttl: 3_600, max_ttl: 7_200, service_account_email: "", rotation_period: 0 });
    expect(JSON.stringify(data)).not.toContain("PRIVATE KEY");
    expect(data).not.toHaveProperty("credentials");
  });

  it("refuses bad keys and combinations, and takes identity tokens after the key is cleared", async () => {
    expect(await errorsOf("config", { credentials: "{}" })).toEqual([
      expect.stringMatching(/^invalid credentials JSON file: /),
    ]);
    const federated = { identity_token_audience: "https://iam.googleapis.com/projects/1/x" };
    expect(await errorsOf("config", federated)).toEqual([
      "only one of 'credentials' or 'identity_token_audience' can be set",
    ]);
    expect(await errorsOf("config", { ...federated, credentials: "" })).toEqual([
      "missing required 'service_account_email' when 'identity_token_audience' is set",
    ]);
    const whole = { ...federated, credentials: "", service_account_email: project.root, identity_token_ttl: 600 };
    expect((await put("/v1/gcp/config", whole)).status).toBe(204);
    expect((await put("/v1/gcp/config/rotate-root", {})).body.errors).toEqual([
      expect.stringMatching(/^configuration does not have credentials/),
    ]);
  });

  it("schedules rotations as every engine does", async () => {
    expect(await errorsOf("config", { rotation_period: 5 })).toEqual(["rotation_period must be 10 seconds or more"]);
    const schedule = { rotation_schedule: "0 0 * * 6", rotation_window: 7_200, rotation_policy: "p" };
    expect((await put("/v1/gcp/config", { ...schedule, disable_automated_rotation: true })).status).toBe(204);
    expect((await get("/v1/gcp/config")).body.data).toMatchObject({ ...schedule, disable_automated_rotation: true });
  });
});

describe("a login with identity tokens", () => {
  const audience = `https://iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/${crypto.randomUUID()}/providers/p`;
  const federated = () => ({
    credentials: "",
    identity_token_audience: audience,
    service_account_email: project.root,
    identity_token_ttl: "10m",
  });
  const key = () => ({ secret_type: "service_account_key", project: project.account, bindings: project.bindings });

  it("makes, issues, renews and removes what a key does, and is refused until the provider trusts the mount", async () => {
    expect((await put("/v1/gcp/config", federated())).status).toBe(204);
    expect(await errorsOf("roleset/build", key())).toEqual([
      expect.stringMatching(/identity token was not exchanged: .*identity_token_audience does not accept its issuer/),
    ]);
    expect(await project.everything()).toEqual(fresh);
    await project.trust("gcp", audience);
    succeeded(await put("/v1/gcp/roleset/build", key()));
    const issued = succeeded(await get("/v1/gcp/roleset/build/key")).body;
    succeeded(await put("/v1/sys/leases/renew", { lease_id: issued.lease_id }));
    const existing = await project.add("existing");
    const impersonated = { service_account_email: existing, token_scopes: SCOPES };
    succeeded(await put("/v1/gcp/impersonated-account/ci", impersonated));
    expect(succeeded(await get("/v1/gcp/impersonated-account/ci/token")).body.data.token).toMatch(/^ya29/);
    succeeded(await put("/v1/sys/leases/revoke", { lease_id: issued.lease_id }));
    expect((await del("/v1/gcp/roleset/build")).status).toBe(204);
    await byItself(uuid, async () => expect(await rows(uuid, "jobs")).toEqual([]));
    expect((await project.everything()).filter((each) => each.includes("vault"))).toEqual([]);
  });
});

describe("an impersonated account", () => {
  it("gives access tokens without a lease, for the TTL of the account", async () => {
    const email = await project.add("existing");
    const body = { service_account_email: email, token_scopes: SCOPES, ttl: 600 };
    expect((await put("/v1/gcp/impersonated-account/ci", body)).status).toBe(204);
    expect((await get("/v1/gcp/impersonated-account/ci")).body.data).toEqual({
      service_account_project: project.account,
      ...body,
    });
    const issued = succeeded(await get("/v1/gcp/impersonated-account/ci/token")).body;
    expect(issued).toMatchObject({ lease_id: "", renewable: false, data: { token: expect.stringMatching(/^ya29/) } });
    expect(issued.data.token_ttl).toBeGreaterThan(590);
    expect(issued.data.expires_at_seconds).toBeGreaterThan(Date.now() / 1000);
    expect((await put("/v1/gcp/config", { max_ttl: 300 })).status).toBe(204);
    expect((await put("/v1/gcp/impersonated-account/ci/token", {})).body.data.token_ttl).toBeLessThanOrEqual(300);
    expect((await list("/v1/gcp/impersonated-accounts")).body.data.keys).toEqual(["ci"]);
    expect((await del("/v1/gcp/impersonated-account/ci")).status).toBe(204);
    expect((await get("/v1/gcp/impersonated-account/ci")).status).toBe(404);
    expect(await rows(uuid, "jobs")).toEqual([]);
  });

  it("says which field is wrong, and what right the engine lacks", async () => {
    const path = "impersonated-account/ci";
    expect(await errorsOf(path, { token_scopes: SCOPES })).toEqual(["email is required"]);
    const service_account_email = `nobody@${project.account}.iam.gserviceaccount.com`;
    expect(await errorsOf(path, { service_account_email })).toEqual([
      "non-empty token_scopes must be provided for generating access_token secrets",
    ]);
    expect(await errorsOf(path, { service_account_email, token_scopes: SCOPES })).toEqual([
      expect.stringMatching(/^unable to read the service account: /),
    ]);
    const own = { service_account_email: project.root, token_scopes: SCOPES };
    expect((await put(`/v1/gcp/${path}`, own)).status).toBe(204);
    expect(await errorsOf(path, { service_account_email })).toEqual(["cannot update email"]);
    expect((await get(`/v1/gcp/${path}/token`)).body.errors).toEqual([
      expect.stringMatching(/^unable to generate token .*roles\/iam\.serviceAccountTokenCreator/),
    ]);
    expect((await get("/v1/gcp/impersonated-account/none/token")).body.errors).toEqual([
      'impersonated account "none" does not exists',
    ]);
  });
});

describe("a roleset", () => {
  const roleset = () => ({ project: project.account, bindings: project.bindings, token_scopes: SCOPES });

  it("makes an account with rights, gives tokens, changes rights in place, and leaves nothing", async () => {
    succeeded(await put("/v1/gcp/roleset/Build.1", roleset()));
    const { data } = (await get("/v1/gcp/roleset/Build.1")).body;
    expect(data).toEqual({
      secret_type: "access_token",
      bindings: { [project.resource]: ["roles/viewer", "roles/browser"] },
      service_account_email: expect.stringMatching(/^vaultbuild-1-[a-z0-9]{10}@/),
      project: project.account,
      token_scopes: SCOPES,
    });
    expect(await rightsOf(project.resource)).toHaveLength(2);
    expect(succeeded(await get("/v1/gcp/roleset/Build.1/token")).body.data.token).toMatch(/^ya29/);
    expect(succeeded(await get("/v1/gcp/token/Build.1")).body.data.token).toMatch(/^ya29/);
    const fewer = JSON.stringify({ resource: { [project.resource]: { roles: ["roles/viewer"] } } });
    succeeded(await put("/v1/gcp/roleset/Build.1", { bindings: Buffer.from(fewer).toString("base64") }));
    expect((await get("/v1/gcp/roleset/Build.1")).body.data.service_account_email).toBe(data.service_account_email);
    expect(await rightsOf(project.resource)).toHaveLength(1);
    expect((await put("/v1/gcp/roleset/Build.1/rotate", {})).status).toBeLessThan(300);
    await byItself(uuid, async () => expect(await rows(uuid, "jobs")).toEqual([]));
    const rotated = (await get("/v1/gcp/roleset/Build.1")).body.data.service_account_email;
    expect(rotated).not.toBe(data.service_account_email);
    expect(JSON.stringify(await project.everything())).not.toContain(data.service_account_email);
    expect((await put("/v1/gcp/roleset/Build.1/rotate-key", {})).body.warnings).toHaveLength(1);
    expect((await list("/v1/gcp/rolesets")).body.data.keys).toEqual(["Build.1"]);
    expect((await del("/v1/gcp/roleset/Build.1")).status).toBe(204);
    await byItself(uuid, async () => expect(await project.everything()).toEqual(fresh));
  });

  it("keeps conditions, and repeats a change that another writer overtook", async () => {
    await project.fault({ method: "POST", path: "setIamPolicy", fault: "ABORTED", count: 2 });
    succeeded(await put("/v1/gcp/roleset/a", roleset()));
    expect(await project.everything()).toEqual(expect.arrayContaining(fresh));
    expect(await rightsOf(project.resource)).toHaveLength(2);
  });

  it("gives keys of the asked kind with a renewable lease, and deletes them on revocation", async () => {
    succeeded(await put("/v1/gcp/roleset/k", { ...roleset(), secret_type: "service_account_key" }));
    const before = await project.everything();
    const parameters = { ttl: "10m", key_algorithm: "KEY_ALG_RSA_1024", key_type: "TYPE_PKCS12_FILE" };
    const issued = succeeded(await put("/v1/gcp/roleset/k/key", parameters)).body;
    expect(issued).toMatchObject({ lease_duration: 600, renewable: true });
    expect(issued.data).toMatchObject({ key_algorithm: "KEY_ALG_RSA_1024", key_type: "TYPE_PKCS12_FILE" });
    const other = succeeded(await get("/v1/gcp/key/k?verify=true")).body;
    expect(JSON.parse(Buffer.from(other.data.private_key_data, "base64").toString()).type).toBe("service_account");
    for (const { lease_id } of [issued, other]) succeeded(await put("/v1/sys/leases/revoke", { lease_id }));
    await byItself(uuid, async () => expect(await project.everything()).toEqual(before));
    expect((await get("/v1/gcp/roleset/k/token")).body.errors).toEqual([
      "role set 'k' cannot generate access tokens (has secret type service_account_key)",
    ]);
  });

  it("says what is wrong before it makes anything", async () => {
    const rows: [object, RegExp][] = [
      [{ secret_type: "x" }, /^invalid "secret_type" value: "x"$/],
      [{ project: undefined }, /^project argument is required for new role set$/],
      [{ project: "" }, /^given empty project$/],
      [{ token_scopes: [] }, /^cannot provide empty token_scopes$/],
      [{ bindings: undefined }, /^bindings are required for new role set$/],
      [{ bindings: "" }, /^bindings are empty$/],
      [{ bindings: 'resource "x" {' }, /^unable to parse bindings: /],
      [{ bindings: 'resource "instances/i" { roles = ["roles/viewer"] }' }, /^unable to parse bindings: the resource /],
      [{ bindings: 'resource "projects/p" { roles = ["viewer"] }' }, /^unable to parse bindings: roles must be/],
    ];
    for (const [change, message] of rows) {
      expect(await errorsOf("roleset/bad", { ...roleset(), ...change })).toEqual([expect.stringMatching(message)]);
    }
    expect(await project.everything()).toEqual(fresh);
  });

  it("that does not exist is refused in the words of each path", async () => {
    const said = async (path: string) => (await get(`/v1/gcp/${path}`)).body.errors;
    expect(await said("roleset/none/token")).toEqual(["role set 'none' does not exists"]);
    for (const path of ["roleset/none/key", "key/none"])
      expect(await said(path)).toEqual(['role set "none" does not exists']);
    for (const path of ["roleset/none/rotate", "roleset/none/rotate-key"])
      expect(await errorsOf(path, {})).toEqual(["roleset 'none' not found"]);
  });

  it("removes the account of a write that Google refuses", async () => {
    const bindings = `resource "${project.resource}" { roles = ["roles/viewer"] }`;
    await project.fault({ method: "POST", path: "setIamPolicy", fault: "PERMISSION_DENIED", count: 9 });
    expect(await errorsOf("roleset/no", { ...roleset(), bindings })).toEqual([
      expect.stringMatching(/^unable to set IAM policy: /),
    ]);
    await byItself(uuid, async () => expect(await rows(uuid, "jobs")).toEqual([]));
    expect(JSON.stringify(await project.everything())).not.toContain("account vault");
  });
});

describe("a static account", () => {
  it("adds and removes rights of an account that stays", async () => {
    const email = await project.add("existing");
    const base = await project.everything();
    const body = { service_account_email: email, token_scopes: SCOPES, bindings: project.bindings };
    succeeded(await put("/v1/gcp/static-account/app", body));
    expect((await get("/v1/gcp/static-account/app")).body.data).toEqual({
      service_account_project: project.account,
      service_account_email: email,
      secret_type: "access_token",
      bindings: { [project.resource]: ["roles/viewer", "roles/browser"] },
      token_scopes: SCOPES,
    });
    expect(await project.everything()).toHaveLength(base.length + 2);
    expect(succeeded(await get("/v1/gcp/static-account/app/token")).body.data.token).toMatch(/^ya29/);
    expect(await errorsOf("static-account/app", { secret_type: "service_account_key" })).toEqual([
      "cannot update secret_type",
    ]);
    succeeded(await put("/v1/gcp/static-account/app", { bindings: "" }));
    expect(await project.everything()).toEqual(base);
    succeeded(await del("/v1/gcp/static-account/app"));
    expect(await project.everything()).toEqual(base);
  });

  it("disables keys that it may have made without an answer, and deletes none of another maker", async () => {
    const service_account_email = await project.add("shared");
    succeeded(await put("/v1/gcp/static-account/k", { service_account_email, secret_type: "service_account_key" }));
    await project.fault({ method: "POST", path: "/keys", fault: "apply-then-drop", count: 1 });
    const { lease_id } = succeeded(await get("/v1/gcp/static-account/k/key")).body;
    const keys = (await project.everything()).filter((each) => each.startsWith(`key ${service_account_email}`));
    expect(keys.map((key) => key.endsWith(" disabled")).sort()).toEqual([false, true]);
    succeeded(await put("/v1/sys/leases/revoke", { lease_id }));
  });
});
