import { beforeEach, describe, expect, it } from "vitest";
import { type AwsAccount, mountAws, openAwsAccount } from "./aws-helpers.ts";
import { del, get, list, put } from "./client.ts";
import { clock } from "./clock.ts";
import { byItself, revoke, rows, skippingWaits, succeeded } from "./engine-helpers.ts";

clock.moves = true;

/** The engine of AWS against the double of IAM and STS: configuration, roles, sessions and users. */

let account: AwsAccount;
let uuid: string;

beforeEach(async () => {
  account = await openAwsAccount();
  uuid = await mountAws(account);
});

const role = async (name: string, body: Record<string, unknown>) => put(`/v1/aws/roles/${name}`, body);
const errorOf = async (answer: Promise<{ status: number; body: { errors?: string[] } }>) => {
  const { status, body } = await answer;
  return [status, body.errors?.[0]];
};
const issued = async () => (await account.everything()).filter(({ name }) => name !== "sallyport");

describe("config/root", () => {
  it("answers 404 before its first write, and then everything but the secret key", async () => {
    succeeded(await put("/v1/sys/mounts/empty", { type: "aws" }));
    expect((await get("/v1/empty/config/root")).status).toBe(404);
    expect((await put("/v1/empty/config/lease", { lease: "1h", lease_max: "2h" })).status).toBe(204);
    expect((await get("/v1/empty/config/root")).status).toBe(404);
    const { data } = succeeded(await get("/v1/aws/config/root")).body;
    expect(data).toEqual({
      access_key: account.access_key,
      region: "",
      iam_endpoint: account.config["iam_endpoint"],
      sts_endpoint: account.config["sts_endpoint"],
      sts_region: "",
      sts_fallback_endpoints: null,
      sts_fallback_regions: null,
      max_retries: -1,
      username_template: expect.stringContaining("{{ if (eq .Type"),
      role_arn: "",
      identity_token_audience: "",
      identity_token_ttl: 0,
      rotation_schedule: "",
      rotation_window: 0,
      rotation_period: 0,
      rotation_policy: "",
      disable_automated_rotation: false,
    });
    expect((await del("/v1/aws/config/root")).status).toBe(405);
  });

  it("keeps what a write leaves out, except the username template", async () => {
    succeeded(
      await put("/v1/aws/config/root", {
        region: "eu-west-1",
        max_retries: "3",
        username_template: "x-{{ random 8 }}",
      }),
    );
    expect((await get("/v1/aws/config/root")).body.data.username_template).toBe("x-{{ random 8 }}");
    succeeded(await put("/v1/aws/config/root", { rotation_period: "720h" }));
    const { data } = (await get("/v1/aws/config/root")).body;
    expect(data).toMatchObject({ region: "eu-west-1", max_retries: 3, access_key: account.access_key });
    expect(data.username_template).toContain("{{ if (eq .Type");
    expect(data.next_rotation_date).toMatch(/^\d{4}-/);
  });

  it("refuses contradictions in upstream's words", async () => {
    const rows: readonly (readonly [body: Record<string, unknown>, error: string])[] = [
      [
        { sts_fallback_endpoints: "https://a.example" },
        "fallback endpoints and fallback regions must be the same length",
      ],
      [
        { identity_token_audience: "a", role_arn: account.role_arn },
        "only one of 'access_key' or 'identity_token_audience' can be set",
      ],
      [
        { access_key: "", identity_token_audience: "a" },
        "missing required 'role_arn' when 'identity_token_audience' is set",
      ],
      [{ region: "moon" }, "region: must be the name of a region"],
      [
        { iam_endpoint: "https://10.0.0.1" },
        "iam_endpoint: must not be a private address, unless PRIVATE_HOSTS lists it",
      ],
      [{ sts_endpoint: "ftp://a" }, "sts_endpoint: must begin with https://"],
      [
        { sts_fallback_endpoints: "http://a.example", sts_fallback_regions: "eu-west-1" },
        "sts_fallback_endpoints: must begin with https://",
      ],
      [{ username_template: "{{ .Nobody }}" }, "unable to initialize username template: there is no field .Nobody"],
    ];
    for (const [body, error] of rows) {
      expect(await errorOf(put("/v1/aws/config/root", body)), error).toEqual([400, error]);
    }
  });
});

