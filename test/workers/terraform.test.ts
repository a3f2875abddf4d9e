import { generateKeyPairSync } from "node:crypto";
import { describe, expect, it } from "vitest";
import { type Answer, get, put } from "./client.ts";
import { openTenant, succeeded } from "./engine-helpers.ts";

/*
 * What Terraform's providers do with a resource: they write the fields that a configuration names, read the object and
 * compare. A plan has no difference when every field that was given reads back equal, and one that was not is absent or has
 * its type's zero value, unless the provider's schema computes it. Field names: the functions Create and Read of each
 * resource of terraform-provider-vault and terraform-provider-nomad.
 */

type Fields = Readonly<Record<string, unknown>>;

interface Resource {
  readonly name: string;
  readonly path: string;
  readonly readPath?: string;
  /** Fields that the schema does not compute: each is either given or absent. */
  readonly fields: readonly string[];
  readonly configurations: readonly Fields[];
  /** A configuration as the provider writes it. */
  readonly body?: (given: Fields) => unknown;
  /** The fields that the provider copies into its state. */
  readonly state: (answer: Answer) => Fields;
  /** It is made by a write, and changed by others. */
  readonly once?: true;
}

const vault = { token: null, headers: { "X-Vault-Token": "root", "X-Vault-Request": "true" } };
const nomad = { token: null, headers: { "X-Nomad-Token": "root" } };

const isEmpty = (value: unknown): boolean =>
  [undefined, null, "", false].includes(value as string) ||
  (typeof value === "object" && value !== null && Object.keys(value).length === 0);

/** A value as the state holds it: the provider's texts are given as numbers by the API. */
const held = (value: unknown): string => JSON.stringify(typeof value === "number" ? String(value) : value);

/** The differences that a plan would show. A number 0 is one where nothing was given: the state would hold the text "0". */
const differences = (fields: readonly string[], given: Fields, state: Fields): string[] =>
  fields.flatMap((field) => {
    const [wanted, shown] = [given[field], state[field]];
    const same = isEmpty(wanted) ? isEmpty(shown) : held(wanted) === held(shown);
    return same ? [] : [`${field}: ${JSON.stringify(shown)} -> ${JSON.stringify(wanted)}`];
  });

const key = generateKeyPairSync("rsa", { modulusLength: 2048 });
const credentials = JSON.stringify({
  ...{ type: "service_account", client_email: "sync@acme-prod.iam.gserviceaccount.com", project_id: "acme-prod" },
  private_key: key.privateKey.export({ type: "pkcs8", format: "pem" }).toString(),
});
const azure = { key_vault_uri: "https://acme.vault.azure.net", client_id: "c", client_secret: "s", tenant_id: "t" };
const github = { access_token: "t", repository_owner: "acme", repository_name: "web" };
const vercel = { access_token: "t", project_id: "prj_1", deployment_environments: ["production", "development"] };
const aws = { access_key_id: "AKIA1", secret_access_key: "s", region: "eu-west-1" };

const mountLists = {
  ...{ passthrough_request_headers: ["X-B", "X-A"], allowed_response_headers: ["X-C"], allowed_managed_keys: ["k"] },
  ...{ audit_non_hmac_request_keys: ["a"], audit_non_hmac_response_keys: ["b"], delegated_auth_accessors: ["acc"] },
};

const destination = (type: string, fields: readonly string[], configurations: readonly Fields[]): Resource => ({
  name: `destination of type ${type}`,
  path: `/v1/sys/sync/destinations/${type}/d`,
  fields: [...fields, "granularity", "custom_tags"],
  configurations,
  state: ({ body }) => {
    const { granularity_level: granularity, custom_tags } = body.data.options;
    return { ...body.data.connection_details, granularity, custom_tags };
  },
});

