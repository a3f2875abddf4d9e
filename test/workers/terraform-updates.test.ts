import { generateKeyPairSync } from "node:crypto";
import { describe, expect, it } from "vitest";
import { itRows } from "../support/rows.ts";
import { type Answer, get, mountKv, patch, put } from "./client.ts";
import { openTenant, succeeded } from "./engine-helpers.ts";
import { differences, type Fields, vault } from "./terraform.ts";

/**
 * Updates and removals of the fields of each resource, as terraform-provider-vault v5.9 writes them: every step is applied
 * to one object, and its plan has no difference. Of destinations the provider writes what has a value (`GetOk`), and the
 * name template of the last read, which its schema computes; of other resources also empty values.
 */

interface Walk {
  readonly name: string;
  readonly path: string;
  /** Compared with the configuration. */
  readonly fields: readonly string[];
  readonly steps: readonly Fields[];
  readonly prepare?: () => Promise<unknown>;
  /** A step as the provider writes it. @param state of the last read; empty before the first */
  readonly body: (given: Fields, state: Fields) => unknown;
  readonly state: (answer: Answer) => Fields;
  readonly write?: typeof put;
  /** The path of updates, where it is another one. */
  readonly update?: string;
}

const dataOf = ({ body }: Answer): Fields => body.data;

/** Changed fields, also empty ones. @param zero the empty values that the provider sends */
const withZeros =
  (zero: Fields) =>
  (given: Fields): Fields => ({ ...zero, ...given });

const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
const credentials = JSON.stringify({
  type: "service_account",
  client_email: "sync@acme-prod.iam.gserviceaccount.com",
  project_id: "acme-prod",
  private_key: privateKey.export({ type: "pkcs8", format: "pem" }).toString(),
});

const networking = {
  allowed_ipv4_addresses: ["192.168.1.0/24", "10.0.0.0/8"],
  allowed_ipv6_addresses: ["2001:db8::/32"],
  allowed_ports: [443, 8200],
};
const NETWORKING = [...Object.keys(networking), "disable_strict_networking"];

/** All fields, each list shorter and another granularity, nothing optional, and all fields again. */
const destination = (type: string, login: Fields, secret: Fields, full: Fields, less: Fields = {}): Walk => ({
  name: `destination of type ${type}`,
  path: `/v1/sys/sync/destinations/${type}/d`,
  fields: [...Object.keys({ ...login, ...full }), ...NETWORKING, "granularity"],
  steps: [
    { ...login, ...full, ...networking, granularity: "secret-path" },
    {
      ...login,
      ...less,
      allowed_ipv6_addresses: ["2001:db8:1::/48"],
      allowed_ports: [443],
      disable_strict_networking: true,
      granularity: "secret-key",
    },
    { ...login, ...less },
    { ...login, ...full, ...networking, granularity: "secret-key" },
    { ...login, ...less, granularity: "secret-path" },
  ],
  body: (given, { secret_name_template }) => ({
    ...given,
    ...secret,
    ...(secret_name_template ? { secret_name_template } : {}),
  }),
  state: ({ body }) => {
    const { granularity_level: granularity, ...options } = body.data.options;
    return { ...body.data.connection_details, ...options, granularity };
  },
});
const tags = { custom_tags: { foo: "bar", baz: "bux" } };

