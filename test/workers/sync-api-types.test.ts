import { env } from "cloudflare:workers";
import { generateKeyPairSync } from "node:crypto";
import { beforeAll, beforeEach, describe, expect, it } from "vitest";
import { settings } from "../../src/platform/settings.ts";
import { itRows } from "../support/rows.ts";
import { get, patch, put } from "./client.ts";
import { makeDestination } from "./sync-helpers.ts";

/** The fields that each destination type accepts and shows. */

const AT = "/sys/sync/destinations";
const pemOf = () =>
  generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey.export({ type: "pkcs8", format: "pem" }).toString();
const key = (changes: object = {}) => ({
  type: "service_account",
  client_email: "sync@acme-prod.iam.gserviceaccount.com",
  private_key: pem,
  project_id: "acme-prod",
  ...changes,
});
const pem = pemOf();
const credentials = JSON.stringify(key());
const role = "arn:aws:iam::123456789012:role/sync";

interface Case {
  /** The least that makes one. */
  readonly least: Record<string, unknown>;
  /** The expected read of it. */
  readonly leastShown: Record<string, unknown>;
  /** Every field. */
  readonly all: Record<string, unknown>;
  readonly allShown: Record<string, unknown>;
  readonly granularity: string;
  readonly template: string;
  readonly keyTemplate: string;
  readonly tags: boolean;
  /** Without one of these there is no destination. */
  readonly required: readonly string[];
  readonly immutable: Record<string, unknown>;
  /** Fields that may change, and to what. */
  readonly mutable: Record<string, unknown>;
  /** Optional fields that an empty text clears. */
  readonly clearable: readonly string[];
}

const slashes = "vault/{{ .MountAccessor }}/{{ .SecretPath }}";
const common = { secret_name_template: "x-{{ .SecretPath }}", granularity: "secret-path" };

