import { generateKeyPairSync } from "node:crypto";
import { describe, expect, it } from "vitest";
import { itRows } from "../support/rows.ts";
import { del, get, mountKv, patch, put } from "./client.ts";
import { openTenant, succeeded } from "./engine-helpers.ts";
import {
  type AtPath,
  atPath,
  differences,
  expectNoDifference,
  type Fields,
  named,
  type Resource,
  vault,
} from "./terraform.ts";

const key = generateKeyPairSync("rsa", { modulusLength: 2048 });
const pem = key.privateKey.export({ type: "pkcs8", format: "pem" }).toString();
const credentials = JSON.stringify({
  type: "service_account",
  client_email: "sync@acme-prod.iam.gserviceaccount.com",
  project_id: "acme-prod",
  private_key: pem,
});
const azure = { key_vault_uri: "https://acme.vault.azure.net", client_id: "c", client_secret: "s", tenant_id: "t" };
const github = { access_token: "t", repository_owner: "acme", repository_name: "web" };
const vercel = { access_token: "t", project_id: "prj_1", deployment_environments: ["production", "development"] };
const aws = { access_key_id: "AKIA1", secret_access_key: "s", region: "eu-west-1" };

const mountLists = {
  passthrough_request_headers: ["X-B", "X-A"],
  allowed_response_headers: ["X-C"],
  allowed_managed_keys: ["k"],
  audit_non_hmac_request_keys: ["a"],
  audit_non_hmac_response_keys: ["b"],
  delegated_auth_accessors: ["acc"],
};

const destination = (type: string, fields: readonly string[], configurations: readonly Fields[]): AtPath => ({
  name: `destination of type ${type}`,
  path: `/v1/sys/sync/destinations/${type}/d`,
  fields: [...fields, "granularity", "custom_tags"],
  configurations,
  state: ({ body }) => {
    const { granularity_level: granularity, custom_tags } = body.data.options;
    return { ...body.data.connection_details, granularity, custom_tags };
  },
});

const paths: readonly AtPath[] = [
  destination(
    "azure-kv",
    ["key_vault_uri", "cloud", "client_id", "tenant_id"],
    [
      azure,
      { ...azure, cloud: "cloud", granularity: "secret-path" },
      { ...azure, cloud: "AzurePublicCloud", custom_tags: { a: "1" } },
      {
        ...azure,
        key_vault_uri: "https://Acme.vault.azure.net/",
        cloud: "azurepubliccloud",
        granularity: "secret-key",
      },
    ],
  ),
  destination(
    "aws-sm",
    ["region", "role_arn", "external_id"],
    [aws, { ...aws, role_arn: "arn:aws:iam::123456789012:role/sync", external_id: "ext", granularity: "secret-key" }],
  ),
  destination(
    "gcp-sm",
    ["project_id"],
    [{ credentials }, { credentials, project_id: "acme-prod", granularity: "secret-path", custom_tags: { a: "1" } }],
  ),
  destination(
    "gh",
    ["repository_owner", "repository_name", "environment_name", "secrets_location", "installation_id", "app_name"],
    [
      github,
      { ...github, secrets_location: "repository", environment_name: "production" },
      { ...github, granularity: "secret-key" },
      { ...github, granularity: "secret-path" },
    ],
  ),
  destination(
    "vercel-project",
    ["project_id", "team_id", "deployment_environments"],
    [vercel, { ...vercel, team_id: "team_1", granularity: "secret-key" }, { ...vercel, granularity: "secret-path" }],
  ),
  {
    name: "vault_policy",
    path: "/v1/sys/policies/acl/p",
    fields: ["policy"],
    configurations: [{ policy: '\n# comment\npath "kv/*" {\n  capabilities = ["read"]\n}\n\n' }],
    state: ({ body }) => body.data,
  },
  {
    name: "vault_namespace",
    path: "/v1/sys/namespaces/team",
    fields: ["custom_metadata"],
    configurations: [{}, { custom_metadata: { owner: "a" } }],
    state: ({ body }) => body.data,
  },
  {
    name: "vault_mount",
    path: "/v1/sys/mounts/d",
    fields: [
      "description",
      "local",
      "seal_wrap",
      "passthrough_request_headers",
      "allowed_response_headers",
      "options",
      "allowed_managed_keys",
      "delegated_auth_accessors",
      "identity_token_key",
      "listing_visibility",
      "audit_non_hmac_request_keys",
      "audit_non_hmac_response_keys",
      "external_entropy_access",
    ],
    configurations: [
      { type: "azure" },
      { type: "kv" },
      { type: "kv", options: { version: "1" } },
      { type: "kv", options: { version: "2" }, description: "d", local: true, seal_wrap: true },
      {
        type: "kv",
        options: { version: "2" },
        ...mountLists,
        identity_token_key: "default",
        listing_visibility: "unauth",
      },
    ],
    // The provider writes the settings of a configuration into `config`, and omits unset ones.
    body: ({ type, description = "", options = {}, local = false, seal_wrap = false, ...config }) => ({
      type,
      description,
      options,
      local,
      seal_wrap,
      external_entropy_access: false,
      config: { options: null, default_lease_ttl: "0s", max_lease_ttl: "0s", force_no_cache: false, ...config },
    }),
    state: ({ body }) => ({ ...body.data, ...body.data.config }),
    once: true,
  },
  {
    name: "vault_kv_secret_backend_v2",
    path: "/v1/kv/config",
    prepare: () => mountKv(),
    fields: ["max_versions", "cas_required", "delete_version_after"],
    configurations: [{ max_versions: 5, cas_required: true, delete_version_after: 12_600 }, { max_versions: 7 }],
    // Every field is written, those that were not given as their types' zero values; the length of time is read as a text.
    body: (given) => ({ max_versions: 0, cas_required: false, delete_version_after: 0, ...given }),
    state: ({ body }) => ({ ...body.data, ...lifeOf(body.data) }),
  },
  {
    name: "vault_secrets_sync_config",
    path: "/v1/sys/sync/config",
    write: patch,
    fields: ["disabled", "queue_capacity"],
    configurations: [
      { disabled: true, queue_capacity: 500_000 },
      { disabled: false, queue_capacity: 1_000_000 },
    ],
    state: ({ body }) => body.data,
  },
  {
    name: "vault_secrets_sync_github_apps",
    path: "/v1/sys/sync/github-apps/d",
    fields: ["app_id"],
    configurations: [{ app_id: 123_456, private_key: pem }],
    state: ({ body }) => body.data,
  },
];

