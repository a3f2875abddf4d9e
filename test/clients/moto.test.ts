import { type ChildProcess, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { AwsClient } from "aws4fetch";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { cloneOfWorkingTree, freePort, LocalService, remove } from "../smoke/local-service.ts";
import { pythonPackage } from "./python.ts";

/*
 * Moto's AWS, a judge that is not ours: with authentication on, it checks each signature with botocore and each action
 * against the caller's policies. The users have the rights that our pages name, and no other ones.
 */

const MOTO = "moto[server,iam,sts,secretsmanager,ssm]==5.2.5";
const ACCOUNT = "123456789012";
const REGION = "eu-west-1";
const S3_POLICY = policy(["s3:GetObject"]);

const { dir, ...moto } = pythonPackage(MOTO);
const missing = process.env["LONG_TESTS"] === "1" ? moto.missing : "npm run test:long tries it";
if (missing !== null) console.warn(`The service is not tried against moto: ${missing}.`);

function policy(actions: readonly string[]): string {
  return JSON.stringify({
    Version: "2012-10-17",
    Statement: [{ Effect: "Allow", Action: actions, Resource: "*" }],
  });
}

/** The actions that lines of a page name between backticks. */
const actionsIn = (lines: readonly string[], prefix = ""): string[] =>
  lines.flatMap((line) =>
    [...line.matchAll(/`([a-z]+:)?([A-Z][A-Za-z]+)`/g)].map(([, own, name]) => `${own ?? prefix}${name}`),
  );

const page = (name: string): string[] => readFileSync(`docs/guides/${name}.md`, "utf8").split("\n");
const permissionsOf = (type: string): string[] => {
  const lines = page("sync");
  return lines.slice(lines.indexOf("## Permissions")).filter((line) => line.startsWith(`| \`${type}\` |`));
};

describe.runIf(missing === null)("AWS as moto plays it", { timeout: 300_000 }, () => {
  const clone = cloneOfWorkingTree();
  let server: ChildProcess;
  let service: LocalService;
  let url = "";
  let administrator: AwsClient;

  /** A call of the Query protocol. */
  async function query(
    api: "iam" | "sts",
    Action: string,
    parameters: Record<string, string> = {},
    by = administrator,
  ) {
    const body = new URLSearchParams({ Action, Version: api === "iam" ? "2010-05-08" : "2011-06-15", ...parameters });
    const answer = await by.fetch(url, {
      method: "POST",
      body: String(body).replaceAll("*", "%2A"),
      headers: { "content-type": "application/x-www-form-urlencoded" },
      aws: { service: api, region: "us-east-1" },
    });
    return { status: answer.status, text: await answer.text() };
  }
  const all = (text: string, tag: string): string[] =>
    [...text.matchAll(new RegExp(`<${tag}>([^<]*)</${tag}>`, "g"))].map(([, value = ""]) => value);
  const users = async () => all((await query("iam", "ListUsers")).text, "UserName").sort();
  const keysOf = async (UserName: string) =>
    all((await query("iam", "ListAccessKeys", { UserName })).text, "AccessKeyId");

  /** A call of the JSON protocol. */
  async function json(api: "secretsmanager" | "AmazonSSM", action: string, body: object) {
    const answer = await administrator.fetch(url, {
      method: "POST",
      body: JSON.stringify(body),
      headers: { "content-type": "application/x-amz-json-1.1", "x-amz-target": `${api}.${action}` },
      aws: { service: api === "AmazonSSM" ? "ssm" : api, region: REGION },
    });
    return answer.json() as Promise<Record<string, never>>;
  }

  /** A user with these rights and no other ones. */
  async function userWith(name: string, actions: readonly string[]) {
    await query("iam", "CreateUser", { UserName: name });
    const rights = { UserName: name, PolicyName: "rights", PolicyDocument: policy(actions) };
    expect(await query("iam", "PutUserPolicy", rights)).toMatchObject({ status: 200 });
    const { text } = await query("iam", "CreateAccessKey", { UserName: name });
    return { id: all(text, "AccessKeyId")[0] ?? "", secret: all(text, "SecretAccessKey")[0] ?? "" };
  }

  async function ask(method: string, path: string, body?: object, expected: readonly number[] = [200, 204]) {
    const answer = await fetch(`${service.baseUrl}/v1/${path}`, {
      method,
      headers: { "X-Vault-Token": service.token },
      ...(body && { body: JSON.stringify(body) }),
    });
    const text = await answer.text();
    expect(expected, `${method} ${path}: ${answer.status} ${text}`).toContain(answer.status);
    return text === "" ? null : JSON.parse(text);
  }

  beforeAll(async () => {
    const port = await freePort();
    url = `http://127.0.0.1:${port}/`;
    // Authentication begins after the administrator was made.
    const env = { PATH: process.env["PATH"], PYTHONPATH: dir, INITIAL_NO_AUTH_ACTION_COUNT: "3" };
    server = spawn("python3", ["-m", "moto.server", "-H", "127.0.0.1", "-p", String(port)], { env, stdio: "ignore" });
    await vi.waitFor(() => fetch(`${url}moto-api/data.json`), { timeout: 60_000, interval: 200 });
    administrator = new AwsClient({ accessKeyId: "AKIAFIRST", secretAccessKey: "first" });
    const { id, secret } = await userWith("administrator", ["*"]);
    administrator = new AwsClient({ accessKeyId: id, secretAccessKey: secret });
    expect((await query("iam", "ListUsers")).status).toBe(200);
    expect(
      (await query("iam", "ListUsers", {}, new AwsClient({ accessKeyId: id, secretAccessKey: "other" }))).status,
    ).toBe(403);
    const endpoints = Object.fromEntries(
      ["SM", "PS", "IAM", "STS"].map((api) => [`CLOUD_A_${api}_URL`, url.slice(0, -1)]),
    );
    service = await new LocalService(clone, await freePort(), { ...endpoints, SEED: "0", AGENT: "0" }).ready();
    await ask("POST", "sys/mounts/kv", { type: "kv", options: { version: "2" } });
    await ask("POST", "sys/mounts/aws", { type: "aws" });
  }, 300_000);

  afterAll(async () => {
    service?.signal("SIGINT");
    await service?.exit;
    server?.kill("SIGKILL");
    remove(clone);
  });

  const secretsManager = {
    objects: async (): Promise<Record<string, string>> => {
      const { SecretList } = (await json("secretsmanager", "ListSecrets", {})) as unknown as {
        SecretList: { Name: string }[];
      };
      const values = SecretList.map(async ({ Name }) => {
        const { SecretString } = await json("secretsmanager", "GetSecretValue", { SecretId: Name });
        return [Name, SecretString ?? ""] as const;
      });
      return Object.fromEntries(await Promise.all(values));
    },
    create: (name: string) =>
      json("secretsmanager", "CreateSecret", {
        Name: name,
        SecretString: "foreign",
        ClientRequestToken: crypto.randomUUID(),
      }),
  };
  const parameterStore = {
    objects: async (): Promise<Record<string, string>> => {
      const { Parameters } = (await json("AmazonSSM", "GetParametersByPath", {
        Path: "/",
        Recursive: true,
        WithDecryption: true,
      })) as unknown as {
        Parameters: { Name: string; Value: string }[];
      };
      return Object.fromEntries(Parameters.map(({ Name, Value }) => [Name, Value]));
    },
    create: (name: string) => json("AmazonSSM", "PutParameter", { Name: name, Value: "foreign", Type: "SecureString" }),
  };

  it.each([
    ["cloud-a-sm", "secretsmanager:", "sp", secretsManager],
    ["cloud-a-ps", "ssm:", "/sp", parameterStore],
  ] as const)(
    "takes every kind of push of %s by the rights that the guide names",
    async (type, prefix, root, { objects, create }) => {
      const actions = actionsIn(permissionsOf(type), prefix);
      expect(actions.length).toBeGreaterThan(4);
      const key = await userWith(`sync-${type}`, actions);
      const connection = { access_key_id: key.id, secret_access_key: key.secret, region: REGION };
      const at = (name: string, below = "") => `sys/sync/destinations/${type}/${name}${below}`;
      await ask("POST", at("p"), {
        ...connection,
        secret_name_template: `${root}/{{ .SecretPath }}`,
        custom_tags: { team: "web" },
      });
      await ask("POST", at("k"), {
        ...connection,
        granularity: "secret-key",
        secret_name_template: `${root}-keys/{{ .SecretPath }}/{{ .SecretKey }}`,
      });
      await ask("POST", at("careful"), {
        ...connection,
        secret_name_template: `${root}-own/{{ .SecretPath }}`,
        update_policy: "owned-only",
      });
      for (const name of ["p", "k", "careful"])
        expect((await ask("POST", at(name, "/verify"))).data, name).toEqual({ ok: true, message: expect.any(String) });
      await create(`${root}-own/app`);
      const value = { user: "ann", n: 3 };
      await ask("PUT", "kv/data/app", { data: value });
      const secret = { mount: "kv", secret_name: "app" };
      for (const name of ["p", "k", "careful"]) await ask("POST", at(name, "/associations/set"), secret);
      const shape = async () =>
        Object.fromEntries(
          Object.entries(await objects()).map(([name, text]) => [name, text.startsWith("{") ? JSON.parse(text) : text]),
        );
      const foreign = { [`${root}-own/app`]: "foreign" };
      await expect
        .poll(shape)
        .toEqual({ ...foreign, [`${root}/app`]: value, [`${root}-keys/app/user`]: "ann", [`${root}-keys/app/n`]: "3" });
      await ask("PUT", "kv/data/app", { data: { user: "bob" } });
      await expect
        .poll(shape)
        .toEqual({ ...foreign, [`${root}/app`]: { user: "bob" }, [`${root}-keys/app/user`]: "bob" });
      for (const name of ["p", "k"])
        expect(Object.keys((await ask("GET", at(name, "/drift"))).data.counters)).toEqual(["in_sync"]);
      const { associated_secrets: refused } = (await ask("GET", at("careful", "/associations"))).data;
      expect(JSON.stringify(refused)).toContain("CLIENT_SIDE_ERROR");
      for (const name of ["p", "k", "careful"]) await ask("POST", at(name, "/associations/remove"), secret);
      await expect.poll(shape).toEqual(foreign);
      // A name that is scheduled for deletion, or was used a moment ago.
      await ask("POST", at("p", "/associations/set"), secret);
      await expect.poll(shape).toEqual({ ...foreign, [`${root}/app`]: { user: "bob" } });
      await ask("DELETE", `${at("p")}?purge=true`);
      await expect.poll(shape).toEqual(foreign);
    },
  );

  it("issues, renews, revokes and rotates credentials by the rights that the guide names", async () => {
    const lines = page("aws-credentials");
    const table = lines.slice(lines.indexOf("## Rights at the provider"), lines.indexOf("## Configuration"));
    // AWS demands no right for sessions of the caller's own; moto does.
    const rights = ["sts:GetSessionToken", ...actionsIn(table.filter((line) => line.startsWith("| ")))];
    const root = await userWith("root", rights);
    await query("iam", "CreateUser", { UserName: "static" });
    await query("iam", "CreateGroup", { GroupName: "readers" });
    await query("iam", "PutGroupPolicy", { GroupName: "readers", PolicyName: "p", PolicyDocument: S3_POLICY });
    const trust = {
      Effect: "Allow",
      Action: "sts:AssumeRole",
      Principal: { AWS: `arn:aws:iam::${ACCOUNT}:user/root` },
    };
    await query("iam", "CreateRole", {
      RoleName: "deploy",
      AssumeRolePolicyDocument: JSON.stringify({ Version: "2012-10-17", Statement: [trust] }),
    });
    await query("iam", "CreatePolicy", { PolicyName: "extra", PolicyDocument: S3_POLICY });
    const before = await users();

    await ask("POST", "aws/config/root", { access_key: root.id, secret_key: root.secret, region: REGION });
    const roles = {
      session: {
        credential_type: "assumed_role",
        role_arns: [`arn:aws:iam::${ACCOUNT}:role/deploy`],
        iam_groups: ["readers"],
      },
      federated: { credential_type: "federation_token", policy_document: S3_POLICY },
      token: { credential_type: "session_token" },
      user: {
        credential_type: "iam_user",
        policy_document: S3_POLICY,
        policy_arns: [`arn:aws:iam::${ACCOUNT}:policy/extra`],
        iam_groups: ["readers"],
        iam_tags: { team: "web" },
      },
    };
    const issued = new Map<
      string,
      { lease_id: string; data: { access_key: string; secret_key: string; session_token: string | null } }
    >();
    for (const [name, role] of Object.entries(roles)) {
      await ask("POST", `aws/roles/${name}`, role);
      issued.set(name, await ask("GET", `aws/creds/${name}${name === "user" ? "?verify=true" : ""}`));
    }
    // Moto knows the keys of users and of assumed roles; the identity behind them is the role's.
    for (const [name, arn] of [
      ["user", ":user/vault-"],
      ["session", ":assumed-role/deploy/"],
    ] as const) {
      const {
        access_key: accessKeyId = "",
        secret_key: secretAccessKey = "",
        session_token,
      } = issued.get(name)?.data ?? {};
      const by = new AwsClient({ accessKeyId, secretAccessKey, ...(session_token && { sessionToken: session_token }) });
      expect(await query("sts", "GetCallerIdentity", {}, by)).toMatchObject({
        status: 200,
        text: expect.stringContaining(arn),
      });
    }
    const [UserName = ""] = (await users()).filter((name) => !before.includes(name));
    const shown = await Promise.all(
      ["ListUserPolicies", "ListAttachedUserPolicies", "ListGroupsForUser", "ListUserTags"].map((action) =>
        query("iam", action, { UserName }),
      ),
    );
    for (const [at, word] of ["<member>", "policy/extra", "readers", "<Value>web<"].entries())
      expect(shown[at]?.text).toContain(word);
    const lease_id = issued.get("user")?.lease_id;
    await ask("POST", "sys/leases/renew", { lease_id });
    await ask("POST", "sys/leases/revoke", { lease_id });
    await expect.poll(users).toEqual(before);

    await ask("POST", "aws/static-roles/s", { username: "static", rotation_period: "1h" });
    const { access_key } = (await ask("GET", "aws/static-creds/s")).data;
    expect(await keysOf("static")).toEqual([access_key]);
    await ask("DELETE", "aws/static-roles/s");

    const rotated = (await ask("POST", "aws/config/rotate-root")).data.access_key;
    expect(rotated).not.toBe(root.id);
    await expect.poll(() => keysOf("root"), { timeout: 60_000 }).toEqual([rotated]);
    const next = await ask("GET", "aws/creds/user");
    await ask("DELETE", "aws/roles/user");
    await ask("POST", "sys/leases/revoke-prefix/aws/creds");
    await expect.poll(users).toEqual(before);
    expect(next.data.access_key).not.toBe(access_key);
  });
});