const cases: Record<string, Case> = {
  "cloud-a-sm": {
    least: { region: "eu-west-1", access_key_id: "AKIA1", secret_access_key: "s1" },
    leastShown: { region: "eu-west-1", access_key_id: "*****", secret_access_key: "*****" },
    all: {
      access_key_id: "AKIA1",
      secret_access_key: "s1",
      role_arn: role,
      external_id: "ext-1",
      region: "eu-west-1",
      kms_key_id: "alias/a",
      replica_regions: { "eu-north-1": "" },
      ...common,
    },
    allShown: {
      access_key_id: "*****",
      secret_access_key: "*****",
      role_arn: role,
      external_id: "ext-1",
      region: "eu-west-1",
      kms_key_id: "alias/a",
      replica_regions: { "eu-north-1": "" },
    },
    granularity: "secret-path",
    template: slashes,
    keyTemplate: `${slashes}/{{ .SecretKey }}`,
    tags: true,
    required: ["region"],
    immutable: { region: "us-east-1" },
    mutable: { role_arn: "arn:aws:iam::123456789012:role/other", external_id: "ext-2", secret_access_key: "s2" },
    clearable: ["role_arn", "external_id", "kms_key_id", "replica_regions"],
  },
  "cloud-b-kv": {
    least: { key_vault_uri: "https://acme-eu.vault.azure.net", client_id: "c", client_secret: "s", tenant_id: "t" },
    leastShown: {
      key_vault_uri: "https://acme-eu.vault.azure.net",
      client_id: "c",
      client_secret: "*****",
      tenant_id: "t",
    },
    all: {
      key_vault_uri: "https://acme-eu.vault.usgovcloudapi.net/",
      client_id: "c",
      client_secret: "s",
      tenant_id: "t",
      cloud: "azureusgovernment",
      ...common,
    },
    allShown: {
      key_vault_uri: "https://acme-eu.vault.usgovcloudapi.net/",
      client_id: "c",
      client_secret: "*****",
      tenant_id: "t",
      cloud: "azureusgovernment",
    },
    granularity: "secret-path",
    template: 'vault-{{ .MountAccessor | replace "_" "-" }}-{{ .SecretPath }}',
    keyTemplate: 'vault-{{ .MountAccessor | replace "_" "-" }}-{{ .SecretPath }}-{{ .SecretKey }}',
    tags: true,
    required: ["key_vault_uri", "client_id", "client_secret", "tenant_id"],
    immutable: { key_vault_uri: "https://other.vault.azure.net", tenant_id: "t2", cloud: "AzureChinaCloud" },
    mutable: { client_id: "c2", client_secret: "s2" },
    clearable: [],
  },
  "cloud-c-sm": {
    least: { credentials },
    leastShown: { credentials: "*****" },
    all: { credentials, project_id: "acme-prod", ...common },
    allShown: { credentials: "*****", project_id: "acme-prod" },
    granularity: "secret-path",
    template: slashes,
    keyTemplate: `${slashes}/{{ .SecretKey }}`,
    tags: true,
    required: ["credentials"],
    immutable: { project_id: "other-project" },
    mutable: { credentials: JSON.stringify(key({ client_email: "other@acme-prod.iam.gserviceaccount.com" })) },
    clearable: ["project_id"],
  },
  "repo-host": {
    least: { access_token: "ghp_1", repository_owner: "acme", repository_name: "web" },
    leastShown: {
      access_token: "*****",
      repository_owner: "acme",
      repository_name: "web",
    },
    all: {
      access_token: "ghp_1",
      app_name: "bot",
      installation_id: "4711",
      environment_name: "production",
      repository_owner: "acme",
      repository_name: "web",
      secrets_location: "repository",
      ...common,
    },
    allShown: {
      access_token: "*****",
      app_name: "bot",
      app_config: { app_name: "bot" },
      installation_id: 4711,
      repository_owner: "acme",
      repository_name: "web",
      environment_name: "production",
      secrets_location: "repository",
    },
    granularity: "secret-key",
    template: "VAULT_{{ .MountAccessor | uppercase }}_{{ .SecretPath | uppercase }}",
    keyTemplate: "VAULT_{{ .MountAccessor | uppercase }}_{{ .SecretPath | uppercase }}_{{ .SecretKey | uppercase }}",
    tags: false,
    required: ["access_token", "repository_owner", "repository_name"],
    immutable: {
      repository_owner: "other",
      repository_name: "api",
      environment_name: "staging",
      secrets_location: "organization",
    },
    mutable: { access_token: "ghp_2" },
    clearable: [],
  },
  "deploy-project": {
    least: { access_token: "t1", project_id: "prj_1", deployment_environments: ["production"] },
    leastShown: { access_token: "*****", project_id: "prj_1", deployment_environments: ["production"] },
    all: {
      access_token: "t1",
      project_id: "prj_1",
      team_id: "team_1",
      deployment_environments: "production,development,preview",
      ...common,
    },
    allShown: {
      access_token: "*****",
      project_id: "prj_1",
      team_id: "team_1",
      deployment_environments: ["production", "development", "preview"],
    },
    granularity: "secret-key",
    template: slashes,
    keyTemplate: `${slashes}/{{ .SecretKey }}`,
    tags: false,
    required: ["access_token", "project_id", "deployment_environments"],
    immutable: { project_id: "prj_2" },
    mutable: { access_token: "t2", team_id: "team_2", deployment_environments: ["preview"] },
    clearable: ["team_id"],
  },
  "in-mem": {
    least: {},
    leastShown: {},
    all: common,
    allShown: {},
    granularity: "secret-path",
    template: slashes,
    keyTemplate: `${slashes}/{{ .SecretKey }}`,
    tags: true,
    required: [],
    immutable: {},
    mutable: {},
    clearable: [],
  },
};

const misunderstood: readonly [body: object, text: string][] = [
  [{ granularity: "secret-mount" }, "granularity: must be secret-path or secret-key"],
  [{ update_policy: "never" }, "update_policy: must be replace, if-not-exists or owned-only"],
  [{ deletion_policy: "keep" }, "deletion_policy: must be delete or retain"],
  [{ secret_name_template: 5 }, "secret_name_template: must be a text"],
  [{ secret_name_template: "{{ .Nope }}" }, "secret name template is invalid: "],
  [{ secret_name_template: "{{ .SecretPath" }, "secret name template is invalid: "],
  [{ secret_name_template: "{{ uuid }}" }, "secret name template is invalid: "],
  [
    { granularity: "secret-key", secret_name_template: "x/{{ .SecretPath }}" },
    "secret name template is invalid: external name template should contain reference to the secret key",
  ],
  [
    { granularity: "secret-path", secret_name_template: "x/{{ .SecretPath }}/{{ .SecretKey }}" },
    "secret name template is invalid: external name template should not contain reference to the secret key",
  ],
  [{ custom_tags: 5 }, "custom_tags: "],
  [{ custom_tags: { a: ["1"] } }, "custom_tags"],
];

