import { describe, expect, it } from "vitest";
import { isEchoed } from "../../src/platform/http/fields.ts";
import { readNulls } from "../../src/platform/http/nulls.ts";
import { isInternal } from "../../src/platform/http/unknown-fields.ts";
import { mountedRoutes, secretsRoutes } from "../../src/routes/table.ts";
import { holdsDuration, schemaFields } from "../schema-walk.ts";
import { itRows } from "../support/rows.ts";
import { holderOf } from "./access.ts";
import { mountAws, openAwsAccount } from "./aws-helpers.ts";
import { get, mountKv, put } from "./client.ts";
import { openTenant, succeeded } from "./engine-helpers.ts";
import { openProject } from "./gcp-helpers.ts";
import { openProducer } from "./producer-helpers.ts";
import { vault } from "./terraform.ts";

/** JSON null in updates, by the type of the field: sdk/framework/field_data.go of Vault and of OpenBao. */

const routes = [...secretsRoutes.routes, ...Object.values(mountedRoutes).flatMap((table) => table.routes)];

describe("null in the body of any POST of the secrets API", () => {
  it("is an empty text, list or map, 0 or false; absent for durations and what is listed here", () => {
    const absent = new Set<string>();
    for (const { verb, path, body, whole } of routes) {
      if (verb !== "POST" || !body || whole) continue;
      for (const { name, schema } of schemaFields(body)) {
        if (name.includes(".") || isEchoed(schema) || isInternal(schema) || holdsDuration(schema)) continue;
        const [value] = Object.values(readNulls(body, { [name]: null }));
        if (value === undefined) absent.add(`${path} ${name}`);
        else expect(["", 0, false, [], {}], `${path} ${name}`).toContainEqual(value);
      }
    }
    expect([...absent].sort()).toEqual([
      // Decoded into a structure with a pointer.
      "/auth/token/create renewable",
      "/auth/token/create-orphan renewable",
      "/auth/token/create/:role renewable",
      // A document; null is refused.
      "/config producer",
      // `no data provided`, as without it.
      "/data/:path+ data",
      // Objects, whose absent members have no effect.
      "/data/:path+ options",
      // As in the configuration.
      "/dry-run producer",
      "/sys/auth/:path+ config",
      "/sys/auth/:path+/tune user_lockout_config",
      "/sys/mounts/:path+ config",
      "/sys/mounts/auth/:path+/tune user_lockout_config",
      // Objects without an upstream: no selector, and no quiet hours.
      "/sys/notifications/rules/:name quiet_hours",
      "/sys/sync/destinations/:type/:name/associations/set selector",
      // Numbers without an upstream, whose 0 is another setting than the default.
      "/sys/sync/destinations/:type/:name/rules/:rule max_removals",
      "/sys/sync/destinations/:type/:name/rules/:rule max_secrets",
      "/sys/sync/destinations/:type/:name/rules/:rule priority",
    ]);
  });
});

type Fields = Readonly<Record<string, unknown>>;

/** A resource, what null leaves of it, and how a read shows it. */
interface Row {
  readonly at: string;
  readonly before: Fields;
  readonly cleared: Fields;
  readonly read?: string;
  readonly data?: (data: Fields) => Fields;
  /** Fields that the update has to repeat. */
  readonly fixed?: Fields;
  readonly prepare?: () => Promise<unknown>;
}

const enable = (type: string) => () => put(`/v1/sys/auth/${type}`, { type });
const tokenFields = {
  token_policies: ["a"],
  token_bound_cidrs: ["10.0.0.0/8"],
  token_num_uses: 5,
  token_no_default_policy: true,
  token_type: "service",
  alias_metadata: { a: "b" },
};
const clearedToken = {
  token_policies: [],
  token_bound_cidrs: [],
  token_num_uses: 0,
  token_no_default_policy: false,
  token_type: "default",
  alias_metadata: {},
};
const JWT = "/v1/auth/jwt/role/r";

