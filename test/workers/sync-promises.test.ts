import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import { type Settings, settings } from "../../src/platform/settings.ts";
import type { OpenedAccount as CloudCAccount } from "../doubles/cloud-c-sm/server.ts";
import type { OpenedAccount as DeployAccount } from "../doubles/deploy-project/api.ts";
import { type Answer, del, get, list, mountKv, put, send } from "./client.ts";
import { cloudA } from "./sync-cloud-a.ts";
import { openRepoHost, type ProviderAccount, providers } from "./sync-doubles.ts";
import { tagsOf } from "./sync-foreign-writer.ts";
import {
  association,
  cloudABody,
  eventually,
  makeDestination,
  objects,
  setAssociation,
  write,
} from "./sync-helpers.ts";

/** Promises about secret sync in docs/internals/coverage.md that no other file proves. */

const AT = "/sys/sync/destinations";
const post = (path: string, body: unknown) => send("POST", path, body);
const TYPES = Object.keys(providers);
const open = (type: string): Promise<ProviderAccount> => (providers[type] as () => Promise<ProviderAccount>)();

let accessor = "";
beforeEach(async () => {
  ({ accessor } = await mountKv());
  await write("app/db", { user: "u1", pass: "p1" });
});

/** How a set ended: its only status, or all of them. */
const counted = ({ body, text }: Answer) => body?.data?.sync_operation_counters ?? text;

/** Numbers of objects by status once all were tried: on a busy machine, that takes longer than `set` waits. */
async function outcomes(...[destination, secret, mount]: Parameters<typeof setAssociation>) {
  const answer = counted(await setAssociation(destination, secret, mount));
  if (!(answer instanceof Object && "PENDING" in answer)) return answer;
  const statuses = async (): Promise<string[]> => {
    const { body } = await get(`${AT}/${destination}/associations`);
    return Object.values<{ sync_status: string }>(body.data.associated_secrets).map((each) => each.sync_status);
  };
  await expect.poll(statuses).not.toContain("PENDING");
  const tried = Map.groupBy(await statuses(), (status) => status);
  return Object.fromEntries([...tried].map(([status, all]) => [status, all.length]));
}
const reason = async (destination: string) => (await association(destination, "app/db"))?.["error_code"];

/** Applies settings of the deployment while `act` runs: settings are cached per environment. */
async function withSettings(changes: Partial<Settings>, act: () => Promise<void>): Promise<void> {
  const inObject = await runInDurableObject(env.SYNC_DESTINATION.getByName("in-mem/settings"), (object) =>
    settings((object as unknown as { env: Env }).env),
  );
  const all = [settings(env), inObject];
  const before = all.map((each) => ({ ...each }));
  for (const each of all) Object.assign(each, changes);
  try {
    await act();
  } finally {
    for (const [index, each] of all.entries()) {
      for (const name of Object.keys(changes)) delete (each as Record<string, unknown>)[name];
      Object.assign(each, before[index]);
    }
  }
}

