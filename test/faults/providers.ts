import { defaultKey, startCloudA } from "../doubles/cloud-a-sm/server.ts";
import { startAzure } from "../doubles/cloud-b/azure.ts";
import type { Fault as AzureFault, Everything } from "../doubles/cloud-b/azure-types.ts";
import { startCloudB } from "../doubles/cloud-b-kv/server.ts";
import { startCloudC } from "../doubles/cloud-c-sm/server.ts";
import { startDeployProject } from "../doubles/deploy-project/api.ts";
import { startRepoHost } from "../doubles/repo-host/server.ts";
import { type EngineProvider, startEngineProviders } from "./engine-providers.ts";
import { Line } from "./proxy-line.ts";
import { startStandInStores } from "./stand-in-stores.ts";

/** A fault for the next `count` requests to a provider; every double implements these. */
export type Fault = { count: number } & (
  | { fault: "raw"; status: number; body: string; headers?: Record<string, string> }
  | { fault: "delay"; ms: number }
  | { fault: "drop" | "apply-then-drop" }
);

/** A provider that can crash and restart with its data, and misbehaves on request. */
export interface Provider {
  readonly name: string;
  /** Where the service finds it. */
  readonly lines: readonly Line[];
  fault(fault: Fault): void;
  clearFaults(): void;
}

/** A provider of synced secrets. */
export interface Store extends Provider {
  /** The body of a destination. */
  readonly body: Readonly<Record<string, unknown>>;
  /** How many requests have reached it that are about secrets. */
  calls(): number;
  /** The stored objects: names and values. */
  objects(): Map<string, string>;
}

export interface Directory extends Provider {
  readonly config: Readonly<Record<string, string>>;
  /** Of an application that is not the engine's own. */
  readonly existingApplication: string;
  readonly rootApplication: string;
  readonly scope: string;
  everything(): Everything;
  /** Whether credentials are good for anything. */
  accepts(clientId: string, secret: string): boolean;
}

export interface Providers {
  readonly stores: Readonly<Record<string, Store>>;
  readonly cloudA: { versions(name: string): readonly string[] };
  /** How many versions of each secret can be read. */
  readonly cloudC: { readable(): ReadonlyMap<string, number> };
  readonly directory: Directory;
  /** The providers of the other engines. */
  readonly engines: readonly EngineProvider[];
  readonly all: readonly Provider[];
  /** For the Worker: where they are. */
  readonly settings: Readonly<Record<string, string>>;
  close(): Promise<void>;
}

const portOf = (url: string) => Number(new URL(url).port);
/** A line to a target that is started later, or never ends. */
const lineTo = (url: () => string) => new Line(() => portOf(url())).open();
const UNLIMITED = 10_000_000;