describe("config/lease", () => {
  it("keeps TTLs of users' leases, in the form of Go", async () => {
    expect((await get("/v1/aws/config/lease")).status).toBe(404);
    expect(await errorOf(put("/v1/aws/config/lease", { lease_max: "1h" }))).toEqual([
      400,
      "'lease' is a required parameter",
    ]);
    expect(await errorOf(put("/v1/aws/config/lease", { lease: "1h" }))).toEqual([
      400,
      "'lease_max' is a required parameter",
    ]);
    expect(await errorOf(put("/v1/aws/config/lease", { lease: "soon", lease_max: "1h" }))).toEqual([
      400,
      'Invalid lease: must be a duration such as "1h30m"',
    ]);
    expect((await put("/v1/aws/config/lease", { lease: "30m", lease_max: 7200 })).status).toBe(204);
    expect((await get("/v1/aws/config/lease")).body.data).toEqual({ lease: "30m0s", lease_max: "2h0m0s" });
    succeeded(await role("user", { credential_type: "iam_user" }));
    expect(succeeded(await get("/v1/aws/creds/user")).body.lease_duration).toBe(1_800);
  });
});

describe("roles", () => {
  it("keeps what a write leaves out, clears what it empties, and shows every field", async () => {
    const document = '{ "Version": "2012-10-17",\n "Statement": [] }';
    const { policy_arn, boundary_arn } = account;
    const body = {
      credential_type: "iam_user",
      policy_arns: policy_arn,
      policy_document: document,
      iam_groups: "developers,auditors",
      iam_tags: "team=a",
      user_path: "/apps/",
      permissions_boundary_arn: boundary_arn,
    };
    expect((await role("Full.Name@x", body)).status).toBe(204);
    const shown = {
      credential_type: "iam_user",
      role_arns: null,
      policy_arns: [policy_arn],
      policy_document: '{"Version":"2012-10-17","Statement":[]}',
      iam_groups: ["developers", "auditors"],
      iam_tags: { team: "a" },
      default_sts_ttl: 0,
      max_sts_ttl: 0,
      user_path: "/apps/",
      permissions_boundary_arn: boundary_arn,
      session_tags: null,
      external_id: "",
      mfa_serial_number: "",
    };
    expect((await get("/v1/aws/roles/Full.Name@x")).body.data).toEqual(shown);
    succeeded(await role("Full.Name@x", { iam_groups: "", policy_document: "" }));
    const changed = { ...shown, iam_groups: [], policy_document: "" };
    expect((await get("/v1/aws/roles/Full.Name@x")).body.data).toEqual(changed);
    expect((await list("/v1/aws/roles")).body.data.keys).toEqual(["Full.Name@x"]);
    expect((await get("/v1/aws/roles/full.name@x")).status).toBe(404);
    for (let n = 0; n < 2; n++) expect((await del("/v1/aws/roles/Full.Name@x")).status).toBe(204);
    expect((await list("/v1/aws/roles")).status).toBe(404);
  });

  it("refuses contradictions in upstream's words", async () => {
    const ttl = "parameter only valid for assumed_role, federation_token, and session_token credential types";
    const rows: readonly (readonly [body: Record<string, unknown>, ...problems: string[]])[] = [
      [{}, "did not supply credential_type"],
      [{ credential_type: "root" }, "unrecognized credential type: root"],
      [
        { credential_type: "iam_user", default_sts_ttl: 900, max_sts_ttl: 1_800 },
        `default_sts_ttl ${ttl}`,
        `max_sts_ttl ${ttl}`,
      ],
      [
        { credential_type: "assumed_role", default_sts_ttl: 1_800, max_sts_ttl: 900 },
        '"default_sts_ttl" value must be less than or equal to "max_sts_ttl" value',
      ],
      [
        { credential_type: "assumed_role", user_path: "/a/" },
        "user_path parameter only valid for iam_user credential type",
      ],
      [
        { credential_type: "iam_user", user_path: "a" },
        String.raw`the specified value for user_path is invalid. It must match "^\/([\x21-\x7F]{0,510}\/)?$" regexp`,
      ],
      [
        { credential_type: "assumed_role", permissions_boundary_arn: "arn:aws:iam::aws:policy/x" },
        "cannot supply permissions_boundary_arn when credential_type isn't iam_user",
      ],
      [
        { credential_type: "iam_user", permissions_boundary_arn: "arn:aws:s3:::policy/x" },
        "invalid permissions_boundary_arn parameter: expected a service of iam but got s3",
      ],
      [
        { credential_type: "iam_user", permissions_boundary_arn: "arn:aws:iam::1:role/x" },
        "invalid permissions_boundary_arn parameter: expected a resource type of policy but got role",
      ],
      [
        { credential_type: "session_token", policy_document: "{}" },
        "cannot supply a policy or role when using credential_type session_token",
      ],
      ...["role_arns", "session_tags", "external_id"].map(
        (field) =>
          [
            { credential_type: "federation_token", [field]: "a=b" },
            `cannot supply ${field} when credential_type isn't assumed_role`,
          ] as const,
      ),
    ];
    for (const [body, ...problems] of rows) {
      const count = `${problems.length} error${problems.length > 1 ? "s" : ""} occurred`;
      const text = JSON.stringify(`${count}:\n${problems.map((each) => `\t* ${each}\n`).join("")}\n`);
      expect(await errorOf(role("bad", body)), problems[0]).toEqual([
        400,
        `error(s) validating supplied role data: ${text}`,
      ]);
    }
    expect(await errorOf(role("bad", { credential_type: "iam_user", policy_document: "{" }))).toEqual([
      400,
      "cannot parse policy document: it must be JSON",
    ]);
    expect((await get("/v1/aws/roles/bad")).status).toBe(404);
  });
});

