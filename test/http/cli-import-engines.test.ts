import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startAzure } from "../doubles/cloud-b/azure.ts";
import { startGoogle } from "../doubles/cloud-c/server.ts";
import { startCloudC } from "../doubles/cloud-c-sm/server.ts";
import { type FakeMount, FakeVault, TOKEN } from "../doubles/vault.ts";
import { cli, type Ended } from "./cli-program.ts";
import { SECRET_WORD } from "./cli-source.ts";
import { Service } from "./events-service.ts";

/*
 * `sallyport import vault --only engines` into a service beside the doubles of Azure and Google Cloud. The source
 * answers with every field that the read functions of vault-plugin-secrets-azure and vault-plugin-secrets-gcp show in
 * their public sources (commits 81fae24 and b68b342); its answers are written after them, not recorded.
 */

const dir = mkdtempSync(join(tmpdir(), "sallyport-cli-engines-"));
let doubles: { close(): Promise<unknown> }[] = [];
let service: Service;
let azure: ReturnType<Awaited<ReturnType<typeof startAzure>>["openAccount"]>["details"];
let google: { readonly project: string; readonly credentials: string; readonly email: string };
let count = 0;

beforeAll(async () => {
  const [directory, cloud] = await Promise.all([startAzure(), startGoogle()]);
  const logins = await startCloudC({ others: cloud.others });
  doubles = [directory, cloud, logins];
  azure = directory.openAccount({}).details;
  const control = async (path: string, body: object = {}) =>
    (await fetch(`${cloud.url}/_double/${path}`, { method: "POST", body: JSON.stringify(body) })).json();
  const project = (await control("accounts")) as { account: string; credentials: object };
  const { email } = (await control(`account?account=${project.account}`, { id: "app-account" })) as { email: string };
  google = { project: project.account, credentials: JSON.stringify(project.credentials), email };
  service = new Service({
    CLOUD_B_LOGIN_URL: directory.loginUrl,
    CLOUD_B_GRAPH_URL: directory.graphUrl,
    CLOUD_B_ARM_URL: directory.armUrl,
    CLOUD_C_API_URL: cloud.url,
    CLOUD_C_TOKEN_URL: logins.tokenUrl,
  });
  await service.create();
}, 300_000);

afterAll(async () => {
  await service?.destroy();
  for (const double of doubles) await double.close();
  rmSync(dir, { recursive: true });
});

