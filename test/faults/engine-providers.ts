import datadog from "../../examples/producers/datadog-api-key.json" with { type: "json" };
import gitlab from "../../examples/producers/gitlab-project-token.json" with { type: "json" };
import type { Fault as IamFault } from "../doubles/cloud-a/account.ts";
import { startIam } from "../doubles/cloud-a/server.ts";
import type { startAzure } from "../doubles/cloud-b/azure.ts";
import { startGoogle } from "../doubles/cloud-c/server.ts";
import type { ProducerView } from "../doubles/producers/server.ts";
import { startProducers } from "../doubles/producers/server.ts";
import type { Fault, Provider } from "./providers.ts";
import { Line } from "./proxy-line.ts";

/** The providers of engines beside that of `credentials.ts`: AWS, Google Cloud, APIs of the HTTPS producer, and another Azure tenant. */

type Data = Readonly<Record<string, string>>;

interface Role {
  readonly path: string;
  readonly body: Readonly<Record<string, unknown>>;
  readonly issue: string;
}

/** A static role: credentials of an account of others, which the engine replaces. */
interface StaticRole {
  readonly body: Readonly<Record<string, unknown>>;
  /** Whether it is rotated by requests, beside its period. */
  readonly hasRotation: boolean;
  /** The id of a read's credentials, and the ids at the provider. */
  idOf(data: Data): string;
  ids(): readonly string[];
}

/** An engine on its provider. */
export interface EngineProvider extends Provider {
  readonly type: string;
  /** The documents of its configuration, under the mount. */
  readonly documents: readonly (readonly [path: string, body: Readonly<Record<string, unknown>>])[];
  /** Roles, and the paths that issue their credentials; none for an engine with a static role only. */
  readonly roles: readonly Role[];
  readonly rotate?: string;
  readonly staticRole?: StaticRole;
  /** How many leases the provider has resources of. */
  issued(): Promise<number>;
  accepts(data: Data): Promise<boolean>;
  /** Faults of resources beside their number, such as a user without a key; the root has one secret. */
  strange(): Promise<string[]>;
}

interface EngineProviders {
  readonly engines: readonly EngineProvider[];
  readonly settings: Readonly<Record<string, string>>;
  /** Accounts for the token endpoint of Google. */
  readonly others: Awaited<ReturnType<typeof startGoogle>>["others"];
  close(): Promise<unknown>;
}

const lineTo = (url: string) => new Line(() => Number(new URL(url).port)).open();

export async function startEngineProviders(azure: Awaited<ReturnType<typeof startAzure>>): Promise<EngineProviders> {
  const [iam, google, producers] = await Promise.all([startIam(), startGoogle(), startProducers()]);
  // Each provider dies alone, so it has a line of its own.
  const lines = await Promise.all([iam, google, producers, producers].map(({ url }) => lineTo(url)));
  const [iamLine, googleLine, gitlabLine, datadogLine] = lines as [Line, Line, Line, Line];
  const engines = [
    awsOn(iam, iamLine),
    await googleOn(google.url, googleLine),
    await producerOn(producers.url, gitlabLine, "gitlab", gitlab, ({ token }) => ({
      secrets: { token },
      vars: { project: "42" },
    })),
    await producerOn(producers.url, datadogLine, "datadog", datadog, ({ token }) => ({
      secrets: { api_key: token, application_key: `app-${token}` },
      vars: {},
    })),
    azureStaticOn(azure),
  ];
  return {
    engines,
    settings: { CLOUD_C_API_URL: googleLine.url, PRIVATE_HOSTS: "127.0.0.1" },
    others: google.others,
    close: () => Promise.all([iam, google, producers].map((double) => double.close())),
  };
}

function awsOn(iam: Awaited<ReturnType<typeof startIam>>, line: Line): EngineProvider {
  const view = iam.open();
  const account = iam.account(view.account);
  account.addUser({ name: "worker", path: "/", boundary: "", tags: {}, now: 0 });
  const keysOf = (user: string) => account.keysOf(user).map(({ accessKeyId }) => accessKeyId);
  const made = () => [...account.users.keys()].filter((name) => name !== "sallyport" && name !== "worker");
  return {
    name: "aws",
    type: "cloud-a",
    lines: [line],
    documents: [
      [
        "config/root",
        {
          access_key: view.access_key,
          secret_key: view.secret_key,
          iam_endpoint: line.url,
          sts_endpoint: line.url,
        },
      ],
      ["config/lease", { lease: "1h", lease_max: "24h" }],
    ],
    roles: ["app", "other"].map((name) => ({
      path: `roles/${name}`,
      body: { credential_type: "iam_user", policy_arns: [view.policy_arn], iam_groups: ["developers"] },
      issue: `creds/${name}`,
    })),
    rotate: "config/rotate-root",
    staticRole: {
      body: { username: "worker", rotation_period: 60 },
      hasRotation: false,
      idOf: ({ access_key = "" }) => access_key,
      ids: () => keysOf("worker"),
    },
    fault: (fault) => account.fail(iamFaultOf(fault)),
    clearFaults: () => {
      while (account.nextFault("CreateUser"));
    },
    issued: async () => made().length,
    accepts: async ({ access_key = "" }) => account.keys.has(access_key),
    strange: async () => [
      ...made()
        .filter((name) => keysOf(name).length !== 1)
        .map((name) => `the user ${name} has ${keysOf(name).length} keys`),
      ...(keysOf("sallyport").length === 1 ? [] : [`the root has ${keysOf("sallyport").length} keys`]),
    ],
  };
}