describe("sessions", () => {
  it("of an assumed role end with the session, and need no call to be revoked", async () => {
    succeeded(
      await role("deploy", {
        credential_type: "assumed_role",
        role_arns: account.role_arn,
        policy_arns: account.policy_arn,
        policy_document: '{"Statement":[]}',
        iam_groups: "developers",
        session_tags: "team=a",
        max_sts_ttl: "2h",
      }),
    );
    const { lease_id, lease_duration, renewable, data } = succeeded(await get("/v1/aws/creds/deploy")).body;
    expect([renewable, lease_id.startsWith("aws/creds/deploy/")]).toEqual([false, true]);
    expect(lease_duration).toBeGreaterThan(3_590);
    expect(lease_duration).toBeLessThanOrEqual(3_600);
    expect(data).toEqual({
      access_key: expect.stringMatching(/^ASIA/),
      secret_key: expect.any(String),
      security_token: data.session_token,
      session_token: expect.any(String),
      arn: expect.stringMatching(/:assumed-role\/deploy\/vault-\d{10}-/),
      ttl: lease_duration,
    });
    const calls = (await account.requests()).length;
    expect(await errorOf(put("/v1/sys/leases/renew", { lease_id }))).toEqual([400, "lease is not renewable"]);
    expect((await revoke(lease_id)).status).toBe(204);
    expect(await rows(uuid, "leases")).toEqual([]);
    expect((await account.requests()).length).toBe(calls);
  });

  it("take TTL, role and name from the query or the body, at either path", async () => {
    const { role_arn, guarded_role_arn } = account;
    succeeded(
      await role("two", {
        credential_type: "assumed_role",
        role_arns: [role_arn, guarded_role_arn],
        max_sts_ttl: 7_200,
      }),
    );
    const near = (seconds: number) => expect.toSatisfy((ttl: number) => ttl > seconds - 10 && ttl <= seconds);
    const named = succeeded(await put("/v1/aws/sts/two", { role_arn, ttl: "900s", role_session_name: "a b" })).body;
    expect(named).toMatchObject({ lease_id: expect.stringMatching(/^aws\/sts\/two\//), lease_duration: near(900) });
    expect(named.data.arn).toMatch(/:assumed-role\/deploy\/a_b$/);
    const query = `?role_arn=${encodeURIComponent(role_arn)}&ttl=12h`;
    expect(succeeded(await get(`/v1/aws/creds/two${query}`)).body.lease_duration).toEqual(near(7_200));
    expect(await errorOf(get("/v1/aws/creds/two"))).toEqual([
      400,
      "did not supply a role_arn parameter and unable to determine one",
    ]);
    expect(await errorOf(put("/v1/aws/creds/two", { role_arn: "arn:aws:iam::1:role/other" }))).toEqual([
      400,
      'role_arn "arn:aws:iam::1:role/other" not in allowed role arns for Vault role "two"',
    ]);
    const [status, denied] = await errorOf(put("/v1/aws/sts/two", { role_arn: guarded_role_arn }));
    expect(status).toBe(400);
    expect(denied).toMatch(
      /^Error assuming role: AccessDenied: the account is not authorized to perform: sts:AssumeRole\n\tstatus code: 403, request id: [\w-]+$/,
    );
    expect(await errorOf(put("/v1/aws/sts/two", { role_arn, ttl: 60 }))).toEqual([
      400,
      expect.stringMatching(/^Error assuming role: ValidationError: /),
    ]);
    succeeded(await role("two", { external_id: "outside" }));
    expect((await put("/v1/aws/sts/two", { role_arn: guarded_role_arn })).status).toBe(200);
  });

  it("of a federated user need a policy, and those of a plain session none", async () => {
    succeeded(await role("federated", { credential_type: "federation_token" }));
    expect(await errorOf(get("/v1/aws/sts/federated"))).toEqual([
      400,
      "must specify at least one of policy_arns or policy_document with federation_token credential_type",
    ]);
    succeeded(await role("federated", { policy_arns: account.policy_arn, default_sts_ttl: "1h" }));
    const { data } = succeeded(await get("/v1/aws/sts/federated")).body;
    expect(Object.keys(data)).toEqual(["access_key", "secret_key", "security_token", "session_token", "ttl"]);
    succeeded(await role("plain", { credential_type: "session_token", mfa_serial_number: "arn:aws:iam::1:mfa/a" }));
    expect(succeeded(await put("/v1/aws/sts/plain", { mfa_code: "123456" })).body.data.ttl).toBeGreaterThan(3_500);
    expect((await put("/v1/aws/sts/plain", {})).status).toBe(400);
  });

  it("are answered 400 for a role that does not exist", async () => {
    expect(await errorOf(get("/v1/aws/creds/none"))).toEqual([400, 'Role "none" not found']);
  });

  it("come from the next endpoint of STS while the first does not answer", async () => {
    const [dead, alive] = ["http://127.0.0.1:9", account.config["sts_endpoint"] ?? ""];
    succeeded(
      await put("/v1/aws/config/root", {
        sts_endpoint: dead,
        sts_fallback_endpoints: alive,
        sts_fallback_regions: "eu-west-1",
      }),
    );
    succeeded(await role("deploy", { credential_type: "assumed_role", role_arns: account.role_arn }));
    expect((await get("/v1/aws/sts/deploy")).status).toBe(200);
  });
});

describe("users", () => {
  const user = () => ({
    credential_type: "iam_user",
    policy_arns: [account.policy_arn],
    policy_document: '{"Statement":[]}',
    iam_groups: ["developers", "auditors"],
    iam_tags: { team: "a" },
    user_path: "/apps/",
    permissions_boundary_arn: account.boundary_arn,
  });

  it("get their rights before their key, and everything of them goes with the lease", async () => {
    succeeded(await role("app", user()));
    const { data, lease_id, renewable } = succeeded(await get("/v1/aws/creds/app")).body;
    expect(renewable).toBe(true);
    expect(data).toEqual({ access_key: expect.any(String), secret_key: expect.any(String), session_token: null });
    const [made, ...others] = await issued();
    expect(others).toEqual([]);
    expect(made).toEqual({
      name: expect.stringMatching(/^vault-[\w-]+-app-\d{10}-\w+$/),
      keys: [data.access_key],
      attached: [account.policy_arn],
      inline: ["app"],
      groups: ["auditors", "developers"],
      tags: { team: "a", sallyport: expect.any(String) },
    });
    const calls = (await account.requests()).map(({ operation }) => operation);
    expect([calls[0], calls.at(-1)]).toEqual(["CreateUser", "CreateAccessKey"]);
    expect((await revoke(lease_id)).status).toBeLessThan(300);
    await byItself(uuid, async () => expect(await issued()).toEqual([]));
  });

  it("are removed with everything that others have added to them", async () => {
    succeeded(await role("app", user()));
    const { lease_id } = succeeded(await get("/v1/aws/creds/app")).body;
    const [{ name = "" } = {}] = await issued();
    for (const [add, id] of [
      ["login", name],
      ["mfa", "arn:aws:iam::1:mfa/x"],
      ["ssh", "APKAQQQQQQQQQQQQQQQQ"],
      ["certificate", "CERTQQQQQQQQQQQQQQQQQQQQ"],
      ["service", "ACCAQQQQQQQQQQQQQQQQ"],
    ] as const) {
      await account.call({ add, user: name, id });
    }
    await account.call({ action: "CreateAccessKey", parameters: { UserName: name } });
    await account.call({
      action: "AttachUserPolicy",
      parameters: { UserName: name, PolicyArn: "arn:aws:iam::aws:policy/PowerUserAccess" },
    });
    await revoke(lease_id);
    await byItself(uuid, async () => expect([await issued(), await rows(uuid, "jobs")]).toEqual([[], []]));
  });

  it("are verified until their key works, and answered with a warning when it does not", async () => {
    succeeded(await role("app", { credential_type: "iam_user" }));
    await account.lags({ userMs: 600, keyMs: 1_500 });
    expect(succeeded(await get("/v1/aws/creds/app?verify=true")).body.warnings).toBeNull();
    await account.lags({ userMs: 0, keyMs: 600_000 });
    // Between two logins with the new key lies half a second.
    const { body } = succeeded(await skippingWaits(() => put("/v1/aws/creds/app", { verify: true }), 500));
    expect(body.warnings).toEqual([
      expect.stringMatching(/^the credentials cannot be used yet: InvalidClientTokenId: /),
    ]);
    const calls = (await account.requests()).filter(({ operation }) => operation === "GetCallerIdentity");
    expect(calls.length).toBeGreaterThan(20);
  });

  it("are undone when a right cannot be given", async () => {
    succeeded(await role("app", { credential_type: "iam_user", policy_arns: "arn:aws:iam::aws:policy/Nothing" }));
    expect(await errorOf(get("/v1/aws/creds/app"))).toEqual([
      400,
      expect.stringMatching(/^Error attaching user policy: NoSuchEntity: /),
    ]);
    succeeded(await role("app", { policy_arns: "", permissions_boundary_arn: "arn:aws:iam::1:policy/Nothing" }));
    expect(await errorOf(get("/v1/aws/creds/app"))).toEqual([
      400,
      expect.stringMatching(/^Error creating IAM user: NoSuchEntity: /),
    ]);
    await byItself(uuid, async () => expect([await issued(), await rows(uuid, "jobs")]).toEqual([[], []]));
  });

  it("are named by the template, within what IAM accepts", async () => {
    succeeded(await role("app", { credential_type: "iam_user" }));
    const template = "{{ .PolicyName | uppercase }}-{{ random 6 }}";
    succeeded(await put("/v1/aws/config/root", { username_template: template }));
    succeeded(await get("/v1/aws/creds/app"));
    expect((await issued())[0]?.name).toMatch(/^APP-\w{6}$/);
    succeeded(await put("/v1/aws/config/root", { username_template: "{{ random 65 }}" }));
    expect(await errorOf(get("/v1/aws/creds/app"))).toEqual([
      400,
      "the username generated by the template exceeds the IAM username length limits of 64 chars",
    ]);
  });
});

describe("config/rotate-root", () => {
  it("answers the new key, uses it, and deletes the one before", async () => {
    await account.lags({ keyMs: 2_000 });
    const { access_key } = succeeded(await put("/v1/aws/config/rotate-root", {})).body.data;
    expect(access_key).not.toBe(account.access_key);
    expect((await get("/v1/aws/config/root")).body.data.access_key).toBe(access_key);
    await byItself(uuid, async () => expect((await account.everything())[0]?.keys).toEqual([access_key]));
    succeeded(await role("app", { credential_type: "iam_user" }));
    succeeded(await get("/v1/aws/creds/app"));
  });

  it("is refused without a key, and when the user has two already", async () => {
    await account.call({ action: "CreateAccessKey", parameters: { UserName: "sallyport" } });
    expect(await errorOf(put("/v1/aws/config/rotate-root", {}))).toEqual([
      400,
      expect.stringMatching(/^Error creating access keys: LimitExceeded: /),
    ]);
    expect((await account.everything())[0]?.keys).toHaveLength(2);
    succeeded(await put("/v1/aws/config/root", { access_key: "" }));
    expect(await errorOf(put("/v1/aws/config/rotate-root", {}))).toEqual([
      400,
      "Cannot call config/rotate-root when either access_key or secret_key is empty",
    ]);
  });
});

describe("a login with identity tokens", () => {
  it("assumes the role, and serves no type that the provider issues to keys only", async () => {
    const { role_arn, config } = account;
    const audience = "sts.amazonaws.com";
    succeeded(
      await put("/v1/aws/config/root", {
        access_key: "",
        secret_key: "",
        identity_token_audience: audience,
        identity_token_ttl: "10m",
        role_arn: `arn:aws:iam::${account.account}:role/engine`,
        sts_endpoint: config["sts_endpoint"] ?? "",
      }),
    );
    const { accessor } = (await get("/v1/sys/mounts/aws")).body.data;
    const documents = "/v1/identity/oidc/plugins/.well-known";
    const { issuer } = (await get(`${documents}/openid-configuration`, { token: null })).body;
    const keys = (await get(`${documents}/keys`, { token: null })).body;
    const subject = `plugin-identity:root:secret:${accessor}`;
    await account.trust({ arn: `arn:aws:iam::${account.account}:role/engine`, issuer, subject, audience, keys });
    succeeded(await role("deploy", { credential_type: "assumed_role", role_arns: role_arn }));
    expect(succeeded(await get("/v1/aws/sts/deploy")).body.data.arn).toContain(":assumed-role/deploy/");
    succeeded(await role("app", { credential_type: "iam_user" }));
    succeeded(await get("/v1/aws/creds/app"));
    const [status, error] = await errorOf(role("plain", { credential_type: "session_token" }));
    expect([status, error]).toEqual([
      400,
      expect.stringMatching(/^credential_type: session_token is not possible here/),
    ]);
  });
});
