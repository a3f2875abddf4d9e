import { env } from "cloudflare:workers";
import type { OpenedAccount as DeployAccount } from "../doubles/deploy-project/api.ts";
import { cloudA } from "./sync-cloud-a.ts";
import { openCloudA, openCloudB, openCloudC, openRepoHost } from "./sync-doubles.ts";

/** A provider's account with another writer. */
export interface Shared {
  readonly type: string;
  /** A complete body for a destination of the type at this account. */
  readonly body: Record<string, unknown>;
  /** One field of `body` that the provider refuses. */
  readonly wrong: Record<string, unknown>;
  /** Changes by the other writer, without our marker. */
  create(name: string): Promise<unknown>;
  change(name: string): Promise<unknown>;
  remove(name: string): Promise<unknown>;
  /** The names of all that is there. */
  names(): Promise<string[]>;
}

const THEIRS = "theirs";

const json = async (url: string, body?: unknown): Promise<unknown> => {
  const answer = await fetch(url, body === undefined ? {} : { method: "POST", body: JSON.stringify(body) });
  if (!answer.ok) throw new Error(`${url}: ${answer.status} ${await answer.text()}`);
  return answer.json();
};
const caller = (url: string, account: string) => (body: unknown) =>
  json(`${url}/_double/call?account=${encodeURIComponent(account)}`, body);
const namesOf = (values: Record<string, string>) => Object.keys(values).sort();

async function sharedCloudA(): Promise<Shared> {
  const account = await openCloudA();
  let writes = 0;
  const token = () => String(++writes).padStart(32, "x");
  return {
    ...account,
    create: (Name) => cloudA.call("CreateSecret", { Name, SecretString: THEIRS, ClientRequestToken: token() }),
    change: (SecretId) => cloudA.call("UpdateSecret", { SecretId, SecretString: THEIRS, ClientRequestToken: token() }),
    remove: (SecretId) => cloudA.call("DeleteSecret", { SecretId, ForceDeleteWithoutRecovery: true }),
    names: async () => namesOf(await account.values()),
  };
}

async function sharedCloudB(): Promise<Shared> {
  const account = await openCloudB();
  const call = caller(env.TEST_DOUBLES.cloudB, String(account.body["tenant_id"]));
  const set = (name: string) => call({ operation: "SetSecret", name, body: { value: THEIRS } });
  /** A name whose secret was deleted is free again once that secret is back, which takes a few looks. */
  const recover = async (name: string) => {
    await call({ operation: "RecoverDeletedSecret", name });
    for (let tries = 1; ; tries++) {
      try {
        return await set(name);
      } catch (failure) {
        if (tries === 20) throw failure;
      }
    }
  };
  return {
    ...account,
    create: (name) => set(name).catch(() => recover(name)),
    // Versions of one second cannot be distinguished.
    change: async (name) => {
      await scheduler.wait(1_100);
      return set(name);
    },
    remove: (name) => call({ operation: "DeleteSecret", name }),
    names: async () => namesOf(await account.values()),
  };
}

async function sharedCloudC(): Promise<Shared> {
  const account = await openCloudC();
  const { project_id } = JSON.parse(String(account.body["credentials"])) as { project_id: string };
  const call = caller(env.TEST_DOUBLES.cloudC, project_id);
  const add = (secretId: string) =>
    call({
      operation: "AddSecretVersion",
      secretId,
      body: { payload: { data: "b25l", dataCrc32c: "714388201" } },
    });
  return {
    ...account,
    create: async (secretId) => {
      await call({ operation: "CreateSecret", query: { secretId }, body: { replication: { automatic: {} } } });
      await add(secretId);
    },
    change: add,
    remove: (secretId) => call({ operation: "DeleteSecret", secretId }),
    names: async () => namesOf(await account.values()),
  };
}

/** Change times are in seconds, and the adapter attributes small differences to clocks. */
const CLOCK_TOLERANCE_MS = 6_500;

async function sharedRepoHost(): Promise<Shared> {
  const account = await openRepoHost();
  const { owner, repository } = account.account;
  const call = caller(env.TEST_DOUBLES.repoHost, account.account.account);
  const place = `${owner}/${repository}`;
  const put = (name: string) => call({ operation: "put-secret", place, name, value: THEIRS });
  return {
    ...account,
    create: put,
    change: async (name) => {
      await scheduler.wait(CLOCK_TOLERANCE_MS);
      return put(name);
    },
    remove: (name) => call({ operation: "delete-secret", place, name }),
    names: async () => namesOf(await account.values()),
  };
}

async function sharedDeployProject(): Promise<Shared> {
  const url = env.TEST_DOUBLES.deployProject;
  const account = (await json(`${url}/_double/accounts`, {})) as DeployAccount;
  const call = caller(url, account.id);
  const target = ["preview", "production"];
  const all = async () => (await json(`${url}/_double/secrets?account=${account.id}`)) as { id: string; key: string }[];
  const idOf = async (name: string) => (await all()).find(({ key }) => key === name)?.id;
  return {
    type: "deploy-project",
    body: { access_token: account.accessToken, project_id: account.projectId, deployment_environments: target },
    wrong: { access_token: "not-the-token" },
    create: (key) =>
      call({
        operation: "CreateVariables",
        parameters: { body: { key, value: THEIRS, type: "encrypted", target } },
      }),
    change: async (name) =>
      call({ operation: "EditVariable", parameters: { id: await idOf(name), body: { value: THEIRS } } }),
    remove: async (name) => call({ operation: "RemoveVariable", parameters: { id: await idOf(name) } }),
    names: async () => (await all()).map(({ key }) => key).sort(),
  };
}

/** Every provider, by its destination type. */
export const shared: Readonly<Record<string, () => Promise<Shared>>> = {
  "cloud-a-sm": sharedCloudA,
  "cloud-b-kv": sharedCloudB,
  "cloud-c-sm": sharedCloudC,
  "repo-host": sharedRepoHost,
  "deploy-project": sharedDeployProject,
};