function iamFaultOf(fault: Fault): IamFault {
  const { count } = fault;
  if (fault.fault === "drop" || fault.fault === "apply-then-drop") return { fault: fault.fault, count };
  if (fault.fault === "raw" && fault.status >= 500) {
    return { fault: "error", code: "ServiceFailure", message: "down", status: fault.status, count };
  }
  return { fault: "error", count };
}

/** Calls of a double that is driven over HTTP. */
function controlOf(url: string, account: string) {
  return async (path: string, body: unknown = {}): Promise<unknown> =>
    (await fetch(`${url}/_double/${path}?account=${account}`, { method: "POST", body: JSON.stringify(body) })).json();
}

async function googleOn(url: string, line: Line): Promise<EngineProvider> {
  const opened = (await controlOf(url, "")("accounts")) as { account: string; root: string; credentials: object };
  const control = controlOf(url, opened.account);
  const everything = async () => (await control("everything")) as readonly string[];
  const keys = async () => (await everything()).filter((each) => each.startsWith("key "));
  const ofRoot = (each: string) => each.startsWith(`key ${opened.root} `);
  const resource = `//cloudresourcemanager.googleapis.com/projects/${opened.account}`;
  const methods = ["POST", "GET", "DELETE"];
  let faults = 0;
  return {
    name: "google",
    type: "cloud-c",
    lines: [line],
    documents: [["config", { credentials: JSON.stringify(opened.credentials), ttl: "1h", max_ttl: "24h" }]],
    // One job at a time makes keys of an account, and a job whose Worker has died holds it for a minute.
    roles: ["app", "b", "c", "d", "e", "f"].map((name) => ({
      path: `roleset/${name}`,
      body: {
        secret_type: "service_account_key",
        project: opened.account,
        bindings: `resource "${resource}" { roles = ["roles/viewer", "roles/browser"] }`,
      },
      issue: `roleset/${name}/key`,
    })),
    rotate: "config/rotate-root",
    fault(fault) {
      const method = methods[faults++ % methods.length];
      const word = { raw: "UNAVAILABLE", delay: "RESOURCE_EXHAUSTED" } as Record<string, string>;
      void control("faults", { method, path: "", fault: word[fault.fault] ?? fault.fault, count: 1 });
    },
    clearFaults: () => void control("clear-faults"),
    issued: async () => (await keys()).filter((each) => !ofRoot(each)).length,
    async accepts({ private_key_data = "" }) {
      const { private_key_id: id } = JSON.parse(Buffer.from(private_key_data, "base64").toString());
      return (await keys()).some((each) => each.includes(id) && !each.endsWith(" disabled"));
    },
    async strange() {
      // A key that may be of another maker is disabled, not deleted.
      const root = (await keys()).filter((each) => ofRoot(each) && !each.endsWith(" disabled")).length;
      return root === 1 ? [] : [`the root has ${root} keys`];
    },
  };
}

async function producerOn(
  url: string,
  line: Line,
  provider: "gitlab" | "datadog",
  example: { readonly url: string; readonly producer: object },
  own: (view: ProducerView) => object,
): Promise<EngineProvider> {
  const answer = await fetch(`${url}/_double/accounts`, { method: "POST", body: JSON.stringify({ provider }) });
  const view = (await answer.json()) as ProducerView;
  const control = controlOf(url, view.account);
  const base = line.url + new URL(example.url).pathname.replace(/\/$/, "");
  const operations = ["create", "find", "revoke"];
  let faults = 0;
  return {
    name: provider,
    type: "https-producer",
    lines: [line],
    documents: [["config", { url: base, ...own(view), producer: example.producer }]],
    roles: [{ path: "roles/app", body: { ttl: "1h", max_ttl: "24h" }, issue: "creds/app" }],
    fault(fault) {
      const operation = operations[faults++ % operations.length];
      const isLoss = fault.fault === "drop" || fault.fault === "apply-then-drop";
      const word = isLoss
        ? { fault: fault.fault }
        : { fault: "error", status: fault.fault === "raw" ? fault.status : 429 };
      void control("faults", { operation, count: 1, ...word });
    },
    clearFaults: () => void control("clear-faults"),
    issued: async () =>
      ((await control("everything")) as { name: string }[]).filter(({ name }) => /^sp-[\da-f]{32}$/.test(name)).length,
    accepts: async ({ token = "", api_key = "" }) =>
      (await control("accepts", { secret: (token || api_key).replace(/^glpat-/, "") })) === true,
    strange: async () => [],
  };
}

/** Static roles of a tenant of their own: `credentials.ts` counts all objects of the other one. */
function azureStaticOn(azure: Awaited<ReturnType<typeof startAzure>>): EngineProvider {
  const { account: tenant, details } = azure.openAccount({});
  const { object_id: application } = details.existing_application;
  const passwords = () => tenant.directory.applications.get(application)?.passwords ?? [];
  return {
    name: "azure-static",
    type: "cloud-b",
    // Those of the other tenant.
    lines: [],
    documents: [
      [
        "config",
        {
          subscription_id: details.subscription_id,
          tenant_id: details.tenant_id,
          client_id: details.client_id,
          client_secret: details.client_secret,
        },
      ],
    ],
    roles: [],
    staticRole: {
      body: { application_object_id: application, rotation_period: "720h", rotation_grace_period: 20 },
      hasRotation: true,
      idOf: ({ secret_id = "" }) => secret_id,
      ids: () => passwords().map(({ keyId }) => keyId),
    },
    fault: (fault) => tenant.fault(fault),
    clearFaults: () => tenant.clearFaults(),
    issued: async () => 0,
    accepts: async () => true,
    strange: async () => [],
  };
}