const rows: readonly Row[] = [
  {
    at: "/v1/auth/userpass/users/ann",
    prepare: enable("userpass"),
    before: { password: "secret-password", ...tokenFields },
    cleared: clearedToken,
  },
  {
    at: "/v1/auth/approle/role/r",
    prepare: enable("approle"),
    before: { ...tokenFields, secret_id_bound_cidrs: ["10.0.0.0/8"], secret_id_num_uses: 3 },
    cleared: { ...clearedToken, secret_id_bound_cidrs: null, secret_id_num_uses: 0 },
  },
  {
    at: JWT,
    prepare: enable("jwt"),
    before: {
      ...tokenFields,
      bound_audiences: ["x"],
      bound_subject: "s",
      bound_claims: { a: "b" },
      groups_claim: "g",
      claim_mappings: { a: "b" },
      oidc_scopes: ["c"],
      verbose_oidc_logging: true,
      role_type: "jwt",
      user_claim: "sub",
    },
    // The second run of vault-action's own tests against one role.
    fixed: { role_type: "jwt", user_claim: "sub", token_bound_cidrs: ["10.0.0.0/8"] },
    cleared: {
      token_policies: [],
      token_num_uses: 0,
      token_no_default_policy: false,
      token_type: "default",
      alias_metadata: {},
      bound_audiences: [],
      bound_subject: "",
      bound_claims: {},
      groups_claim: "",
      claim_mappings: {},
      oidc_scopes: [],
      verbose_oidc_logging: false,
    },
  },
  {
    at: "/v1/auth/kubernetes/role/r",
    prepare: enable("kubernetes"),
    before: {
      ...tokenFields,
      audience: "a",
      bound_service_account_names: ["n"],
      bound_service_account_namespaces: ["s"],
    },
    cleared: { ...clearedToken, audience: "" },
  },
  {
    at: "/v1/auth/token/roles/r",
    before: {
      allowed_policies: ["a"],
      disallowed_policies: ["b"],
      allowed_policies_glob: ["c"],
      orphan: true,
      disallowed_policies_glob: ["d"],
      allowed_entity_aliases: ["e"],
      path_suffix: "suffix",
      token_num_uses: 4,
      renewable: true,
      token_bound_cidrs: ["10.0.0.0/8"],
    },
    cleared: {
      allowed_policies: [],
      disallowed_policies: [],
      allowed_policies_glob: [],
      orphan: false,
      renewable: false,
      disallowed_policies_glob: [],
      allowed_entity_aliases: [],
      path_suffix: "",
      token_num_uses: null,
    },
  },
  {
    at: "/v1/identity/entity",
    fixed: { name: "ann" },
    read: "/v1/identity/entity/name/ann",
    before: { name: "ann", policies: ["a"], metadata: { a: "b" }, disabled: true },
    cleared: { policies: [], metadata: null, disabled: false },
  },
  {
    at: "/v1/identity/group/name/g",
    before: { policies: ["a"], metadata: { a: "b" } },
    cleared: { policies: [], metadata: null },
  },
  {
    at: "/v1/kv/config",
    prepare: () => mountKv(),
    before: { max_versions: 5, cas_required: true },
    cleared: { max_versions: 0, cas_required: false },
  },
  {
    at: "/v1/kv/metadata/app",
    prepare: () => mountKv(),
    before: { max_versions: 5, cas_required: true, custom_metadata: { a: "b" } },
    cleared: { max_versions: 0, cas_required: false, custom_metadata: null },
  },
  {
    at: "/v1/sys/mounts/kv/tune",
    prepare: () => mountKv(),
    before: { description: "d", listing_visibility: "unauth" },
    read: "/v1/sys/mounts/kv",
    data: (data) => ({ ...data, ...(data["config"] as Fields) }),
    cleared: { description: "", listing_visibility: "" },
  },
  {
    at: "/v1/sys/auth/userpass/tune",
    prepare: enable("userpass"),
    before: { description: "d", token_type: "batch", listing_visibility: "unauth" },
    read: "/v1/sys/auth/userpass",
    data: (data) => ({ ...data, ...(data["config"] as Fields) }),
    cleared: { description: "", token_type: "default-service", listing_visibility: "" },
  },
  {
    at: "/v1/sys/quotas/config",
    before: {
      rate_limit_exempt_paths: ["sys/health"],
      absolute_rate_limit_exempt_paths: ["a/sys/health"],
      enable_rate_limit_response_headers: true,
    },
    cleared: {
      rate_limit_exempt_paths: [],
      absolute_rate_limit_exempt_paths: [],
      enable_rate_limit_response_headers: false,
    },
  },
  {
    at: "/v1/sys/namespaces/team",
    before: { custom_metadata: { a: "b" } },
    cleared: { custom_metadata: {} },
  },
  {
    at: "/v1/sys/sync/destinations/in-mem/d",
    before: {
      custom_tags: { a: "b" },
      allowed_ports: [443],
      disable_strict_networking: true,
      granularity: "secret-key",
    },
    data: (data) => data["options"] as Fields,
    cleared: {
      custom_tags: {},
      allowed_ports: undefined,
      disable_strict_networking: undefined,
    },
  },
];