describe.each(TYPES)("a destination of %s", (type) => {
  let account: ProviderAccount;
  beforeEach(async () => {
    account = await open(type);
  });

  // Proves: B.cloud-b-kv.write, B.cloud-c-sm.write, B.deploy-project.write, B.repo-host.write,
  // B.sync.own-write-endpoint, E.versioning.2
  it("is created and updated with POST at its type's path, and pushes to the last configuration", async () => {
    const made = await post(`${AT}/${type}/d`, account.body);
    expect([made.status, made.body.data?.type, made.body.data?.name], made.text).toEqual([200, type, "d"]);
    for (const other of TYPES.filter((each) => each !== type)) {
      expect((await get(`${AT}/${other}/d`)).status).toBe(404);
    }
    const changes = { granularity: "secret-path", secret_name_template: "OTHER_{{ .SecretBaseName }}" };
    expect((await post(`${AT}/${type}/d`, changes)).status).toBe(200);
    expect((await get(`${AT}/${type}/d`)).body.data.options).toMatchObject({
      granularity_level: "secret-path",
      secret_name_template: "OTHER_{{ .SecretBaseName }}",
    });
    expect(await outcomes(`${type}/d`, "app/db")).toEqual({ SYNCED: 1 });
    expect(Object.values(await account.values())).toEqual(['{"pass":"p1","user":"u1"}']);
    expect(Object.keys(await account.values())[0]).toMatch(/^OTHER.db$/i);
    expect((await post(`${AT}/${type}`, account.body)).status).toBe(405);
  });

  // Proves: B.cloud-a-sm.granularity, B.cloud-b-kv.granularity, B.cloud-b-kv.secret_name_template,
  // B.cloud-c-sm.granularity, B.cloud-c-sm.secret_name_template, B.deploy-project.granularity,
  // B.deploy-project.secret_name_template, B.dest.granularity.secret-key, B.dest.granularity.secret-path,
  // B.dest.naming.cloud-b-kv, B.dest.naming.cloud-c-sm, B.dest.naming.deploy-project, B.dest.naming.repo-host,
  // B.repo-host.granularity, B.repo-host.secret_name_template
  it("has its type's default granularity and names", async () => {
    const made = await makeDestination(type, "d", account.body);
    const one = '{"pass":"p1","user":"u1"}';
    const dashed = accessor.replace("_", "-");
    const upper = `VAULT_${accessor.toUpperCase()}_APP_DB`;
    const slashes = "vault/{{ .MountAccessor }}/{{ .SecretPath }}";
    const expected: Record<string, [granularity: string, template: string, there: Record<string, string>]> = {
      "cloud-a-sm": ["secret-path", slashes, { [`vault/${accessor}/app/db`]: one }],
      "cloud-b-kv": [
        "secret-path",
        'vault-{{ .MountAccessor | replace "_" "-" }}-{{ .SecretPath }}',
        { [`vault-${dashed}-app-db`]: one },
      ],
      // These two providers accept no slashes, so names have replacements.
      "cloud-c-sm": ["secret-path", slashes, { [`vault-${accessor}-app-db`]: one }],
      "deploy-project": [
        "secret-key",
        `${slashes}/{{ .SecretKey }}`,
        { [`vault_${accessor}_app_db_user`]: "u1", [`vault_${accessor}_app_db_pass`]: "p1" },
      ],
      "repo-host": [
        "secret-key",
        "VAULT_{{ .MountAccessor | uppercase }}_{{ .SecretPath | uppercase }}_{{ .SecretKey | uppercase }}",
        { [`${upper}_USER`]: "u1", [`${upper}_PASS`]: "p1" },
      ],
    };
    const [granularity, template, there] = expected[type] ?? [];
    expect(made.body.data.options).toMatchObject({
      granularity_level: granularity,
      secret_name_template: template,
      custom_tags: {},
    });
    await setAssociation(`${type}/d`, "app/db");
    expect(await account.values()).toEqual(there);
  });

  // Proves: B.cloud-b-kv.custom_tags, B.cloud-c-sm.custom_tags, B.dest.custom_tags.merged, B.dest.custom_tags.type,
  // B.dest.custom_tags.types
  it("adds custom tags to the built-in one, or returns 400 for a type without tags", async () => {
    const tagged = { ...account.body, granularity: "secret-path", secret_name_template: "APP" };
    const answer = await post(`${AT}/${type}/d`, { ...tagged, custom_tags: { team: "pay" } });
    if (["repo-host", "deploy-project"].includes(type)) {
      expect([answer.status, answer.body.errors]).toEqual([400, [expect.stringContaining("takes no tags")]]);
      expect((await get(`${AT}/${type}/d`)).status).toBe(404);
      return;
    }
    expect([answer.status, answer.body.data?.options.custom_tags], answer.text).toEqual([200, { team: "pay" }]);
    const marker = { [type === "cloud-c-sm" ? "hashicorp-vault" : "hashicorp:vault"]: "" };
    await setAssociation(`${type}/d`, "app/db");
    expect(await tagsOf(account, "APP")).toEqual({ ...marker, team: "pay" });
    for (const wrong of [{ team: { a: "b" } }, { team: ["a"] }, 7, true]) {
      const refused = await post(`${AT}/${type}/d`, { custom_tags: wrong });
      expect([refused.status, refused.body.errors[0]]).toEqual([400, expect.stringContaining("custom_tags")]);
    }
    await makeDestination(type, "plain", { ...tagged, secret_name_template: "PLAIN" });
    await setAssociation(`${type}/plain`, "app/db");
    expect(await tagsOf(account, "PLAIN")).toEqual(marker);
  });

  // Proves: B.cloud-b-kv.client_id, B.cloud-b-kv.client_secret, B.cloud-b-kv.tenant_id, B.cloud-c-sm.credentials,
  // B.deploy-project.access_token, B.repo-host.access_token, E.auth.2.per-type, E.auth.2.repo-host-token
  it("writes no object when any of its credentials is wrong", async () => {
    const wrong: Record<string, Record<string, unknown>> = {
      "cloud-a-sm": { access_key_id: "AKIANOBODY", secret_access_key: "wrong" },
      "cloud-b-kv": { client_id: crypto.randomUUID(), client_secret: "wrong", tenant_id: crypto.randomUUID() },
      "cloud-c-sm": { credentials: account.wrong["credentials"] },
      "repo-host": { access_token: "ghp_wrong" },
      "deploy-project": { access_token: "wrong" },
    };
    for (const [field, value] of Object.entries(wrong[type] ?? {})) {
      await makeDestination(type, "wrong", { ...account.body, granularity: "secret-path", [field]: value });
      expect(await outcomes(`${type}/wrong`, "app/db"), field).toEqual({ CLIENT_SIDE_ERROR: 1 });
      expect(await reason(`${type}/wrong`), field).toBe("auth_failed");
      expect((await del(`${AT}/${type}/wrong?force_delete=true`)).status).toBe(204);
    }
    expect(await account.values()).toEqual({});
    await makeDestination(type, "right", { ...account.body, granularity: "secret-path" });
    expect(await outcomes(`${type}/right`, "app/db")).toEqual({ SYNCED: 1 });
  });
});