/** The text of a length of time, as seconds: `3h30m0s`. */
const lifeOf = ({ delete_version_after: text }: Record<string, string>) => {
  const [, hours = 0, minutes = 0, seconds = 0] = /^(?:(\d+)h)?(?:(\d+)m)?(\d+)s$/.exec(text ?? "") ?? [];
  const life = Number(hours) * 3600 + Number(minutes) * 60 + Number(seconds);
  return { delete_version_after: life === 0 ? undefined : life };
};

const METADATA = ["max_versions", "cas_required", "delete_version_after", "custom_metadata"];

const made: readonly Resource[] = [
  {
    name: "vault_token",
    fields: ["policies", "display_name", "metadata"],
    computed: ["no_parent", "renewable", "num_uses"],
    configurations: [
      { policies: ["reader"], display_name: "token" },
      { policies: ["admin", "reader"], display_name: "ci", ttl: "24h", metadata: { team: "web" }, renewable: true },
      { policies: ["reader"], display_name: "token", no_parent: true, ttl: "1h", explicit_max_ttl: "2h", num_uses: 5 },
      { policies: ["reader"], display_name: "token", period: "1h", no_default_policy: true, renewable: false },
    ],
    create: async ({ metadata, ...given }) => {
      const written = { ...given, ...(metadata !== undefined && { meta: metadata }) };
      const path = given["no_parent"] ? "create-orphan" : "create";
      return succeeded(await put(`/v1/auth/token/${path}`, written, vault)).body.auth.accessor;
    },
    read: async (accessor) => {
      const { data } = succeeded(await put("/v1/auth/token/lookup-accessor", { accessor }, vault)).body;
      for (const time of [data.issue_time, data.expire_time]) expect(time).toMatch(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/);
      return {
        ...data,
        policies: data.policies.filter((policy: string) => policy !== "default"),
        display_name: data.display_name.replace(/^token-/, ""),
        no_parent: data.orphan,
        metadata: data.meta,
      };
    },
  },
  {
    name: "vault_kv_secret_v2",
    prepare: () => mountKv(),
    fields: ["data"],
    computed: METADATA,
    configurations: [
      { data: { user: "u", pass: "p" } },
      { data: { nested: { list: [1, "a", null, true] }, number: 1.5, empty: "" } },
      { data: {} },
      {
        data: { a: "1" },
        max_versions: 5,
        delete_version_after: 12_600,
        custom_metadata: { owner: "a@b.c", zone: "eu" },
      },
    ],
    create: async (given, at) => {
      const name = `team/app${at}`;
      await writeSecret(name, given);
      return name;
    },
    update: (name, given) => writeSecret(name, given),
    read: async (name) => {
      const { data, metadata } = succeeded(await get(`/v1/kv/data/${name}`, vault)).body.data;
      expect(metadata).toHaveProperty("custom_metadata");
      const shown = succeeded(await get(`/v1/kv/metadata/${name}`, vault)).body.data;
      return { ...shown, ...lifeOf(shown), data };
    },
  },
  {
    name: "vault_secrets_sync_association",
    prepare: async () => {
      await mountKv();
      for (const [name, granularity] of [
        ["path", "secret-path"],
        ["key", "secret-key"],
      ])
        succeeded(await put(`/v1/sys/sync/destinations/in-mem/${name}`, { granularity }, vault));
      for (const secret of ["app", "team/db"]) await writeSecret(secret, { data: { user: "u", pass: "p" } });
    },
    fields: ["mount", "secret_name"],
    computed: ["sub_keys"],
    configurations: [
      { name: "path", mount: "kv", secret_name: "app", sub_keys: [""] },
      { name: "path", mount: "kv", secret_name: "team/db", sub_keys: [""] },
      { name: "key", mount: "kv", secret_name: "team/db", sub_keys: ["pass", "user"] },
    ],
    create: async ({ name, mount, secret_name }) => {
      const path = `/v1/sys/sync/destinations/in-mem/${name}/associations`;
      succeeded(await put(`${path}/set`, { mount, secret_name }, vault));
      return JSON.stringify({ path, mount, secret_name });
    },
    // The provider looks up the mount and selects its secrets among those of the destination; without one, it recreates it.
    read: async (id) => {
      const { path, mount, secret_name } = JSON.parse(id);
      const { accessor } = succeeded(await get(`/v1/sys/mounts/${mount}`, vault)).body.data;
      const all: Record<string, string>[] = Object.values(
        succeeded(await get(path, vault)).body.data.associated_secrets,
      );
      const own = all.filter((entry) => entry["accessor"] === accessor && entry["secret_name"] === secret_name);
      const text = expect.any(String);
      for (const entry of own) expect(entry).toMatchObject({ sync_status: text, updated_at: text });
      return own.length === 0
        ? {}
        : { mount, secret_name, sub_keys: own.map((entry) => entry["sub_key"] ?? "").toSorted() };
    },
  },
];