const walks: readonly Walk[] = [
  destination(
    "aws-sm",
    { region: "eu-west-1" },
    { access_key_id: "AKIA1", secret_access_key: "s" },
    { ...tags, role_arn: "arn:aws:iam::123456789012:role/sync", external_id: "ext", kms_key_id: "alias/a" },
  ),
  destination(
    "azure-kv",
    { key_vault_uri: "https://acme.vault.azure.net", client_id: "c", tenant_id: "t", cloud: "cloud" },
    { client_secret: "s" },
    tags,
    { custom_tags: { foo: "other" } },
  ),
  destination("gcp-sm", { project_id: "acme-prod" }, { credentials }, tags),
  destination("gh", { repository_owner: "acme", repository_name: "web" }, { access_token: "t" }, {}),
  destination(
    "vercel-project",
    { project_id: "prj_1", team_id: "team_1" },
    { access_token: "t" },
    { deployment_environments: ["production", "development"] },
    { deployment_environments: ["production"] },
  ),
  {
    name: "vault_mount",
    path: "/v1/sys/mounts/kv",
    update: "/v1/sys/mounts/kv/tune",
    prepare: () => mountKv(),
    fields: ["description", "default_lease_ttl", "max_lease_ttl", "listing_visibility", "passthrough_request_headers"],
    steps: [
      {},
      {
        description: "d",
        default_lease_ttl: 600,
        max_lease_ttl: 3600,
        listing_visibility: "unauth",
        passthrough_request_headers: ["X-A"],
      },
      {},
    ],
    body: ({ default_lease_ttl = 0, max_lease_ttl = 0, ...given }) => ({
      description: "",
      listing_visibility: "",
      passthrough_request_headers: [],
      options: null,
      ...given,
      default_lease_ttl: `${default_lease_ttl}s`,
      max_lease_ttl: `${max_lease_ttl}s`,
      force_no_cache: false,
    }),
    state: ({ body: { data } }) => {
      const { default_lease_ttl, max_lease_ttl, ...rest } = data.config;
      const ttls = { default_lease_ttl: default_lease_ttl || undefined, max_lease_ttl: max_lease_ttl || undefined };
      return { ...data, ...rest, ...ttls };
    },
  },
  {
    name: "vault_approle_auth_backend_role",
    path: "/v1/auth/approle/role/r",
    prepare: () => put("/v1/sys/auth/approle", { type: "approle" }),
    fields: [
      "token_policies",
      "token_bound_cidrs",
      "secret_id_bound_cidrs",
      "token_num_uses",
      "token_ttl",
      "token_type",
    ],
    steps: [
      {
        token_policies: ["a"],
        token_bound_cidrs: ["10.0.0.0/8"],
        secret_id_bound_cidrs: ["10.0.0.0/8"],
        token_num_uses: 5,
        token_ttl: 60,
        token_type: "service",
      },
      { token_num_uses: 0, token_ttl: 0, token_type: "default" },
    ],
    body: withZeros({ token_policies: null, token_bound_cidrs: null, secret_id_bound_cidrs: [] }),
    state: dataOf,
  },
  {
    name: "vault_jwt_auth_backend_role",
    path: "/v1/auth/jwt/role/r",
    prepare: () => put("/v1/sys/auth/jwt", { type: "jwt" }),
    fields: ["bound_audiences", "bound_claims", "groups_claim", "token_policies", "bound_subject"],
    steps: [
      {
        bound_audiences: ["x"],
        bound_claims: { a: ["b"] },
        groups_claim: "g",
        token_policies: ["a"],
        bound_subject: "s",
      },
      { bound_subject: "s" },
      { bound_audiences: ["y", "z"] },
    ],
    body: withZeros({
      role_type: "jwt",
      user_claim: "sub",
      token_policies: [],
      bound_audiences: null,
      bound_claims: {},
      groups_claim: "",
      bound_subject: "",
      expiration_leeway: 0,
      verbose_oidc_logging: false,
    }),
    state: dataOf,
  },
  {
    name: "vault_token_auth_backend_role",
    path: "/v1/auth/token/roles/r",
    fields: ["allowed_policies", "disallowed_policies", "orphan", "path_suffix", "allowed_entity_aliases", "renewable"],
    steps: [
      {
        allowed_policies: ["a"],
        disallowed_policies: ["b"],
        orphan: true,
        path_suffix: "suffix",
        allowed_entity_aliases: ["e"],
        renewable: true,
      },
      {},
    ],
    body: withZeros({
      allowed_policies: null,
      disallowed_policies: null,
      orphan: false,
      path_suffix: "",
      renewable: false,
      allowed_entity_aliases: null,
    }),
    state: dataOf,
  },
  {
    name: "vault_identity_entity",
    path: "/v1/identity/entity/name/ann",
    fields: ["policies", "metadata", "disabled"],
    steps: [{ policies: ["a"], metadata: { a: "b" }, disabled: true }, {}, { policies: ["b"] }],
    body: withZeros({ policies: null, metadata: null, disabled: false }),
    state: dataOf,
  },
  {
    name: "vault_identity_group",
    path: "/v1/identity/group/name/g",
    fields: ["policies", "metadata"],
    steps: [{ policies: ["a"], metadata: { a: "b" } }, {}],
    body: withZeros({ policies: null, metadata: null, member_entity_ids: null, type: "internal" }),
    state: dataOf,
  },
  {
    name: "vault_namespace",
    path: "/v1/sys/namespaces/team",
    fields: ["custom_metadata"],
    steps: [{ custom_metadata: { a: "b" } }, { custom_metadata: { c: "d" } }, {}],
    body: withZeros({ custom_metadata: {} }),
    state: dataOf,
  },
  {
    name: "vault_quota_rate_limit",
    path: "/v1/sys/quotas/rate-limit/q",
    prepare: () => mountKv(),
    fields: ["path", "rate", "block_interval"],
    steps: [
      { path: "kv/", rate: 1000, block_interval: 3, interval: 5 },
      { path: "", rate: 2000, block_interval: 0, interval: 0 },
    ],
    body: (given) => given,
    state: dataOf,
  },
  {
    name: "vault_secrets_sync_config",
    path: "/v1/sys/sync/config",
    write: patch,
    fields: ["disabled", "queue_capacity"],
    steps: [
      { disabled: true, queue_capacity: 500_000 },
      { disabled: false, queue_capacity: 1_000_000 },
    ],
    body: (given) => given,
    state: dataOf,
  },
];