// Proves: B.sync.shared-endpoints, E.conv.type-names
it("destinations of every type are read, listed and deleted at the same paths", async () => {
  const kept: string[] = [];
  for (const type of TYPES) {
    for (const name of ["d", "e"]) await makeDestination(type, name, (await open(type)).body);
    kept.push(`${type}/`);
  }
  const all = (await list(AT)).body.data;
  expect(all.keys).toEqual(kept.toSorted());
  expect(all.key_info).toEqual(Object.fromEntries(kept.map((type) => [type, ["d", "e"]])));
  for (const type of TYPES) {
    expect((await get(`${AT}/${type}/d`)).body.data).toMatchObject({ type, name: "d", connection_details: {} });
    expect((await list(`${AT}/${type}`)).body.data.keys).toEqual(["d", "e"]);
    expect((await del(`${AT}/${type}/d`)).status).toBe(204);
    expect((await get(`${AT}/${type}/d`)).status).toBe(404);
    expect((await list(`${AT}/${type}`)).body.data.keys).toEqual(["e"]);
  }
});

describe("cloud-a-sm", () => {
  beforeEach(() => cloudA.begin());
  const defaults = () => ({
    CLOUD_A_ACCESS_KEY_ID: cloudA.key().accessKeyId,
    CLOUD_A_SECRET_ACCESS_KEY: cloudA.key().secretAccessKey,
    CLOUD_A_REGION: "eu-west-1",
  });

  // Proves: B.cloud-a-sm.access_key_id, B.cloud-a-sm.region, B.cloud-a-sm.secret_access_key, E.auth.2.default-chain,
  // E.conv.empty-default
  it("without keys and region pushes with the deployment's, without showing them", async () => {
    await withSettings(defaults(), async () => {
      for (const [name, body] of Object.entries({ omitted: {}, empty: { access_key_id: "", secret_access_key: "" } })) {
        const made = await post(`${AT}/cloud-a-sm/${name}`, { ...body, secret_name_template: name });
        expect([made.status, made.body.data?.connection_details], made.text).toEqual([200, {}]);
        expect(await outcomes(`cloud-a-sm/${name}`, "app/db")).toEqual({ SYNCED: 1 });
        expect(await cloudA.value(name)).toBe('{"pass":"p1","user":"u1"}');
      }
    });
    const signers = (await cloudA.requests()).map(({ accessKeyId }) => accessKeyId);
    expect(new Set(signers)).toEqual(new Set([cloudA.key().accessKeyId]));
  });

  // Proves: B.cloud-a-sm.access_key_id, B.cloud-a-sm.region, B.cloud-a-sm.secret_access_key
  it("prefers its own keys and region to the deployment's", async () => {
    const others = {
      CLOUD_A_ACCESS_KEY_ID: "AKIANOBODY",
      CLOUD_A_SECRET_ACCESS_KEY: "x",
      CLOUD_A_REGION: "ap-south-1",
    };
    await withSettings(others, async () => {
      await makeDestination("cloud-a-sm", "d", cloudABody());
      expect(await outcomes("cloud-a-sm/d", "app/db")).toEqual({ SYNCED: 1 });
      // The double takes signatures for eu-west-1 only, and knows no such key.
      await makeDestination("cloud-a-sm", "there", { ...cloudABody(), region: "" });
      expect(await outcomes("cloud-a-sm/there", "app/db")).toEqual({ CLIENT_SIDE_ERROR: 1 });
      await makeDestination("cloud-a-sm", "nobody", { region: "eu-west-1", secret_name_template: "nobody" });
      expect(await outcomes("cloud-a-sm/nobody", "app/db")).toEqual({ CLIENT_SIDE_ERROR: 1 });
    });
    expect(await cloudA.secrets()).toHaveLength(1);
  });
});

