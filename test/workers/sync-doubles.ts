import { env } from "cloudflare:workers";
import type { CloudBAccount } from "../doubles/cloud-b-kv/server.ts";
import type { OpenedAccount as CloudCAccount } from "../doubles/cloud-c-sm/server.ts";
import type { SecretView } from "../doubles/cloud-c-sm/store.ts";
import type { OpenedAccount as DeployAccount } from "../doubles/deploy-project/api.ts";
import type { Credentials as RepoHostAccount } from "../doubles/repo-host/state.ts";
import { cloudA } from "./sync-cloud-a.ts";

/** One account at a provider's double, for one test: a body for a destination, and access to the state. */
export interface ProviderAccount {
  readonly type: string;
  /** A complete body for a destination of the type at this account. */
  readonly body: Record<string, unknown>;
  /** One field of `body` that the provider refuses, for "the credentials are wrong". */
  readonly wrong: Record<string, unknown>;
  /** The name of the operation that writes a value, for faults. */
  readonly writes: string;
  /** All that is there, name to value. */
  values(): Promise<Record<string, string>>;
  fault(fault: Record<string, unknown>): Promise<unknown>;
  /** The log, oldest first; each entry has at least `operation` and `status`. */
  requests(): Promise<{ operation: string; status: number | null }[]>;
  /** Access tokens that were given out are refused from now on; where there are any. */
  revoke?(): Promise<unknown>;
}

const json = async (url: string, init?: RequestInit) => {
  const answer = await fetch(url, init);
  if (!answer.ok) throw new Error(`${url}: ${answer.status} ${await answer.text()}`);
  return answer.json() as Promise<unknown>;
};

function at(url: string, account: string) {
  const path = (name: string) => `${url}/_double/${name}?account=${encodeURIComponent(account)}`;
  return {
    call: (change: Record<string, unknown>) => json(path("call"), { method: "POST", body: JSON.stringify(change) }),
    fault: (fault: Record<string, unknown>) => json(path("faults"), { method: "POST", body: JSON.stringify(fault) }),
    requests: async () => (await json(path("requests"))) as { operation: string; status: number | null }[],
    values: async (lives: (entry: Entry) => boolean = () => true) => {
      const all = ((await json(path("secrets"))) as Entry[]).filter(lives);
      return Object.fromEntries(all.map((entry) => [String(entry["name"] ?? entry["key"]), String(entry["value"])]));
    },
  };
}

type Entry = Record<string, unknown>;
const open = async <T>(url: string): Promise<T> => (await json(`${url}/_double/accounts`, { method: "POST" })) as T;

export async function openCloudA(): Promise<ProviderAccount> {
  await cloudA.begin();
  const { accessKeyId, secretAccessKey } = cloudA.key();
  return {
    type: "cloud-a-sm",
    body: { access_key_id: accessKeyId, secret_access_key: secretAccessKey, region: "eu-west-1" },
    wrong: { secret_access_key: "not-the-key" },
    writes: "CreateSecret",
    values: async () => {
      const all = (await cloudA.secrets()).filter((secret) => !secret.scheduledForDeletion);
      return Object.fromEntries(all.map(({ name, value }) => [name, String(value)]));
    },
    fault: (fault) => cloudA.fault(fault as unknown as Parameters<typeof cloudA.fault>[0]),
    requests: () => cloudA.requests(),
  };
}

export async function openCloudB(): Promise<ProviderAccount> {
  const account = await open<CloudBAccount>(env.TEST_DOUBLES.cloudB);
  const control = at(env.TEST_DOUBLES.cloudB, account.tenant_id);
  return {
    type: "cloud-b-kv",
    body: { ...account },
    wrong: { client_secret: "not-the-secret" },
    writes: "SetSecret",
    ...control,
    values: () => control.values((entry) => entry["state"] === "active"),
    revoke: () => json(`${env.TEST_DOUBLES.cloudB}/_double/revoke-tokens`, { method: "POST" }),
  };
}

interface CloudC extends ProviderAccount {
  /** The values of all versions that can be read, oldest first. */
  enabled(): Promise<(string | null)[]>;
}

export async function openCloudC(): Promise<CloudC> {
  const account = await open<CloudCAccount>(env.TEST_DOUBLES.cloudC);
  return {
    enabled: async () => {
      const url = `${env.TEST_DOUBLES.cloudC}/_double/secrets?account=${account.account}`;
      const versions = ((await json(url)) as SecretView[]).flatMap((secret) => secret.versions);
      return versions.filter(({ state }) => state === "ENABLED").map(({ value }) => value);
    },
    type: "cloud-c-sm",
    body: { credentials: JSON.stringify(account.credentials) },
    wrong: {
      credentials: JSON.stringify({ ...account.credentials, client_email: "nobody@nowhere.iam.gserviceaccount.com" }),
    },
    writes: "AddSecretVersion",
    ...at(env.TEST_DOUBLES.cloudC, account.account),
    revoke: () => json(`${env.TEST_DOUBLES.cloudC}/_double/expire-tokens`, { method: "POST" }),
  };
}

interface RepoHost extends ProviderAccount {
  readonly account: RepoHostAccount;
  /** Makes a change as another writer: a Change of the double. */
  call(change: Record<string, unknown>): Promise<unknown>;
}

export async function openRepoHost(): Promise<RepoHost> {
  const account = await open<RepoHostAccount>(env.TEST_DOUBLES.repoHost);
  return {
    type: "repo-host",
    body: {
      access_token: account.accessToken,
      repository_owner: account.owner,
      repository_name: account.repository,
    },
    wrong: { access_token: "ghp_not-the-token" },
    writes: "putSecret",
    account,
    ...at(env.TEST_DOUBLES.repoHost, account.account),
  };
}

export async function openDeployProject(): Promise<ProviderAccount> {
  const account = await open<DeployAccount>(env.TEST_DOUBLES.deployProject);
  return {
    type: "deploy-project",
    body: {
      access_token: account.accessToken,
      project_id: account.projectId,
      deployment_environments: ["preview", "production"],
    },
    wrong: { access_token: "not-the-token" },
    writes: "CreateVariables",
    ...at(env.TEST_DOUBLES.deployProject, account.id),
  };
}

/** Every provider, by its destination type. */
export const providers: Readonly<Record<string, () => Promise<ProviderAccount>>> = {
  "cloud-a-sm": openCloudA,
  "cloud-b-kv": openCloudB,
  "cloud-c-sm": openCloudC,
  "repo-host": openRepoHost,
  "deploy-project": openDeployProject,
};