let appKey = "";
beforeAll(() => {
  appKey = pemOf();
});
beforeEach(async () => {
  await put("/sys/sync/repo-host-apps/bot", { app_id: 1, private_key: appKey });
});

describe.each(Object.entries(cases))("a destination of type %s", (type, given) => {
  const at = `${AT}/${type}/d`;
  const details = async () => (await get(at)).body.data.connection_details;
  const refusal = async (answer: ReturnType<typeof put>) => {
    const { status, body } = await answer;
    return [status, body.errors?.join("\n")];
  };

  // Proves: B.cloud-c-sm.project_id, B.deploy-project.team_id, B.dest.custom_tags.type, E.conv.empty-default
  it("is created from the required fields with its type's defaults", async () => {
    const made = await makeDestination(type, "d", given.least);
    const data = {
      name: "d",
      type,
      connection_details: given.leastShown,
      options: {
        granularity_level: given.granularity,
        secret_name_template: given.granularity === "secret-path" ? given.template : given.keyTemplate,
        custom_tags: {},
        update_policy: "replace",
        deletion_policy: "delete",
      },
    };
    expect([made.body.data, made.body.warnings]).toEqual([data, null]);
    expect((await get(at)).body.data).toEqual(data);
  });

  // Proves: B.deploy-project.deployment_environments.values
  it("shows every field that was given, sensitive ones masked", async () => {
    await makeDestination(type, "d", { ...given.all, update_policy: "owned-only", deletion_policy: "retain" });
    const { connection_details, options } = (await get(at)).body.data;
    expect(connection_details).toEqual(given.allShown);
    expect(options).toEqual({
      granularity_level: "secret-path",
      secret_name_template: "x-{{ .SecretPath }}",
      custom_tags: {},
      update_policy: "owned-only",
      deletion_policy: "retain",
    });
  });

  // Proves: B.cloud-a-sm.granularity, B.cloud-b-kv.granularity, B.cloud-c-sm.granularity,
  // B.deploy-project.granularity, B.dest.granularity.type, B.repo-host.granularity
  it("has the default template of its granularity", async () => {
    for (const [granularity, template] of [
      ["secret-key", given.keyTemplate],
      ["secret-path", given.template],
    ]) {
      const { options } = (await makeDestination(type, "d", { ...given.least, granularity })).body.data;
      expect(options).toMatchObject({ granularity_level: granularity, secret_name_template: template });
    }
  });

  it("keeps fields that a write leaves out or sends back as shown", async () => {
    await makeDestination(type, "d", given.least);
    const before = await details();
    expect((await makeDestination(type, "d", {})).body.data.connection_details).toEqual(before);
    const { app_config: _, ...shown } = before;
    expect((await makeDestination(type, "d", shown)).body.data.connection_details).toEqual(before);
    for (const [field, value] of Object.entries(given.mutable)) {
      const kept = await details();
      const changed = (await makeDestination(type, "d", { [field]: value })).body.data.connection_details;
      expect(changed).toEqual({ ...kept, [field]: changed[field] === "*****" ? "*****" : value });
    }
  });

  // Proves: B.deploy-project.team_id
  it("clears an optional field with an empty value, or null in a patch", async () => {
    for (const field of given.clearable) {
      await makeDestination(type, "d", given.all);
      expect(Object.keys(await details())).toContain(field);
      await makeDestination(type, "d", { [field]: "" });
      expect(Object.keys(await details())).not.toContain(field);
      await makeDestination(type, "d", given.all);
      expect((await patch(at, { [field]: null })).status).toBe(200);
      expect(Object.keys(await details())).not.toContain(field);
    }
  });

  // Proves: B.cloud-b-kv.client_id, B.cloud-b-kv.client_secret, B.cloud-b-kv.key_vault_uri, B.cloud-b-kv.tenant_id,
  // B.cloud-c-sm.credentials, B.deploy-project.access_token, B.deploy-project.deployment_environments,
  // B.deploy-project.project_id, B.repo-host.repository_name, B.repo-host.repository_owner
  it("returns 400 with the name of a missing required field", async () => {
    for (const field of given.required) {
      const { [field]: _, ...rest } = given.least;
      const unset = type === "cloud-a-sm" ? { ...rest, region: "Moon" } : rest;
      expect(await refusal(put(at, unset)), field).toEqual([400, expect.stringContaining(field)]);
      expect(await refusal(put(at, { ...rest, [field]: "" })), field).toEqual(
        // Elsewhere the region falls back on the deployment's.
        type === "cloud-a-sm" ? [400, expect.stringContaining("region")] : [400, expect.stringContaining(field)],
      );
    }
    expect((await get(at)).status).toBe(404);
  });

  it("returns 400 for a change of an immutable field, with POST and PATCH", async () => {
    await makeDestination(type, "d", given.least);
    const before = (await get(at)).body.data;
    for (const [field, value] of Object.entries(given.immutable)) {
      const more = field === "secrets_location" ? { organization_name: "acme", organization_visibility: "all" } : {};
      const gone = field === "secrets_location" ? { repository_owner: "", repository_name: "" } : {};
      const changed = { [field]: value, ...more, ...gone };
      expect(await refusal(put(at, changed)), field).toEqual([400, expect.stringContaining("cannot be updated")]);
      expect(await refusal(patch(at, changed)), field).toEqual([400, expect.stringContaining("cannot be updated")]);
      if (field !== "secrets_location") {
        expect((await put(at, changed)).body.errors[0]).toContain(`field "${field}" cannot be updated`);
      }
    }
    expect((await get(at)).body.data).toEqual(before);
  });

  it(given.tags ? "takes tags, as a map or as texts" : "takes no tags, and says so", async () => {
    if (given.tags) {
      for (const custom_tags of [{ a: "1", b: "2" }, ["a=1", "b=2"], "a=1,b=2", '{"a":"1","b":2}']) {
        const { options } = (await makeDestination(type, "d", { ...given.least, custom_tags })).body.data;
        expect(options.custom_tags).toEqual({ a: "1", b: "2" });
      }
      return;
    }
    const text = `custom_tags: a destination of type ${type} takes no tags`;
    expect(await refusal(put(at, { ...given.least, custom_tags: { a: "1" } }))).toEqual([400, text]);
    expect((await get(at)).status).toBe(404);
    expect((await makeDestination(type, "d", { ...given.least, custom_tags: {} })).status).toBe(200);
    expect(await refusal(patch(at, { custom_tags: { a: "1" } }))).toEqual([400, text]);
  });

  // Proves: B.dest.granularity.type
  it("returns 400 with the name of an invalid field", async () => {
    for (const [body, text] of misunderstood) {
      const told = await refusal(put(at, { ...given.least, ...body }));
      expect(told, JSON.stringify(body)).toEqual([400, expect.stringContaining(text)]);
    }
    expect((await get(at)).status).toBe(404);
  });

  it("warns of unknown fields, and of names that may collide", async () => {
    const template = type === "repo-host" ? "X_{{ .SecretKey }}" : "x/{{ .SecretBaseName }}/{{ .SecretKey }}";
    const made = await makeDestination(type, "d", {
      ...given.least,
      zebra: 1,
      apple: null,
      Region: "x",
      purge: false,
      tags_to_remove: ["a"],
      name: "d",
      granularity: "secret-key",
      secret_name_template: template,
    });
    expect(made.body.warnings).toEqual([
      "secret name template does not refer to .SecretPath: different secrets may get the same external name",
      "Endpoint ignored these unrecognized parameters: [Region zebra]",
      ...(type === "cloud-a-sm" ? ["Region: did you mean region?"] : []),
    ]);
    expect((await get(at)).body.warnings).toBeNull();
  });

  // Proves: B.cloud-b-kv.secret_name_template, B.cloud-c-sm.secret_name_template,
  // B.deploy-project.secret_name_template, B.dest.granularity.type, B.repo-host.secret_name_template
  it("restores a type's default with an empty text, or null in a patch", async () => {
    const custom = {
      granularity: given.granularity === "secret-path" ? "secret-key" : "secret-path",
      update_policy: "owned-only",
      deletion_policy: "retain",
    };
    const options = async () => (await get(at)).body.data.options;
    const defaults = { granularity_level: given.granularity, update_policy: "replace", deletion_policy: "delete" };
    const fields = ["granularity", "update_policy", "deletion_policy", "secret_name_template"];
    await makeDestination(type, "d", { ...given.least, ...custom });
    expect(await options()).not.toMatchObject(defaults);
    await makeDestination(type, "d", Object.fromEntries(fields.map((field) => [field, ""])));
    expect(await options()).toMatchObject(defaults);
    await makeDestination(type, "d", custom);
    const patched = await patch(at, Object.fromEntries(fields.map((field) => [field, null])));
    expect(patched.status, patched.text).toBe(200);
    expect(await options()).toMatchObject(defaults);
  });
});

