import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { ExternalAccountClient } from "google-auth-library";
import { exportJWK, generateKeyPair, SignJWT } from "jose";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import type { CloudResult } from "../../../src/contracts/cloud-calls.ts";
import { cloudC } from "../../../src/credentials/engines/gcp/client.ts";
import { sender } from "../../../src/providers/outcome.ts";
import { pythonPackage } from "../../clients/python.ts";
import { stepsOf } from "../../clients/steps.ts";
import { judgeExchanges, type PublishedApi } from "../../support/published-api.ts";
import { type CloudCDouble, startCloudC } from "../cloud-c-sm/server.ts";
import { received, startLoopback } from "../loopback.ts";
import { startGoogle } from "./server.ts";

/*
 * Google's own client and its discovery documents, judges of the double of IAM that are not ours: every request of the
 * client and of the engine, and every answer of the double, is valid by the documents in the client's package.
 */

const { dir, missing } = pythonPackage("google-api-python-client==2.202.0");
if (missing !== null) console.warn(`The double of Google's IAM is not judged by Google's client: ${missing}.`);

const DOCUMENTS = [
  "iam.v1",
  "iamcredentials.v1",
  "cloudresourcemanager.v3",
  "pubsub.v1",
  "secretmanager.v1",
  "storage.v1",
] as const;

interface Method {
  readonly httpMethod: string;
  readonly path: string;
  readonly flatPath?: string;
  readonly parameters?: Readonly<Record<string, { readonly location: string }>>;
  readonly request?: Schema;
  readonly response?: Schema;
}

interface Resource {
  readonly methods?: Readonly<Record<string, Method>>;
  readonly resources?: Readonly<Record<string, Resource>>;
}

interface Document extends Resource {
  readonly servicePath: string;
  readonly parameters: Readonly<Record<string, unknown>>;
  readonly schemas: Readonly<Record<string, Schema>>;
}