/** The provider writes a level of compare-and-set for every secret, outside of the options, where it means nothing. */
async function writeSecret(name: string, { data, ...metadata }: Fields): Promise<void> {
  succeeded(await put(`/v1/kv/data/${name}`, { data, cas: 0, options: {} }, vault));
  if (Object.keys(metadata).length > 0) succeeded(await put(`/v1/kv/metadata/${name}`, metadata, vault));
}

describe("a resource of Terraform's vault provider, applied and planned again", () => {
  it.each([...paths.map(atPath), ...made].map(named))("has no difference: %s", (_name, resource) =>
    expectNoDifference(resource),
  );

  it("has no difference: vault_mount, after its settings were changed and removed", async () => {
    const at = "/v1/sys/mounts/tuned";
    succeeded(await put(at, { type: "kv", options: { version: "2" } }, vault));
    succeeded(await put(`${at}/tune`, { ...mountLists, description: "d", options: { version: "2" } }, vault));
    expect((await get(at, vault)).body.data).toMatchObject({ description: "d", config: mountLists });
    expect((await get(`${at}/tune`, vault)).body.data).toMatchObject(mountLists);
    const none = Object.fromEntries(Object.keys(mountLists).map((name) => [name, []]));
    succeeded(await put(`${at}/tune`, none, vault));
    const { config } = (await get(at, vault)).body.data;
    for (const name of Object.keys(mountLists)) expect(config).not.toHaveProperty(name);
  });

  itRows([
    [{ identity_token_key: "other" }, 'identity_token_key: there is no key but \\"default\\"'],
    [{ plugin_version: "v1.0.0" }, "plugin_version: engines have no versions here"],
  ])("is refused with a setting without an effect: vault_mount with %j", async (config, text) => {
    const refused = await put("/v1/sys/mounts/m", { type: "azure", config }, vault);
    expect([refused.status, refused.text]).toEqual([400, expect.stringContaining(text)]);
    const entropy = await put("/v1/sys/mounts/m", { type: "azure", external_entropy_access: true }, vault);
    expect([entropy.status, entropy.text]).toEqual([400, expect.stringContaining("external_entropy_access")]);
  });

  it("has no difference: vault_azure_secret_backend_static_role", async () => {
    const tenant = await openTenant();
    succeeded(await put("/v1/sys/mounts/azure", { type: "azure" }, vault));
    succeeded(await put("/v1/azure/config", tenant.config, vault));
    const { object_id: id } = tenant.existing_application;
    const imported = (await tenant.call({ change: "AddPassword", id })) as { keyId: string; secretText: string };
    const secret = { secret_id: imported.keyId, client_secret: imported.secretText };
    const configurations: Fields[] = [
      {},
      { ttl: 31_536_000, metadata: { team: "a" } },
      { ...secret, expiration: "2099-01-01T00:00:00Z", skip_import_rotation: true },
    ];
    for (const [at, given] of configurations.entries()) {
      const path = `/v1/azure/static-roles/r${at}`;
      const body = { application_object_id: id, ...given };
      succeeded(await put(path, body, vault));
      const { data } = (await get(path, vault)).body;
      expect(differences(["application_object_id", "metadata"], body, data)).toEqual([]);
      expect(data.ttl).toBe(given["ttl"] ?? 17_520 * 3_600);
      // An update sends the application and the import again.
      succeeded(await put(path, { ...body, metadata: { team: "b" } }, vault));
      expect((await get(path, vault)).body.data.metadata).toEqual({ team: "b" });
      succeeded(await del(path, vault));
    }
  });

  it("has no difference: vault_azure_secret_backend_role", async () => {
    const tenant = await openTenant();
    succeeded(await put("/v1/sys/mounts/azure", { type: "azure" }, vault));
    succeeded(await put("/v1/azure/config", { ...tenant.config, environment: "AzurePublicCloud" }, vault));
    const scope = tenant.resource_group;
    const azure_roles = JSON.stringify([{ role_id: "", role_name: "Reader", scope }]);
    const always = { azure_roles, permanently_delete: false, persist_app: false };
    const fields = ["ttl", "max_ttl", "explicit_max_ttl", "sign_in_audience", "tags", "application_object_id"];
    const configurations: Fields[] = [
      {},
      { max_ttl: "0", explicit_max_ttl: "0" },
      { ttl: "300", max_ttl: "600" },
      { ttl: "5m", max_ttl: "1h30m", explicit_max_ttl: "2h", sign_in_audience: "AzureADMyOrg" },
      { tags: ["zebra", "apple"] },
    ];
    for (const [at, given] of configurations.entries()) {
      const path = `/v1/azure/roles/r${at}`;
      const tags = (given["tags"] as string[] | undefined)?.join(",");
      succeeded(await put(path, { ...always, ...given, ...(tags && { tags }) }, vault));
      const { data } = (await get(path, vault)).body;
      expect(differences(fields, given, data), JSON.stringify(given)).toEqual([]);
      expect(data.azure_roles).toMatchObject([{ role_name: "Reader", scope }]);
      const neutral = (await get(path)).body.data;
      expect(typeof neutral.ttl, "a number in the neutral dialect").toBe("number");
      expect(neutral).not.toHaveProperty("written");
    }
    // Fields that an update leaves out stay as they were written.
    succeeded(await put("/v1/azure/roles/r3", { ...always, explicit_max_ttl: "10800" }, vault));
    expect((await get("/v1/azure/roles/r3", vault)).body.data).toMatchObject({ ttl: "5m", explicit_max_ttl: 10_800 });
    expect((await get("/v1/azure/roles/r3")).body.data).toMatchObject({ ttl: 300, explicit_max_ttl: 10_800 });
  });

  it("has no difference: vault_azure_secret_backend", async () => {
    const tenant = await openTenant();
    succeeded(await put("/v1/sys/mounts/azure", { type: "azure" }, vault));
    const given = { ...tenant.config, environment: "AZUREPUBLICCLOUD", root_password_ttl: 86_400 };
    succeeded(await put("/v1/azure/config", given, vault));
    const fields = ["subscription_id", "tenant_id", "client_id", "environment", "root_password_ttl"];
    expect(differences(fields, given, (await get("/v1/azure/config", vault)).body.data)).toEqual([]);
  });
});

describe("a destination without a given granularity", () => {
  it("has its type's default in the neutral dialect", async () => {
    succeeded(await put("/v1/sys/sync/destinations/vercel-project/n", vercel, vault));
    const neutral = (await get("/v1/sys/sync/destinations/deploy-project/n")).body.data;
    expect(neutral.options.granularity_level).toBe("secret-key");
    expect(JSON.stringify(neutral)).not.toContain("granularity_given");
  });
});