describe("cloud-a-sm", () => {
  const at = `${AT}/cloud-a-sm/d`;
  const { least } = cases["cloud-a-sm"] as Case;
  it("allows a change of the role within its account only", async () => {
    await makeDestination("cloud-a-sm", "d", { ...least, role_arn: role });
    const other = "arn:aws:iam::999999999999:role/sync";
    const refused = await put(at, { role_arn: other });
    expect([refused.status, refused.body.errors]).toEqual([
      400,
      ["role_arn must stay in the account 123456789012; another account is another destination"],
    ]);
    expect((await patch(at, { role_arn: other })).status).toBe(400);
    expect((await get(at)).body.data.connection_details.role_arn).toBe(role);
    expect((await patch(at, { role_arn: "arn:aws:iam::123456789012:role/b" })).status).toBe(200);
  });
});

describe("cloud-b-kv", () => {
  const at = `${AT}/cloud-b-kv/d`;
  const { least } = cases["cloud-b-kv"] as Case;
  itRows([
    ["http://acme-eu.vault.azure.net", "key_vault_uri: must begin with https://"],
    ["https://acme-eu.vault.azure.net/secrets", "key_vault_uri: must be the address of the vault alone"],
    ["https://acme-eu.vault.azure.net?x=1", "key_vault_uri: must be the address of the vault alone"],
    ["https://u:p@acme-eu.vault.azure.net", "key_vault_uri: must not hold credentials"],
    ["https://evil.example", "key_vault_uri: the host must be a vault of AzurePublicCloud"],
    ["https://vault.azure.net.evil.example", "key_vault_uri: the host must be a vault of AzurePublicCloud"],
    ["https://acme-eu.vault.usgovcloudapi.net", "key_vault_uri: the host must be a vault of AzurePublicCloud"],
    ["acme-eu", "key_vault_uri: must be a URL"],
  ])("sends tokens to vaults of its cloud only, not to %s", async (key_vault_uri, text) => {
    const refused = await put(at, { ...least, key_vault_uri });
    expect([refused.status, refused.body.errors]).toEqual([400, [expect.stringContaining(text)]]);
  });

  it("also to hosts that the deployment lists, where http is for loopback", async () => {
    expect(settings(env).SYNC_ALLOWED_HOSTS?.split(" ")).toContain("127.0.0.1");
    for (const key_vault_uri of ["https://127.0.0.1", "http://127.0.0.1:8200"]) {
      const made = await put(`${AT}/cloud-b-kv/${key_vault_uri.length}`, { ...least, key_vault_uri });
      expect([made.status, made.body.data.connection_details.key_vault_uri]).toEqual([200, key_vault_uri]);
    }
  });

  it("accepts another spelling of an immutable value, and returns the newest", async () => {
    await makeDestination("cloud-b-kv", "d", least);
    const same = { key_vault_uri: "https://ACME-eu.vault.azure.net/", cloud: "azurecloud" };
    expect((await makeDestination("cloud-b-kv", "d", same)).body.data.connection_details).toMatchObject(same);
    const refused = await put(`${AT}/cloud-b-kv/e`, { ...least, cloud: "moon" });
    expect([refused.status, refused.body.errors[0]]).toEqual([400, expect.stringContaining("cloud: must be one of")]);
  });
});