const resources: readonly Resource[] = [
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
      ...["description", "local", "seal_wrap", "passthrough_request_headers", "allowed_response_headers", "options"],
      ...["allowed_managed_keys", "delegated_auth_accessors", "identity_token_key", "listing_visibility"],
      ...["audit_non_hmac_request_keys", "audit_non_hmac_response_keys", "external_entropy_access"],
    ],
    configurations: [
      { type: "azure" },
      { type: "kv", options: { version: "2" }, description: "d", local: true, seal_wrap: true },
      {
        type: "kv",
        options: { version: "2" },
        ...mountLists,
        identity_token_key: "default",
        listing_visibility: "unauth",
      },
    ],
    // The provider writes the settings of a configuration into `config`, and leaves out what was not given.
    body: ({ type, description = "", options = {}, local = false, seal_wrap = false, ...config }) => ({
      ...{ type, description, options, local, seal_wrap, external_entropy_access: false },
      config: { options: null, default_lease_ttl: "0s", max_lease_ttl: "0s", force_no_cache: false, ...config },
    }),
    state: ({ body }) => ({ ...body.data, ...body.data.config }),
    once: true,
  },
  {
    name: "nomad_namespace",
    path: "/v1/namespace/d",
    fields: ["Description", "Quota", "Meta", "Capabilities", "NodePoolConfiguration", "VaultConfiguration"],
    configurations: [
      {},
      { Description: "x", Meta: { a: "1" }, Quota: "small", Capabilities: { DisabledTaskDrivers: ["exec"] } },
      {
        Capabilities: { EnabledTaskDrivers: ["docker"], DisabledTaskDrivers: ["raw_exec", "exec"] },
        NodePoolConfiguration: { Default: "gpu", Allowed: ["gpu", "cpu"] },
        VaultConfiguration: { Default: "v", Denied: ["w"] },
      },
    ],
    state: ({ body }) => body,
  },
  {
    name: "nomad_acl_policy",
    path: "/v1/acl/policy/p",
    fields: ["Name", "Description", "Rules", "JobACL"],
    configurations: [
      { Name: "p", Rules: 'node { policy = "read" }\n' },
      {
        ...{ Name: "p", Description: "d", Rules: '\nnamespace "default" { policy = "read" }' },
        JobACL: { Namespace: "default", JobID: "j", Group: "g", Task: "" },
      },
    ],
    state: ({ body }) => body,
  },
];

const named = (resource: Resource): [string, Resource] => [resource.name, resource];

describe("a resource of Terraform, applied and planned", () => {
  it.each(resources.map(named))("has no difference: %s", async (_name, resource) => {
    const options = resource.name.startsWith("nomad") ? nomad : vault;
    for (const [at, given] of resource.configurations.entries()) {
      const path = resource.path.replace(/d$/, `d${at}`);
      const body = resource.body?.(given) ?? given;
      succeeded(await put(path, body, options));
      const read = async () => resource.state(await get(resource.readPath ?? path, options));
      const state = await read();
      expect(differences(resource.fields, given, state), JSON.stringify(given)).toEqual([]);
      if (!resource.once) succeeded(await put(path, body, options));
      expect(differences(resource.fields, given, await read()), `again: ${JSON.stringify(given)}`).toEqual([]);
    }
  });

  it("has no difference: vault_mount, after a change of its settings and after taking them away", async () => {
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

  it.each([
    [{ identity_token_key: "other" }, 'identity_token_key: there is no key but \\"default\\"'],
    [{ plugin_version: "v1.0.0" }, "plugin_version: engines have no versions here"],
  ])("is refused what has no effect: vault_mount with %j", async (config, text) => {
    const refused = await put("/v1/sys/mounts/m", { type: "azure", config }, vault);
    expect([refused.status, refused.text]).toEqual([400, expect.stringContaining(text)]);
    const entropy = await put("/v1/sys/mounts/m", { type: "azure", external_entropy_access: true }, vault);
    expect([entropy.status, entropy.text]).toEqual([400, expect.stringContaining("external_entropy_access")]);
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
    // What an update leaves out stays, also as it was written.
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

describe("a destination whose level of granularity was not given", () => {
  it("shows its type's own in the neutral dialect", async () => {
    succeeded(await put("/v1/sys/sync/destinations/vercel-project/n", vercel, vault));
    const neutral = (await get("/v1/sys/sync/destinations/deploy-project/n")).body.data;
    expect(neutral.options.granularity_level).toBe("secret-key");
    expect(JSON.stringify(neutral)).not.toContain("granularity_given");
  });
});