describe("cloud-b-kv", () => {
  // Proves: B.cloud-b-kv.key_vault_uri
  it("writes to the vault of its address, which must exist", async () => {
    const [one, two] = [await open("cloud-b-kv"), await open("cloud-b-kv")];
    await makeDestination("cloud-b-kv", "one", one.body);
    expect(await outcomes("cloud-b-kv/one", "app/db")).toEqual({ SYNCED: 1 });
    expect([Object.keys(await one.values()).length, await two.values()]).toEqual([1, {}]);
    const { key_vault_uri } = two.body;
    await makeDestination("cloud-b-kv", "other", { ...one.body, key_vault_uri });
    expect(await outcomes("cloud-b-kv/other", "app/db")).toEqual({ CLIENT_SIDE_ERROR: 1 });
    expect([Object.keys(await one.values()).length, await two.values()]).toEqual([1, {}]);
  });
});

describe("cloud-c-sm", () => {
  const account = async (): Promise<CloudCAccount> =>
    (await fetch(`${env.TEST_DOUBLES.cloudC}/_double/accounts`, { method: "POST" })).json();
  const secretsOf = async ({ account: id }: CloudCAccount): Promise<unknown[]> =>
    (await fetch(`${env.TEST_DOUBLES.cloudC}/_double/secrets?account=${id}`)).json();

  // Proves: B.cloud-c-sm.project_id
  it("writes to project_id, else to the project of its credentials", async () => {
    const own = await account();
    const elsewhere = JSON.stringify({ ...own.credentials, project_id: "somewhere-else-1" });
    await makeDestination("cloud-c-sm", "credentials", { credentials: elsewhere });
    expect(await outcomes("cloud-c-sm/credentials", "app/db")).toEqual({ CLIENT_SIDE_ERROR: 1 });
    expect(await secretsOf(own)).toEqual([]);
    await makeDestination("cloud-c-sm", "given", { credentials: elsewhere, project_id: own.projectId });
    expect(await outcomes("cloud-c-sm/given", "app/db")).toEqual({ SYNCED: 1 });
    expect(await secretsOf(own)).toHaveLength(1);
  });

  // Proves: B.cloud-c-sm.project_id.authorized
  it("writes no secret to a project without permissions", async () => {
    const [own, foreign] = [await account(), await account()];
    const credentials = JSON.stringify(own.credentials);
    await makeDestination("cloud-c-sm", "d", { credentials, project_id: foreign.projectId });
    expect(await outcomes("cloud-c-sm/d", "app/db")).toEqual({ CLIENT_SIDE_ERROR: 1 });
    expect(await reason("cloud-c-sm/d")).toBe("permission_denied");
    expect([await secretsOf(own), await secretsOf(foreign)]).toEqual([[], []]);
  });
});