describe("the credentials of cloud-c-sm", () => {
  const at = `${AT}/cloud-c-sm/d`;
  const bucket = env.FILES as R2Bucket;

  // Proves: B.cloud-c-sm.credentials
  it("are accepted as an object, as text, or in a file of the namespace", async () => {
    await bucket.put("gcp.json", credentials);
    await bucket.put("team/gcp.json", credentials);
    await put("/v1/sys/namespaces/team", {});
    for (const given of [key(), credentials, "@gcp.json", "@/gcp.json"]) {
      const made = await put(at, { credentials: given });
      expect([made.status, made.body.data?.connection_details], made.text).toEqual([200, { credentials: "*****" }]);
    }
    const inside = await put(at, { credentials: "@gcp.json" }, { headers: { "X-Orch-Namespace": "team" } });
    expect(inside.status, inside.text).toBe(200);
    expect((await patch(at, { credentials: "@gcp.json" })).status).toBe(200);
  });

  it("return 400 with the key of an absent file", async () => {
    const refused = await put(at, { credentials: "@nope.json" });
    expect([refused.status, refused.body.errors]).toEqual([400, [expect.stringContaining("nope.json")]]);
    expect((await get(at)).status).toBe(404);
  });

  itRows([
    ["{", "credentials: must be the JSON content of a service account's key file"],
    [{ type: "authorized_user" }, "credentials: must be the key of a service account"],
    [key({ private_key: "x" }), "credentials: private_key must be an RSA key"],
    [key({ client_email: 5 }), "credentials: client_email must be"],
  ])("that are invalid are refused with the cause (%#)", async (given, text) => {
    const refused = await put(at, { credentials: given });
    expect([refused.status, refused.body.errors?.[0]]).toEqual([400, expect.stringContaining(text)]);
    expect(refused.text).not.toContain("-----BEGIN");
  });

  it("require a project unless project_id is set, and another key must be for the same", async () => {
    const bare = key({ project_id: undefined });
    expect((await put(at, { credentials: bare })).body.errors[0]).toContain("project_id: is required");
    await makeDestination("cloud-c-sm", "d", { credentials: bare, project_id: "acme-prod" });
    expect((await put(at, { credentials: key() })).status).toBe(200);
    const other = await put(at, { project_id: "", credentials: key({ project_id: "other-project" }) });
    expect([other.status, other.body.errors[0]]).toEqual([
      400,
      expect.stringContaining('field "project_id" cannot be updated'),
    ]);
  });
});