async function call(method: string, namespace: string, path: string, body?: unknown) {
  const answer = await fetch(`${service.base}/v1/${path}`, {
    method,
    headers: { "X-Vault-Token": "root", "X-Vault-Namespace": namespace },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const text = await answer.text();
  return { status: answer.status, text, data: text === "" ? null : JSON.parse(text).data };
}

async function newNamespace(): Promise<string> {
  const name = `t${++count}`;
  await call("PUT", "", `sys/namespaces/${name}`);
  return name;
}

const into = (namespace: string) => ({
  SALLYPORT_ADDR: service.base,
  SALLYPORT_TOKEN: "root",
  SALLYPORT_NAMESPACE: namespace,
});

const runOf =
  (from: string, env: Readonly<Record<string, string>>) =>
  (...more: string[]) =>
    cli(["import", "vault", "--from", from, "--json", "--only", "engines", "--retries", "0", ...more], env);

function fileOf(secrets: Readonly<Record<string, object>>): string {
  const file = join(dir, `secrets-${++count}.json`);
  writeFileSync(file, JSON.stringify(secrets));
  return file;
}

interface Printed {
  readonly counts: Record<string, Record<string, number>>;
  readonly entries: { kind: string; name: string; action: string; reason: string }[];
}

function printed({ out, err }: Ended): Printed {
  expect(out + err).not.toContain(SECRET_WORD);
  return JSON.parse(out);
}

/** Fields of every configuration. */
const COMMON = {
  identity_token_ttl: 0,
  identity_token_audience: "",
  rotation_schedule: "",
  rotation_window: 0,
  rotation_period: 0,
  disable_automated_rotation: false,
};
const NO_ROLE = {
  ttl: 0,
  max_ttl: 0,
  explicit_max_ttl: 0,
  azure_roles: null,
  azure_groups: null,
  application_object_id: "",
  permanently_delete: false,
  persist_app: false,
  sign_in_audience: "",
  tags: null,
};
const SCOPES = ["https://www.googleapis.com/auth/cloud-platform"];

function azureMount(): FakeMount {
  const [reader] = azure.role_definitions.filter(({ roleName }) => roleName === "Reader");
  const [group] = azure.groups.filter(({ displayName }) => displayName === "developers");
  return {
    type: "azure",
    options: null,
    accessor: "azure_1",
    description: "people's clouds",
    ttls: { default_lease_ttl: 1_800, max_lease_ttl: 7_200 },
    answers: {
      config: {
        subscription_id: azure.subscription_id,
        tenant_id: azure.tenant_id,
        environment: "",
        client_id: azure.client_id,
        root_password_ttl: 15_768_000,
        root_password_expiration_date: "2027-05-01T08:00:00.123456789Z",
        ...COMMON,
      },
      "LIST roles": ["app", "web"],
      "roles/web": {
        ...NO_ROLE,
        ttl: 600,
        max_ttl: 3_600,
        azure_roles: [{ role_name: "Reader", role_id: reader?.id, scope: azure.resource_group }],
        azure_groups: [{ group_name: "developers", object_id: group?.id }],
        permanently_delete: true,
        sign_in_audience: "AzureADMyOrg",
        tags: ["team:web"],
      },
      "roles/app": { ...NO_ROLE, application_object_id: azure.existing_application.object_id },
      "LIST static-roles": ["kept"],
    },
  };
}

function googleMount(): FakeMount {
  const resource = `//cloudresourcemanager.googleapis.com/projects/${google.project}`;
  return {
    type: "gcp",
    options: null,
    accessor: "gcp_1",
    answers: {
      config: { ttl: 1_200, max_ttl: 7_200, service_account_email: "", ...COMMON },
      "LIST rolesets": ["keys", "tokens"],
      "roleset/keys": {
        secret_type: "service_account_key",
        bindings: { [resource]: ["roles/viewer", "roles/browser"] },
        service_account_email: `vaultkeys-1700000000@${google.project}.iam.gserviceaccount.com`,
        project: google.project,
      },
      "roleset/tokens": {
        secret_type: "access_token",
        bindings: { [resource]: ["roles/viewer"] },
        service_account_email: `vaulttokens-1700000000@${google.project}.iam.gserviceaccount.com`,
        project: google.project,
        token_scopes: SCOPES,
      },
      "LIST static-accounts": ["bare", "bound"],
      "static-account/bare": {
        service_account_project: google.project,
        service_account_email: google.email,
        secret_type: "access_token",
        token_scopes: SCOPES,
      },
      "static-account/bound": {
        service_account_project: google.project,
        service_account_email: google.email,
        secret_type: "service_account_key",
        bindings: { [resource]: ["roles/viewer"] },
      },
      "LIST impersonated-accounts": ["someone"],
      "impersonated-account/someone": {
        service_account_project: google.project,
        service_account_email: google.email,
        token_scopes: SCOPES,
        ttl: 900,
      },
    },
  };
}

async function imports(path: string, mount: FakeMount, secret: object) {
  const vault = new FakeVault({ "": { mounts: { [path]: mount }, policies: {} } });
  await vault.start();
  const namespace = await newNamespace();
  const run = runOf(vault.url, { ...into(namespace), VAULT_TOKEN: TOKEN });
  const secrets = ["--credentials", fileOf({ [path.slice(0, -1)]: secret })];
  const end = () => {
    vault.stop();
    expect(vault.faults).toEqual([]);
  };
  return { vault, namespace, run, secrets, end };
}

describe("import vault --only engines", () => {
  it("copies configurations and roles, says which secrets are missing, and takes them from the file", async () => {
    const source = await newNamespace();
    const namespace = await newNamespace();
    await call("PUT", source, "sys/mounts/team/aws", { type: "aws" });
    const root = { access_key: "AKIAIMPORT", secret_key: SECRET_WORD, region: "eu-west-1" };
    const session = {
      credential_type: "assumed_role",
      role_arns: ["arn:aws:iam::123456789012:role/a"],
      max_sts_ttl: 900,
    };
    const user = { credential_type: "iam_user", iam_groups: ["g"], iam_tags: { team: "a" } };
    for (const [path, body] of Object.entries({ "config/root": root, "roles/s": session, "roles/u": user }))
      expect((await call("PUT", source, `team/aws/${path}`, body)).status, path).toBeLessThan(300);
    const run = runOf(service.base, { ...into(namespace), VAULT_TOKEN: "root", VAULT_NAMESPACE: source });
    const first = printed(await run());
    expect(first.counts).toEqual({
      mount: { written: 1 },
      engine: { incomplete: 1 },
      role: { incomplete: 2 },
    });
    expect(first.entries.find(({ kind }) => kind === "engine")).toMatchObject({
      name: expect.stringMatching(/team\/aws\/config\/root$/),
      reason: expect.stringMatching(/^secret_key: /),
    });
    const second = await run("--credentials", fileOf({ [`${source}/team/aws`]: { secret_key: SECRET_WORD } }));
    expect([second.code, printed(second).counts]).toMatchObject([0, { engine: { written: 1 }, role: { written: 2 } }]);
    for (const path of ["config/root", "roles/s", "roles/u"]) {
      const [there, here] = [
        await call("GET", source, `team/aws/${path}`),
        await call("GET", namespace, `team/aws/${path}`),
      ];
      expect(here.data, path).toEqual(there.data);
    }
    expect(printed(await run()).counts).toMatchObject({ engine: { unchanged: 1 }, role: { unchanged: 2 } });
  });

  it("copies an engine of Azure with its roles and TTLs, and leaves static roles where they are rotated", async () => {
    const { namespace, run, secrets, end } = await imports("clouds/", azureMount(), {
      client_secret: azure.client_secret,
    });
    const planned = printed(await run("--dry-run", ...secrets));
    expect(planned.counts).toEqual({
      mount: { written: 1 },
      engine: { written: 1 },
      role: { written: 2, incomplete: 1 },
    });
    expect((await call("GET", namespace, "sys/mounts")).data).not.toHaveProperty("clouds/");
    const first = printed(await run());
    expect(first.counts).toEqual({ mount: { written: 1 }, engine: { incomplete: 1 }, role: { incomplete: 3 } });
    expect(first.entries.find(({ kind }) => kind === "engine")?.reason).toMatch(/^client_secret: /);
    const second = printed(await run(...secrets));
    expect(second.entries.filter(({ action }) => action === "failed")).toEqual([]);
    expect(second.counts).toMatchObject({ engine: { written: 1 }, role: { written: 2, incomplete: 1 } });
    expect(second.entries).toMatchObject([
      { name: "clouds/static-roles/kept", reason: expect.stringMatching(/rotates/) },
    ]);
    const { answers = {} } = azureMount();
    const { azure_roles, azure_groups, explicit_max_ttl: _, ...web } = answers["roles/web"] as Record<string, unknown>;
    const read = (await call("GET", namespace, "clouds/roles/web")).data;
    expect(read).toMatchObject(web);
    expect([read.azure_roles, read.azure_groups]).toEqual([azure_roles, azure_groups]);
    expect((await call("GET", namespace, "clouds/roles/app")).data).toMatchObject({
      application_object_id: azure.existing_application.object_id,
    });
    expect((await call("GET", namespace, "clouds/config")).data).toMatchObject({ root_password_ttl: 15_768_000 });
    expect((await call("GET", namespace, "sys/mounts")).data["clouds/"]).toMatchObject({
      description: "people's clouds",
      config: { default_lease_ttl: 1_800, max_lease_ttl: 7_200 },
    });
    for (const name of ["web", "app"])
      expect((await call("GET", namespace, `clouds/creds/${name}`)).status, name).toBe(200);
    expect(printed(await run()).counts).toEqual({
      mount: { unchanged: 1 },
      engine: { unchanged: 1 },
      role: { unchanged: 2, incomplete: 1 },
    });
    end();
  });

  it("copies an engine of Google Cloud with its rolesets and accounts, and names the fields that differ", async () => {
    const { namespace, run, secrets, end } = await imports("gcp/", googleMount(), { credentials: google.credentials });
    const first = printed(await run(...secrets));
    expect(first.entries.filter(({ action }) => action === "failed")).toEqual([]);
    expect(first.counts).toEqual({ mount: { written: 1 }, engine: { written: 1 }, role: { written: 5 } });
    const { answers = {} } = googleMount();
    for (const path of ["static-account/bare", "static-account/bound", "impersonated-account/someone"])
      expect((await call("GET", namespace, `gcp/${path}`)).data, path).toMatchObject(answers[path] ?? {});
    for (const path of ["roleset/keys", "roleset/tokens"]) {
      const { service_account_email: theirs, bindings, ...role } = answers[path] as Record<string, unknown>;
      const { data } = await call("GET", namespace, `gcp/${path}`);
      expect(data, path).toMatchObject(role);
      expect(Object.keys(data.bindings)).toEqual(Object.keys(bindings as object));
      expect(data.service_account_email).not.toBe(theirs);
    }
    for (const path of ["roleset/keys/key", "roleset/tokens/token", "static-account/bound/key"])
      expect((await call("GET", namespace, `gcp/${path}`)).text, path).not.toContain('errors":[');
    expect(printed(await run()).counts).toMatchObject({ engine: { unchanged: 1 }, role: { unchanged: 5 } });
    const changed = { service_account_email: google.email, token_scopes: SCOPES, ttl: 600 };
    expect((await call("PUT", namespace, "gcp/impersonated-account/someone", changed)).status).toBe(204);
    expect(printed(await run()).entries).toEqual([
      {
        kind: "role",
        name: "gcp/impersonated-account/someone",
        action: "differs",
        reason: "has other values here: ttl",
      },
    ]);
    end();
  });

  it("writes nothing of an engine that was never configured at the source", async () => {
    const empty = {
      subscription_id: "",
      tenant_id: "",
      environment: "",
      client_id: "",
      root_password_ttl: 0,
      ...COMMON,
    };
    const answers = { config: empty, "LIST roles": null, "LIST static-roles": null };
    const { namespace, run, end } = await imports("new/", { ...azureMount(), answers }, {});
    const ended = await run();
    expect([ended.code, printed(ended).counts]).toEqual([0, { mount: { written: 1 } }]);
    expect((await call("GET", namespace, "new/config")).data).toMatchObject({ tenant_id: "", client_id: "" });
    end();
  });
});