/** The providers of all destinations, and the directory of the credentials engine, each behind separate lines. */
export async function startProviders(): Promise<Providers> {
  const urls = { vault: "" };
  const vaultLine = await lineTo(() => urls.vault);
  const azure = await startAzure();
  const { account: tenant, details } = azure.openAccount({
    pageSize: UNLIMITED,
    lags: { application: { requests: 1 }, principal: { requests: 1 }, principalInArm: { requests: 1 } },
  });
  const engines = await startEngineProviders(azure);
  const [cloudA, cloudB, cloudC, repoHost, deployProject] = await Promise.all([
    startCloudA({ regions: ["eu-west-1"], maxVersions: UNLIMITED }),
    startCloudB({
      otherTenants: azure.otherTenants,
      account: { vaultUri: vaultLine.url, createsPer10s: UNLIMITED },
    }),
    startCloudC({ others: engines.others, writesPerSecret: UNLIMITED, writesPerMinute: UNLIMITED }),
    startRepoHost({ rates: { perHour: UNLIMITED, writesPerMinute: UNLIMITED } }),
    startDeployProject({ perMinute: UNLIMITED }),
  ]);
  urls.vault = cloudB.account.key_vault_uri;
  const [a, login, c, repo, deploy, graph, arm] = (await Promise.all(
    [cloudA.url, cloudB.url, cloudC.url, repoHost.url, deployProject.url, azure.graphUrl, azure.armUrl].map((url) =>
      lineTo(() => url),
    ),
  )) as [Line, Line, Line, Line, Line, Line, Line];
  const { accessToken, projectId } = deployProject.account;
  const standIns = await startStandInStores({
    repoHost: async () => repoHost,
    cloudB: async () => ({ double: cloudB, nextSecond: () => undefined }),
  });
  const stores: Record<string, Store> = {
    ...standIns.stores,
    "cloud-a-sm": {
      name: "cloud-a",
      lines: [a],
      body: {
        access_key_id: defaultKey.accessKeyId,
        secret_access_key: defaultKey.secretAccessKey,
        region: "eu-west-1",
      },
      fault: (fault) => cloudA.fault(fault),
      clearFaults: () => cloudA.clearFaults(),
      calls: () => cloudA.requests().length,
      objects: () =>
        new Map(
          cloudA
            .secrets()
            .filter(({ scheduledForDeletion }) => !scheduledForDeletion)
            .map(({ name, value }) => [name, value ?? ""]),
        ),
    },
    "cloud-b-kv": {
      name: "cloud-b",
      lines: [vaultLine, login],
      body: { ...cloudB.account, key_vault_uri: vaultLine.url },
      fault: (fault) => cloudB.fault(fault),
      clearFaults: () => cloudB.clearFaults(),
      calls: () => cloudB.requests().filter(({ service }) => service === "vault").length,
      objects: () =>
        new Map(
          cloudB
            .secrets()
            .filter(({ state }) => state === "active" || state === "recovering")
            .map(({ name, value }) => [name, value]),
        ),
    },
    "cloud-c-sm": {
      name: "cloud-c",
      lines: [c],
      body: { credentials: JSON.stringify(cloudC.credentials) },
      fault: (fault) => cloudC.fault(fault),
      clearFaults: () => cloudC.clearFaults(),
      // The engine of Google Cloud logs in there, too.
      calls: () => cloudC.requests().filter(({ operation }) => operation !== "Token").length,
      objects: () => new Map(cloudC.secrets().map(({ name, value }) => [name, value ?? ""])),
    },
    "repo-host": {
      name: "repo-host",
      lines: [repo],
      body: {
        access_token: repoHost.main.credentials.accessToken,
        repository_owner: repoHost.main.credentials.owner,
        repository_name: repoHost.main.credentials.repository,
      },
      fault: (fault) => repoHost.main.fault(fault),
      clearFaults: () => repoHost.main.clearFaults(),
      calls: () => repoHost.main.requests().length,
      objects: () => new Map(repoHost.main.secrets().map(({ name, value }) => [name, value])),
    },
    "deploy-project": {
      name: "deploy-project",
      lines: [deploy],
      body: { access_token: accessToken, project_id: projectId, deployment_environments: ["preview", "production"] },
      fault: (fault) => deployProject.fault(fault),
      clearFaults: () => deployProject.clearFaults(),
      calls: () => deployProject.requests().length,
      objects: () => new Map(deployProject.secrets().map(({ key, value }) => [key, value])),
    },
  };
  const directory: Directory = {
    name: "directory",
    lines: [graph, arm],
    config: {
      subscription_id: details.subscription_id,
      tenant_id: details.tenant_id,
      client_id: details.client_id,
      client_secret: details.client_secret,
    },
    existingApplication: details.existing_application.object_id,
    rootApplication: details.root.object_id,
    scope: details.resource_group,
    fault: (fault) => tenant.fault(fault satisfies AzureFault),
    clearFaults: () => tenant.clearFaults(),
    everything: () => structuredClone(tenant.everything()),
    accepts: (clientId, secret) =>
      [...tenant.directory.applications.values(), ...tenant.directory.principals.values()].some(
        ({ appId, deleted, passwords }) =>
          appId === clientId && !deleted && passwords.some(({ secretText }) => secretText === secret),
      ),
  };
  const all = [...Object.values(stores), directory, ...engines.engines];
  return {
    stores,
    cloudA: {
      versions: (name) =>
        cloudA
          .secrets()
          .find((secret) => secret.name === name)
          ?.versions.map(({ sha256 }) => sha256) ?? [],
    },
    cloudC: {
      readable: () =>
        new Map(
          cloudC.secrets().map(({ name, versions }) => [name, versions.filter(({ value }) => value !== null).length]),
        ),
    },
    directory,
    engines: engines.engines,
    all,
    settings: {
      ...standIns.settings,
      ...engines.settings,
      CLOUD_A_SM_URL: a.url,
      CLOUD_A_STS_URL: a.url,
      CLOUD_B_LOGIN_URL: login.url,
      CLOUD_B_GRAPH_URL: graph.url,
      CLOUD_B_ARM_URL: arm.url,
      CLOUD_C_SM_URL: c.url,
      CLOUD_C_TOKEN_URL: `${c.url}/token`,
      REPO_HOST_URL: repo.url,
      DEPLOY_PROJECT_URL: deploy.url,
      SYNC_ALLOWED_HOSTS: "127.0.0.1",
    },
    close: async () => {
      for (const { lines } of all) for (const line of lines) line.close();
      await standIns.close();
      await engines.close();
      await Promise.all([azure, cloudA, cloudB, cloudC, repoHost, deployProject].map((double) => double.close()));
    },
  };
}