describe("repo-host", () => {
  const at = `${AT}/repo-host/d`;
  const place = { repository_owner: "acme", repository_name: "web" };
  // Proves: B.repo-host.access_token, B.repo-host.installation_id
  itRows([
    [{ ...place, app_name: "bot" }, "installation_id: app_name and installation_id must be given together"],
    [{ ...place, installation_id: 7 }, "app_name: app_name and installation_id must be given together"],
    [place, "access_token: access_token, or app_name with installation_id, is required"],
    [{ access_token: "t", repository_owner: "a/b", repository_name: "web" }, "repository_owner: must be"],
    [{ access_token: "t", repository_owner: "a", repository_name: "o/web" }, "repository_name: must be"],
    [{ access_token: "t", ...place, secrets_location: "environment" }, "secrets_location: must be"],
    [{ access_token: "t", secrets_location: "organization" }, "organization_name: is required"],
    [{ access_token: "t", ...place, organization_name: "acme" }, "organization_name: is only for"],
    [
      {
        access_token: "t",
        secrets_location: "organization",
        organization_name: "acme",
        organization_visibility: "selected",
      },
      "selected_repository_names: is required",
    ],
    [{ access_token: "t", ...place, enterprise_url: "https://evil.example" }, "enterprise_url"],
  ])("is refused by the field's name (%#)", async (body, text) => {
    const refused = await put(at, body);
    expect([refused.status, refused.body.errors[0]]).toEqual([400, expect.stringContaining(text)]);
  });

  it("may be an organization's", async () => {
    const made = await makeDestination("repo-host", "d", {
      access_token: "t",
      secrets_location: "organization",
      organization_name: "acme",
      organization_visibility: "selected",
      selected_repository_names: "web,api,web",
    });
    expect(made.body.data.connection_details).toEqual({
      access_token: "*****",
      secrets_location: "organization",
      organization_name: "acme",
      organization_visibility: "selected",
      selected_repository_names: ["web", "api"],
    });
    for (const [field, value] of [
      ["organization_name", "other"],
      ["organization_visibility", "all"],
      ["selected_repository_names", ["web"]],
    ] as const) {
      const more = field === "organization_visibility" ? { selected_repository_names: [] } : {};
      const refused = await put(at, { [field]: value, ...more });
      expect([refused.status, refused.body.errors[0]]).toEqual([400, `field "${field}" cannot be updated`]);
    }
  });
});

describe("deploy-project", () => {
  // Proves: B.deploy-project.deployment_environments.values
  itRows([[["staging"]], [[]], [["production", "staging"]], ["production,moon"]])(
    "writes to development, preview and production, and refuses %j",
    async (deployment_environments) => {
      const { least } = cases["deploy-project"] as Case;
      const refused = await put(`${AT}/deploy-project/d`, { ...least, deployment_environments });
      expect([refused.status, refused.body.errors]).toEqual([
        400,
        ["deployment_environments: must name one or more of development, preview, production"],
      ]);
    },
  );
});