describe("a resource of Terraform's vault provider, changed and cleared", () => {
  it.each(walks.map((walk): [string, Walk] => [walk.name, walk]))(
    "has no difference after any step: %s",
    async (_name, { path, update = path, fields, steps, prepare, body, state, write = put }) => {
      await prepare?.();
      let shown: Fields = {};
      for (const [at, given] of steps.entries()) {
        succeeded(await write(update, body(given, shown), vault));
        shown = state(succeeded(await get(path, vault)));
        expect(differences(fields, given, shown), `step ${at}: ${JSON.stringify(given)}`).toEqual([]);
      }
    },
  );

  it("has no difference: vault_azure_secret_backend_role with persist_app", async () => {
    const tenant = await openTenant();
    succeeded(await put("/v1/sys/mounts/azure", { type: "azure" }, vault));
    succeeded(await put("/v1/azure/config", tenant.config, vault));
    const azure_roles = JSON.stringify([{ role_id: "", role_name: "Reader", scope: tenant.resource_group }]);
    const always = { azure_roles, permanently_delete: false, persist_app: true, max_ttl: "0", explicit_max_ttl: "0" };
    for (const given of [{}, { ttl: "300" }]) {
      succeeded(await put("/v1/azure/roles/r", { ...always, ...given }, vault));
      const { data } = (await get("/v1/azure/roles/r", vault)).body;
      expect(differences(["application_object_id", "ttl"], given, data)).toEqual([]);
      expect(data.persist_app).toBe(true);
    }
    const { application_object_id: own } = (await get("/v1/azure/roles/r")).body.data;
    expect(own, "in the neutral dialect").toMatch(/^[0-9a-f-]{36}$/);
    // A role that is written as the neutral dialect showed it.
    succeeded(await put("/v1/azure/roles/r", { ...always, application_object_id: own }, vault));
  });
});