describe("repo-host", () => {
  const APPS = "/sys/sync/repo-host-apps";

  // Proves: B.repo-host.repository_name, B.repo-host.repository_owner
  it("writes to the named owner's repository only", async () => {
    const { account, body } = await openRepoHost();
    await makeDestination("repo-host", "d", { ...body, repository_name: "api", granularity: "secret-path" });
    expect(await outcomes("repo-host/d", "app/db")).toEqual({ SYNCED: 1 });
    const seen = await fetch(`${env.TEST_DOUBLES.repoHost}/_double/secrets?account=${account.account}`);
    expect(await seen.json()).toMatchObject([{ place: `${account.owner}/api` }]);
    await makeDestination("repo-host", "stranger", { ...body, repository_owner: "stranger" });
    expect(await outcomes("repo-host/stranger", "app/db")).toEqual({ CLIENT_SIDE_ERROR: 2 });
  });

  // Proves: B.app.app_id, B.app.name, B.app.write, B.repo-host.access_token, B.repo-host.app_name,
  // B.repo-host.installation_id, E.auth.2.repo-host-app
  it("as an application requires its installation instead of a token", async () => {
    const { account, body, values } = await openRepoHost();
    const place = { ...body, access_token: "", granularity: "secret-path", app_name: "any-Name.1" };
    const app = { app_id: account.appId, private_key: account.appKey };
    expect((await post(`${APPS}/any-Name.1`, app)).status).toBe(200);
    expect((await post(APPS, { ...app, name: "nameless" })).status).toBe(405);
    const refused = await post(`${AT}/repo-host/d`, place);
    expect([refused.status, refused.body.errors[0]]).toEqual([400, expect.stringContaining("installation_id")]);
    await makeDestination("repo-host", "d", { ...place, installation_id: account.installationId + 1 });
    expect(await outcomes("repo-host/d", "app/db")).toEqual({ CLIENT_SIDE_ERROR: 1 });
    await makeDestination("repo-host", "d", { installation_id: String(account.installationId) });
    await setAssociation("repo-host/d", "app/db");
    await eventually(async () => expect((await association("repo-host/d", "app/db"))?.["sync_status"]).toBe("SYNCED"));
    expect(Object.values(await values())).toEqual(['{"pass":"p1","user":"u1"}']);
  });

  // Proves: B.app.delete
  it("deletes an application without calls to the repository host", async () => {
    const { account, body, requests } = await openRepoHost();
    const app = { app_id: account.appId, private_key: account.appKey };
    await post(`${APPS}/bot`, app);
    expect((await get(`${APPS}/bot`)).body.data).toMatchObject({ name: "bot", app_id: Number(account.appId) });
    expect((await del(`${APPS}/bot`)).status).toBe(204);
    expect((await get(`${APPS}/bot`)).status).toBe(404);
    expect(await requests()).toEqual([]);
    // The application there is as it was: configured again, it works.
    await post(`${APPS}/bot`, app);
    const place = { ...body, access_token: "", granularity: "secret-path", app_name: "bot" };
    await makeDestination("repo-host", "d", { ...place, installation_id: account.installationId });
    expect(await outcomes("repo-host/d", "app/db")).toEqual({ SYNCED: 1 });
  });
});

describe("deploy-project", () => {
  // Proves: B.deploy-project.deployment_environments, B.deploy-project.project_id, B.deploy-project.team_id
  it("writes to the named environments, project and team", async () => {
    const url = `${env.TEST_DOUBLES.deployProject}/_double`;
    const account = (await (await fetch(`${url}/accounts`, { method: "POST" })).json()) as DeployAccount;
    const there = async () => (await fetch(`${url}/secrets?account=${account.id}`)).json();
    const common = { access_token: account.accessToken, granularity: "secret-path" };
    await makeDestination("deploy-project", "own", {
      ...common,
      project_id: account.projectId,
      deployment_environments: ["development", "preview"],
    });
    expect(await outcomes("deploy-project/own", "app/db")).toEqual({ SYNCED: 1 });
    const own = { projectId: account.projectId, target: ["development", "preview"] };
    expect(await there()).toMatchObject([own]);
    const ofTeam = { ...common, project_id: account.teamProjectId, deployment_environments: ["production"] };
    await makeDestination("deploy-project", "teamless", ofTeam);
    expect(await outcomes("deploy-project/teamless", "app/db")).toEqual({ CLIENT_SIDE_ERROR: 1 });
    await makeDestination("deploy-project", "team", { ...ofTeam, team_id: account.teamId });
    expect(await outcomes("deploy-project/team", "app/db")).toEqual({ SYNCED: 1 });
    expect(await there()).toMatchObject([own, { projectId: account.teamProjectId, target: ["production"] }]);
  });
});

// Proves: B.assoc.kv2-only
it("returns 400 for an association with another engine than KV version 2", async () => {
  await makeDestination("in-mem", "m");
  const older = await put("/v1/sys/mounts/old", { type: "kv", options: { version: "1" } });
  expect(older.status).toBe(204);
  const ofOlder = await setAssociation("in-mem/m", "config", "old");
  expect([ofOlder.status, ofOlder.body.errors.join()]).toEqual([400, expect.stringContaining("version 1")]);
  expect((await put("/v1/sys/mounts/cloud-b", { type: "cloud-b" })).status).toBe(204);
  const refused = await setAssociation("in-mem/m", "config", "cloud-b");
  expect([refused.status, refused.body.errors.join()]).toEqual([400, expect.stringContaining("is of type cloud-b")]);
  expect(await association("in-mem/m", "config")).toBeUndefined();
  expect(await objects("m")).toEqual({});
});