const inputs = ({ before, fixed = {} }: Row): string[] => Object.keys(before).filter((name) => !(name in fixed));

describe("null in an update", () => {
  it.each(rows.map((row): [string, Row] => [row.at, row]))(
    "clears the fields of %s, in both dialects",
    async (at, row) => {
      const { before, cleared, fixed = {}, read = at, data = (shown: Fields) => shown } = row;
      await row.prepare?.();
      const nulls = { ...Object.fromEntries(inputs(row).map((name) => [name, null])), ...fixed };
      // Fields that the resource requires, too.
      const kept = { ...nulls, ...keptIn(at) };
      for (const options of [vault, undefined]) {
        succeeded(await put(at, before, options));
        succeeded(await put(at, kept, options));
        const shown = data(succeeded(await get(read, options)).body.data);
        for (const [name, value] of Object.entries(cleared)) expect(shown[name] ?? null, name).toEqual(value ?? null);
      }
    },
  );

  it("takes the rights of a user", async () => {
    await put("/v1/sys/auth/userpass", { type: "userpass" });
    await put("/v1/sys/policies/acl/a", { policy: 'path "kv/*" { capabilities = ["read"] }' });
    await put("/v1/auth/userpass/users/ann", { password: "secret-password", policies: ["a"] });
    succeeded(await put("/v1/auth/userpass/users/ann", { policies: null }));
    const { auth } = (await put("/v1/auth/userpass/login/ann", { password: "secret-password" }, { token: null })).body;
    expect(auth.policies).toEqual(["default"]);
  });

  it("is an absent duration, so that no TTL is lifted", async () => {
    await put("/v1/sys/auth/userpass", { type: "userpass" });
    const ttls = { token_ttl: 60, token_max_ttl: 120, token_explicit_max_ttl: 180 };
    await put("/v1/auth/userpass/users/ann", { password: "secret-password", ...ttls });
    const nulls = Object.fromEntries(Object.keys(ttls).map((name) => [name, null]));
    succeeded(await put("/v1/auth/userpass/users/ann", nulls));
    expect((await get("/v1/auth/userpass/users/ann")).body.data).toMatchObject(ttls);
    await mountKv();
    const limits = { default_lease_ttl: 60, max_lease_ttl: 120 };
    await put("/v1/sys/mounts/kv/tune", limits);
    succeeded(await put("/v1/sys/mounts/kv/tune", { default_lease_ttl: null, max_lease_ttl: null }));
    expect((await get("/v1/sys/mounts/kv/tune")).body.data).toMatchObject(limits);
  });

  it("clears the fields of a credentials role and of its engine, under both names", async () => {
    const tenant = await openTenant();
    succeeded(await put("/v1/sys/mounts/azure", { type: "azure" }, vault));
    succeeded(await put("/v1/azure/config", tenant.config, vault));
    const scope = tenant.resource_group;
    const { object_id: application_object_id } = tenant.existing_application;
    const role = { tags: ["a"], metadata: { a: "b" }, ttl: 60, application_object_id };
    const azure_roles = [{ role_name: "Reader", scope }];
    succeeded(await put("/v1/azure/roles/r", { ...role, azure_roles }, vault));
    succeeded(await put("/v1/azure/roles/r", { tags: null, metadata: null, ttl: null, azure_roles: null }, vault));
    const { data } = (await get("/v1/azure/roles/r", vault)).body;
    expect(data).toMatchObject({ azure_roles: [], tags: [], ttl: 60, application_object_id });
    expect(data).not.toHaveProperty("metadata");
    succeeded(await put("/v1/azure/roles/r", { azure_roles, application_object_id: null }, vault));
    expect((await get("/v1/azure/roles/r", vault)).body.data.application_object_id).toBe("");
    const refused = await put("/v1/azure/roles/r", { cloud_roles: null });
    expect([refused.status, refused.text]).toEqual([400, expect.stringContaining("either cloud_roles or application")]);
    const kept = {
      metadata: { a: "b" },
      rotation_period: "720h",
      rotation_grace_period: 60,
      defer_initial_creds: true,
    };
    succeeded(await put("/v1/azure/static-roles/s", { application_object_id, ...kept }));
    const nulls = Object.fromEntries([...Object.keys(kept), "secret_id"].map((name) => [name, null]));
    succeeded(await put("/v1/azure/static-roles/s", nulls));
    const shown = (await get("/v1/azure/static-roles/s")).body.data;
    expect(shown).toMatchObject({ rotation_period: 2_592_000, rotation_grace_period: 60 });
    expect(shown.metadata).toEqual({});
  });

  it("clears the fields of an engine of AWS and of its roles, and brings defaults back", async () => {
    const account = await openAwsAccount();
    await mountAws(account);
    const all = async (at: string, body: Fields) => {
      succeeded(await put(`/v1/aws/${at}`, body));
      return succeeded(await get(`/v1/aws/${at}`)).body.data;
    };
    const { username_template } = await all("config/root", {});
    const set = { region: "eu-west-1", sts_region: "eu-west-1", max_retries: 3, rotation_policy: "p" };
    const at = { sts_fallback_endpoints: ["https://a.example"], sts_fallback_regions: ["eu-west-1"] };
    const config = { ...set, ...at, identity_token_ttl: 60, username_template: "x-{{ random 8 }}" };
    expect(await all("config/root", config)).toMatchObject(config);
    const nulls = Object.fromEntries(Object.keys(config).map((name) => [name, null]));
    expect(await all("config/root", nulls)).toMatchObject({
      region: "",
      sts_region: "",
      max_retries: 0,
      rotation_policy: "",
      sts_fallback_endpoints: [],
      sts_fallback_regions: [],
      identity_token_ttl: 60,
      username_template,
      access_key: account.access_key,
    });
    const user = {
      policy_arns: [account.policy_arn],
      policy_document: '{"Statement":[]}',
      iam_groups: ["developers"],
      iam_tags: { a: "b" },
      user_path: "/a/",
      permissions_boundary_arn: account.boundary_arn,
    };
    expect(await all("roles/user", { credential_type: "iam_user", ...user })).toMatchObject(user);
    expect(await all("roles/user", Object.fromEntries(Object.keys(user).map((name) => [name, null])))).toMatchObject({
      policy_arns: [],
      policy_document: "",
      iam_groups: [],
      iam_tags: {},
      user_path: "",
      permissions_boundary_arn: "",
    });
    const session = { role_arns: [account.role_arn], session_tags: { a: "b" }, external_id: "x1", max_sts_ttl: 3_600 };
    await all("roles/session", { credential_type: "assumed_role", ...session });
    const cleared = { session_tags: null, external_id: null, max_sts_ttl: null, role_arns: null };
    expect(await all("roles/session", cleared)).toMatchObject({
      role_arns: [],
      session_tags: {},
      external_id: "",
      max_sts_ttl: 3_600,
    });
    await account.call({ action: "CreateUser", parameters: { UserName: "worker" } });
    await all("static-roles/app", { username: "worker", rotation_period: 600 });
    const kept = { rotation_period: null, assume_role_arn: null, external_id: null };
    expect(await all("static-roles/app", kept)).toMatchObject({ rotation_period: 600, assume_role_arn: "" });
    expect((await put("/v1/aws/static-roles/app", { username: null })).body.errors).toEqual([
      'missing "username" parameter',
    ]);
  });

  it("clears the fields of an HTTPS producer and of its roles", async () => {
    const { config } = await openProducer();
    succeeded(await put("/v1/sys/mounts/producer", { type: "https-producer" }));
    const all = async (at: string, body: Fields) => {
      succeeded(await put(`/v1/producer/${at}`, body));
      return succeeded(await get(`/v1/producer/${at}`)).body.data;
    };
    await all("config", { ...config, signing_secret: `whsec_${btoa("a key of thirty-two bytes, as is")}` });
    expect(await all("config", { vars: null, signing_secret: null })).toMatchObject({ vars: {} });
    expect((await put("/v1/producer/config", { url: null })).body.errors).toEqual(["url: required"]);
    expect((await put("/v1/producer/config", { secrets: null })).body.errors).toEqual([
      "secrets: the producer needs token",
    ]);
    await all("roles/app", { vars: { project: "1" }, ttl: 60, max_ttl: 120 });
    expect(await all("roles/app", { ttl: null, max_ttl: null })).toMatchObject({ ttl: 60, max_ttl: 120 });
    expect((await put("/v1/producer/roles/app", { vars: null })).body.errors).toEqual([
      "vars: the producer needs project",
    ]);
  });

  it("clears the fields of an engine of Google Cloud and of its roles", async () => {
    const project = await openProject();
    succeeded(await put("/v1/sys/mounts/gcp", { type: "cloud-c" }));
    const all = async (at: string, body: Fields) => {
      succeeded(await put(`/v1/gcp/${at}`, body));
      return succeeded(await get(`/v1/gcp/${at}`)).body.data;
    };
    const config = { ttl: 60, max_ttl: 120, rotation_policy: "p", service_account_email: "a@b.example" };
    expect(await all("config", { ...project.config, ...config })).toMatchObject(config);
    expect(await all("config", Object.fromEntries(Object.keys(config).map((name) => [name, null])))).toMatchObject({
      ttl: 60,
      max_ttl: 120,
      rotation_policy: "",
      service_account_email: "",
    });
    const service_account_email = await project.add("existing");
    const role = { service_account_email, token_scopes: ["https://a.example/scope"], bindings: project.bindings };
    expect(await all("static-account/app", role)).toHaveProperty("bindings");
    expect(await all("static-account/app", { bindings: null })).not.toHaveProperty("bindings");
    for (const kind of ["static-account", "impersonated-account"]) {
      const body = { service_account_email, token_scopes: role.token_scopes };
      await all(`${kind}/app`, body);
      expect((await put(`/v1/gcp/${kind}/app`, { token_scopes: null })).body.errors).toEqual([
        "cannot provide empty token_scopes",
      ]);
    }
  });

  it("is 0 for a check-and-set, which it never turns off", async () => {
    await mountKv();
    succeeded(await put("/v1/kv/data/app", { data: { a: "1" }, options: { cas: null } }));
    expect((await put("/v1/kv/data/app", { data: { a: "2" }, options: { cas: null } })).status).toBe(400);
  });

  itRows([
    ["/v1/sys/mounts/x", { type: "kv", config: { default_lease_ttl: null, force_no_cache: null }, options: null }],
    ["/v1/sys/auth/x", { type: "approle", config: { user_lockout_config: { lockout_threshold: null } } }],
    ["/v1/auth/token/create", { policies: null, meta: null, ttl: null, type: null, id: null, entity_alias: null }],
    ["/v1/identity/entity", { id: null, name: null, policies: null }],
  ])("is an absent member of an object, and an unset field of what is made: %s", async (at, body) => {
    succeeded(await put(at as string, body));
  });

  it("is no way around the limit of a role: 0 uses of a secret id are more than the role allows", async () => {
    await put("/v1/sys/auth/approle", { type: "approle" });
    succeeded(await put("/v1/auth/approle/role/r", { secret_id_num_uses: 3, secret_id_ttl: 60 }));
    const refused = await put("/v1/auth/approle/role/r/secret-id", { num_uses: null });
    expect([refused.status, refused.text]).toEqual([400, expect.stringContaining("num_uses cannot be higher")]);
    const made = succeeded(await put("/v1/auth/approle/role/r/secret-id", { ttl: null, cidr_list: null }));
    expect(made.body.data).toMatchObject({ secret_id_num_uses: 3, secret_id_ttl: 60 });
  });

  itRows([
    ["policies", { policies: null }, { token_policies: [] }],
    ["token-num-uses", { token_num_uses: null }, { token_num_uses: 0 }],
    ["bind-secret-id", { bind_secret_id: null }, { bind_secret_id: false }],
  ])("clears a field of a role that has its own path: %s", async (field, body, shown) => {
    await put("/v1/sys/auth/approle", { type: "approle" });
    const bound = { token_bound_cidrs: ["10.0.0.0/8"] };
    succeeded(await put("/v1/auth/approle/role/r", { token_policies: ["a"], token_num_uses: 5, ...bound }));
    succeeded(await put(`/v1/auth/approle/role/r/${field}`, body));
    expect((await get("/v1/auth/approle/role/r")).body.data).toMatchObject(shown as object);
    expect((await put("/v1/auth/approle/role/r/token-ttl", { token_ttl: null })).status).toBe(400);
  });

  it("changes no setting of a lockout", async () => {
    const at = "/v1/sys/auth/userpass";
    const lockout = { lockout_threshold: 3, lockout_duration: 60, lockout_disable: true };
    await put(at, { type: "userpass", config: { user_lockout_config: lockout } });
    const nulls = Object.fromEntries(Object.keys(lockout).map((name) => [name, null]));
    succeeded(await put(`${at}/tune`, { user_lockout_config: nulls }));
    expect((await get(at)).body.data.config.user_lockout_config).toMatchObject(lockout);
  });

  it("leaves a token renewable, since upstream decodes a pointer", async () => {
    const { auth } = succeeded(await put("/v1/auth/token/create", { ttl: 60, renewable: null })).body;
    expect(auth.renewable).toBe(true);
  });

  it("counts as a parameter in the rules of a policy", async () => {
    await put("/v1/sys/auth/userpass", { type: "userpass" });
    await put("/v1/auth/userpass/users/ann", { password: "secret-password", policies: ["a"] });
    const rule = 'path "auth/userpass/users/ann" { capabilities = ["update"] denied_parameters = { "policies" = [] } }';
    const { client_token: token } = await holderOf(rule);
    expect((await put("/v1/auth/userpass/users/ann", { policies: null }, { token })).status).toBe(403);
    expect((await put("/v1/auth/userpass/users/ann", { token_ttl: null }, { token })).status).toBe(204);
  });
});

/** Fields that an update may not clear. */
function keptIn(at: string): Fields {
  if (at.includes("approle")) return { bind_secret_id: true };
  if (at.includes("kubernetes")) return { bound_service_account_names: ["n"], bound_service_account_namespaces: ["s"] };
  return {};
}