describe("a write of a destination", () => {
  const at = "/v1/sys/sync/destinations/aws-sm/d";
  const secret = { access_key_id: "AKIA1", secret_access_key: "s" };
  const optional = { role_arn: "arn:aws:iam::123456789012:role/sync", external_id: "ext" };
  const full = { ...secret, ...optional, ...networking, region: "eu-west-1", custom_tags: { a: "1" } };

  itRows([
    ["one networking list", { allowed_ports: [443] }, { allowed_ports: [443] }],
    ["tags", { custom_tags: { b: "2" } }, { custom_tags: { b: "2" } }],
    ["a new secret", { access_key_id: "AKIA2", secret_access_key: "t" }, {}],
    ["the fixed field without the login", { region: "eu-west-1" }, {}],
    ["nothing", {}, {}],
  ])("keeps what it leaves out when it changes %s", async (_what, body, changed) => {
    succeeded(await put(at, full));
    const before = succeeded(await get(at)).body.data;
    const after = succeeded(await put(at, body)).body.data;
    expect(after.connection_details).toEqual(before.connection_details);
    expect(after.options).toEqual({ ...before.options, ...(changed as object) });
  });

  it("unsets what it leaves out when it states the whole destination, except the policies", async () => {
    succeeded(await put(at, { ...full, deletion_policy: "retain", update_policy: "owned-only" }));
    succeeded(await put(at, { ...secret, region: "eu-west-1" }));
    const { connection_details, options } = (await get(at)).body.data;
    expect(connection_details).toEqual({ access_key_id: "*****", secret_access_key: "*****", region: "eu-west-1" });
    expect(options).toMatchObject({ deletion_policy: "retain", update_policy: "owned-only", custom_tags: {} });
    for (const field of NETWORKING) expect(options).not.toHaveProperty(field);
  });

  it("keeps everything else when it only replaces the secret of a destination without fixed fields", async () => {
    const path = "/v1/sys/sync/destinations/gcp-sm/d";
    const before = succeeded(await put(path, { credentials, allowed_ports: [443], ...tags })).body.data;
    expect(succeeded(await put(path, { credentials })).body.data.options).toEqual(before.options);
  });

  it("keeps an audience that Terraform writes once", async () => {
    const path = "/v1/sys/sync/destinations/azure-kv/d";
    const login = { key_vault_uri: "https://acme.vault.azure.net", client_id: "c", tenant_id: "t" };
    succeeded(await put(path, { ...login, identity_token_audience: "api://x", ...networking }, vault));
    succeeded(await put(path, { ...login, identity_token_ttl: 1800 }, vault));
    const { connection_details, options } = (await get(path, vault)).body.data;
    expect(connection_details).toMatchObject({ identity_token_audience: "*****", identity_token_ttl: 1800 });
    for (const field of NETWORKING) expect(options).not.toHaveProperty(field);
  });

  itRows(["patch", "write"])("takes the default template that a read showed as the default: by a %s", async (mode) => {
    for (const type of ["aws-sm", "in-mem"]) {
      const path = `/v1/sys/sync/destinations/${type}/${mode}`;
      succeeded(await put(path, { ...(type === "aws-sm" && full), granularity: "secret-path" }));
      const { secret_name_template } = (await get(path)).body.data.options;
      const change = mode === "patch" ? patch : put;
      const { options } = succeeded(await change(path, { granularity: "secret-key", secret_name_template })).body.data;
      expect(options.secret_name_template).not.toBe(secret_name_template);
      const back = succeeded(await change(path, { granularity: "secret-path", ...options })).body.data;
      expect(back.options.secret_name_template).toBe(secret_name_template);
      const refused = await change(path, { granularity: "secret-key", secret_name_template: "x{{ .SecretPath }}" });
      expect([refused.status, refused.text]).toEqual([400, expect.stringContaining("reference to the secret key")]);
    }
  });

  it("refuses a tag key with white space where upstream does", async () => {
    const body = { key_vault_uri: "https://acme.vault.azure.net", client_id: "c", client_secret: "s", tenant_id: "t" };
    const custom_tags = { "invalid key with spaces": "value" };
    const refused = await put("/v1/sys/sync/destinations/azure-kv/d", { ...body, custom_tags }, vault);
    expect([refused.status, refused.text]).toEqual([400, expect.stringContaining("must not hold white space")]);
  });
});