interface Schema {
  readonly $ref?: string;
  readonly type?: string;
  readonly enum?: readonly string[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: Schema;
  readonly items?: Schema;
}

/** A discovery schema as a JSON schema: an object has the named members only. */
function schemaOf({ $ref, type, properties = {}, items, additionalProperties: others, enum: words }: Schema): object {
  const members = Object.entries(properties).map(([name, each]) => [name, schemaOf(each)]);
  const isObject = type === "object";
  return {
    ...($ref !== undefined && { $ref: `#/$defs/${$ref}` }),
    ...(type !== undefined && type !== "any" && { type }),
    ...(isObject && {
      properties: Object.fromEntries(members),
      additionalProperties: others ? schemaOf(others) : false,
    }),
    ...(items && { items: schemaOf(items) }),
    ...(words && { enum: words }),
  };
}

const methodsOf = ({ methods, resources }: Resource): Method[] => [
  ...Object.values(methods ?? {}),
  ...Object.values(resources ?? {}).flatMap(methodsOf),
];

const integer = { type: "integer" };
const REFUSAL = {
  type: "object",
  required: ["error"],
  properties: {
    error: {
      type: "object",
      required: ["code", "message", "status"],
      properties: {
        code: integer,
        message: { type: "string" },
        status: { type: "string" },
        details: { type: "array" },
      },
    },
  },
};

/** The refusal of the token exchange (RFC 6749, 5.2). */
const REFUSED_EXCHANGE = {
  type: "object",
  required: ["error", "error_description"],
  properties: { error: { type: "string" }, error_description: { type: "string" } },
  additionalProperties: false,
};

/** The operations of a document, as the double serves them: by default, the service's host is the first part of the path. */
function operationsOf(
  name: string,
  host = `/${name.split(".")[0]}.googleapis.com/`,
  refusal: object = REFUSAL,
): PublishedApi["operations"] {
  const file = join(dir, "googleapiclient/discovery_cache/documents", `${name}.json`);
  const { servicePath, parameters: common, schemas, ...root } = JSON.parse(readFileSync(file, "utf8")) as Document;
  const $defs = Object.fromEntries(Object.entries(schemas).map(([id, each]) => [id, schemaOf(each)]));
  const body = (given: Schema | undefined) => given && { $defs, ...schemaOf(given) };
  return Object.fromEntries(
    methodsOf(root).map(({ httpMethod, path, flatPath = path, parameters = {}, request, response }) => [
      `${httpMethod} ${host}${servicePath}${flatPath}`,
      {
        query: [...Object.keys(common), ...Object.keys(parameters)],
        ...(request && { request: body(request) as object }),
        answers: { 200: body(response) ?? null, default: refusal },
      },
    ]),
  );
}

describe.runIf(missing === null)("Google's IAM", { timeout: 120_000 }, () => {
  let google: Awaited<ReturnType<typeof startGoogle>>;
  let logins: CloudCDouble;
  let opened: { account: string; root: string; credentials: never };
  let judge: ReturnType<typeof judgeExchanges>;
  beforeAll(async () => {
    google = await startGoogle();
    logins = await startCloudC({ others: google.others });
    const answer = await fetch(`${google.url}/_double/accounts`, { method: "POST", body: "{}" });
    opened = (await answer.json()) as typeof opened;
    const logging = { ...operationsOf("sts.v1", "/", REFUSED_EXCHANGE), ...operationsOf("iamcredentials.v1", "/") };
    const all = [...DOCUMENTS.flatMap((name) => Object.entries(operationsOf(name))), ...Object.entries(logging)];
    // `{id}:verb` before `{id}`, which matches it, too.
    const operations = Object.fromEntries(all.sort(([one], [other]) => other.length - one.length));
    const isLogin = ({ origin, pathname }: URL) => origin === logins.url && pathname.startsWith("/v1/");
    judge = judgeExchanges({ base: "", operations }, (url) => url.origin === google.url || isLogin(url));
  });
  afterAll(async () => {
    judge?.stop();
    await Promise.all([google?.close(), logins?.close()]);
  });

  it("serves Google's own client, and both are valid by the discovery documents", async () => {
    // Requests of the client pass through this process, where they are judged.
    const passage = await startLoopback(async (incoming, outgoing) => {
      const { url, headers, body } = await received(incoming);
      const { authorization = "" } = headers;
      const init = { method: incoming.method ?? "", headers: { authorization } };
      const answer = await fetch(`${google.url}${url.pathname}${url.search}`, {
        ...init,
        ...(body.length > 0 && { body: body.toString() }),
      });
      outgoing.writeHead(answer.status, { "content-type": "application/json" }).end(await answer.text());
    });
    const args = [passage.url, logins.tokenUrl, opened.account, JSON.stringify(opened.credentials)];
    const flow = resolve("test/doubles/cloud-c/sdk_flow.py");
    const steps = await stepsOf("env", [`PYTHONPATH=${dir}`, "python3", flow, ...args], 100_000);
    await passage.close();
    expect(steps.filter(({ outcome }) => outcome !== "ok")).toEqual([]);
    expect(steps.length).toBe(9);
    expect(judge.faults).toEqual([]);
    expect([...judge.seen].sort()).toEqual([
      "DELETE 200",
      "GET 200",
      "GET 404",
      "POST 200",
      "POST 400",
      "POST 403",
      "POST 409",
      "PUT 200",
      "PUT 409",
    ]);
  });

  it("is called by the engine as the discovery documents say", async () => {
    const settings = { CLOUD_C_API_URL: google.url, CLOUD_C_TOKEN_URL: logins.tokenUrl };
    const { account: project, root, credentials } = opened;
    const cloud = cloudC({ email: root, credentials }, { settings, send: sender({ deadlineMs: 10_000 }) });
    const done = async <T>(act: () => Promise<CloudResult<T>>): Promise<T> =>
      vi.waitFor(async () => {
        const result = await act();
        if (!result.ok) throw new Error(result.failure.message);
        return result.value;
      });
    const { email } = await done(() =>
      cloud.createServiceAccount({ project, accountId: "by-engine", displayName: "engine", description: "marker" }),
    );
    await done(() => cloud.getServiceAccount(email));
    const options = { algorithm: "KEY_ALG_RSA_2048", type: "TYPE_GOOGLE_CREDENTIALS_FILE" };
    const { id, privateKeyData } = await done(() => cloud.createKey(email, options));
    await done(() => cloud.login(privateKeyData));
    await done(() => cloud.getKey(email, id));
    expect((await done(() => cloud.listKeys(email))).keys.map((key) => key.id)).toEqual([id]);
    const resources = [
      `//cloudresourcemanager.googleapis.com/projects/${project}`,
      `//cloudresourcemanager.googleapis.com/folders/1`,
      `//pubsub.googleapis.com/projects/${project}/topics/t`,
      `//pubsub.googleapis.com/projects/${project}/subscriptions/s`,
      `//secretmanager.googleapis.com/projects/${project}/secrets/s`,
      `//iam.googleapis.com/projects/${project}/serviceAccounts/${email}`,
      "//storage.googleapis.com/buckets/b",
    ];
    const grant = `roles/viewer serviceAccount:${email}`;
    for (const resource of resources) {
      await done(() => cloud.changePolicy(resource, [grant], []));
      await done(() => cloud.changePolicy(resource, [], [grant]));
    }
    const creator = `roles/iam.serviceAccountTokenCreator serviceAccount:${root}`;
    await done(() => cloud.changePolicy(resources[5] ?? "", [creator], []));
    await done(() => cloud.generateAccessToken(email, ["https://www.googleapis.com/auth/cloud-platform"], 600));
    await done(() => cloud.disableKey(email, id));
    await done(() => cloud.deleteKey(email, id));
    await done(() => cloud.deleteServiceAccount(email));
    expect(judge.faults).toEqual([]);
  });

  it("logs in by identity tokens as Google's own client does, and as the discovery documents say", async () => {
    const { publicKey, privateKey } = await generateKeyPair("RS256", { extractable: true });
    const keys = { keys: [{ ...(await exportJWK(publicKey)), kid: "1", alg: "RS256", use: "sig" }] };
    const provider = "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/sallyport";
    const [issuer, subject, audience] = [
      "https://vault.example",
      "plugin-identity:root:secret:gcp_1",
      `https:${provider}`,
    ];
    const identity = { issuer, subject, audience, sign: () => token(subject) };
    const token = (sub: string) =>
      new SignJWT({ sub, iss: issuer, aud: audience })
        .setProtectedHeader({ alg: "RS256", kid: "1" })
        .setIssuedAt()
        .setExpirationTime("10m")
        .sign(privateKey);
    const trust = { issuer, subject, audience, keys, provider, email: opened.root };
    await fetch(`${logins.url}/_double/trust`, { method: "POST", body: JSON.stringify(trust) });

    // The client's own requests, which do not pass `fetch`.
    const client = (sub: string) =>
      ExternalAccountClient.fromJSON({
        type: "external_account",
        audience: provider,
        subject_token_type: "urn:ietf:params:oauth:token-type:jwt",
        token_url: `${logins.url}/v1/token`,
        service_account_impersonation_url: `${logins.url}/v1/projects/-/serviceAccounts/${opened.root}:generateAccessToken`,
        subject_token_supplier: { getSubjectToken: () => token(sub) },
        scopes: ["https://www.googleapis.com/auth/cloud-platform"],
      });
    expect((await client(subject)?.getAccessToken())?.token).toMatch(/^ya29\.c/);
    await expect(client("plugin-identity:root:secret:gcp_2")?.getAccessToken()).rejects.toThrow("invalid_grant");

    judge.seen.clear();
    const settings = { CLOUD_C_API_URL: google.url, CLOUD_C_STS_URL: logins.url, CLOUD_C_IAM_URL: logins.url };
    const as = (sub: string) => {
      const send = sender({ deadlineMs: 10_000 });
      return cloudC(
        { email: opened.root },
        { settings, send, identity: { ...identity, subject: sub, sign: () => token(sub) } },
      );
    };
    const found = await as(subject).getServiceAccount(opened.root);
    const refused = await as("plugin-identity:root:secret:gcp_2").getServiceAccount(opened.root);
    expect(found).toMatchObject({ ok: true, value: { email: opened.root } });
    expect(refused).toMatchObject({ ok: false, failure: { message: expect.stringContaining("invalid_grant") } });
    expect([...judge.seen].sort()).toEqual(["GET 200", "POST 200", "POST 400"]);
    expect(judge.faults).toEqual([]);
  });
});
