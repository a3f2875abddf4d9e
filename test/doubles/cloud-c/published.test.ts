import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
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

/** The operations of a document, as the double serves them: the service's host is the first part of the path. */
function operationsOf(name: string): PublishedApi["operations"] {
  const file = join(dir, "googleapiclient/discovery_cache/documents", `${name}.json`);
  const { servicePath, parameters: common, schemas, ...root } = JSON.parse(readFileSync(file, "utf8")) as Document;
  const $defs = Object.fromEntries(Object.entries(schemas).map(([id, each]) => [id, schemaOf(each)]));
  const body = (given: Schema | undefined) => given && { $defs, ...schemaOf(given) };
  const host = `/${name.split(".")[0]}.googleapis.com/`;
  return Object.fromEntries(
    methodsOf(root).map(({ httpMethod, path, flatPath = path, parameters = {}, request, response }) => [
      `${httpMethod} ${host}${servicePath}${flatPath}`,
      {
        query: [...Object.keys(common), ...Object.keys(parameters)],
        ...(request && { request: body(request) as object }),
        answers: { 200: body(response) ?? null, default: REFUSAL },
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
    const all = DOCUMENTS.flatMap((name) => Object.entries(operationsOf(name)));
    // `{id}:verb` before `{id}`, which matches it, too.
    const operations = Object.fromEntries(all.sort(([one], [other]) => other.length - one.length));
    judge = judgeExchanges({ base: "", operations }, (url) => url.origin === google.url);
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
});
