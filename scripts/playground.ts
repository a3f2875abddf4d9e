/**
 * The providers on this machine (`PLAYGROUND=1 npm start`): the servers of the tests, each with one account whose
 * credentials are ready as request bodies for a destination or the credentials engine; and the systems for logins. No
 * request reaches a real cloud.
 */
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { defaultKey, startCloudA } from "../test/doubles/cloud-a-sm/server.ts";
import { startAzure } from "../test/doubles/cloud-b/azure.ts";
import { startCloudB } from "../test/doubles/cloud-b-kv/server.ts";
import { startCloudC } from "../test/doubles/cloud-c-sm/server.ts";
import { startDeployProject } from "../test/doubles/deploy-project/api.ts";
import { startLoginIssuers } from "../test/doubles/login-issuers.ts";
import { startRepoHost } from "../test/doubles/repo-host/server.ts";

export interface Playground {
  /** Settings of the Worker with the providers' addresses. */
  readonly settings: Readonly<Record<string, string>>;
  /** Folder of seeds (scripts/seed.ts): an engine at `azure/` with the role `reader`, ready to issue credentials. */
  readonly seeds: string;
  close(): Promise<void>;
}

/**
 * Starts the providers, and writes their addresses and credentials into `dir`, which is emptied first.
 * @param serviceUrl the address of the service for logins
 */
export async function startPlayground(dir: string, serviceUrl: string): Promise<Playground> {
  rmSync(dir, { recursive: true, force: true });
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  const azure = await startAzure();
  const { details: tenant } = azure.openAccount();
  // The seeded engine has an application of its own, whose secret no other engine rotates away.
  const { details: seededTenant } = azure.openAccount();
  const [cloudA, cloudB, cloudC, repoHost, deployProject, logins] = await Promise.all([
    startCloudA({ regions: ["eu-west-1"] }),
    startCloudB({ otherTenants: azure.otherTenants }),
    startCloudC(),
    startRepoHost(),
    startDeployProject(),
    startLoginIssuers(serviceUrl),
  ]);
  const { credentials } = repoHost.main;
  const bodies: Readonly<Record<string, object>> = {
    "cloud-a-sm": {
      access_key_id: defaultKey.accessKeyId,
      secret_access_key: defaultKey.secretAccessKey,
      region: "eu-west-1",
    },
    "cloud-b-kv": { ...cloudB.account },
    "cloud-b": engineBody(tenant),
    "cloud-b-role": roleBody(tenant),
    "cloud-c-sm": { credentials: JSON.stringify(cloudC.credentials) },
    "repo-host-app": { app_id: credentials.appId, private_key: credentials.appKey },
    "repo-host": {
      app_name: "sync-bot",
      installation_id: credentials.installationId,
      repository_owner: credentials.owner,
      repository_name: credentials.repository,
    },
    "deploy-project": {
      access_token: deployProject.account.accessToken,
      project_id: deployProject.account.projectId,
      deployment_environments: ["preview", "production"],
    },
  };
  for (const [name, body] of Object.entries(bodies)) {
    writeFileSync(join(dir, `${name}.json`), `${JSON.stringify(body, null, 2)}\n`, { mode: 0o600 });
  }
  const seeds = join(dir, "seeds");
  mkdirSync(seeds, { mode: 0o700 });
  const engine = {
    because: "A newcomer issues credentials without an account of a cloud.",
    requests: [
      { method: "POST", path: "/v1/sys/mounts/azure", body: { type: "cloud-b", description: "a stand-in of Azure" } },
      { method: "POST", path: "/v1/azure/config", body: engineBody(seededTenant) },
      { method: "POST", path: "/v1/azure/roles/reader", body: roleBody(seededTenant) },
    ],
  };
  writeFileSync(join(seeds, "credentials.json"), JSON.stringify(engine), { mode: 0o600 });
  const addresses = {
    CLOUD_A: cloudA.url,
    CLOUD_B: cloudB.url,
    CLOUD_C: cloudC.url,
    REPO_HOST: repoHost.url,
    DEPLOY_PROJECT: deployProject.url,
  };
  const everything = `export CLOUD_B_EVERYTHING='${azure.graphUrl}/_double/everything?account=${tenant.account}'`;
  const lines = Object.entries(addresses).map(([name, url]) => `export ${name}=${url}/_double`);
  const issuers = Object.entries(logins.values).map(([name, value]) => `export ${name}='${value}'`);
  const script = `${[...lines, everything, ...issuers].join("\n")}\n`;
  writeFileSync(join(dir, "providers.sh"), script, { mode: 0o600 });
  return {
    seeds,
    settings: {
      CLOUD_A_SM_URL: cloudA.url,
      CLOUD_A_STS_URL: cloudA.url,
      CLOUD_B_LOGIN_URL: cloudB.url,
      CLOUD_B_GRAPH_URL: azure.graphUrl,
      CLOUD_B_ARM_URL: azure.armUrl,
      CLOUD_C_SM_URL: cloudC.url,
      CLOUD_C_TOKEN_URL: cloudC.tokenUrl,
      REPO_HOST_URL: repoHost.url,
      DEPLOY_PROJECT_URL: deployProject.url,
      SYNC_ALLOWED_HOSTS: "127.0.0.1",
    },
    close: async () => {
      const providers = [azure, cloudA, cloudB, cloudC, repoHost, deployProject, logins];
      await Promise.all(providers.map((provider) => provider.close()));
    },
  };
}

type Tenant = Readonly<Record<"subscription_id" | "tenant_id" | "client_id" | "client_secret", string>>;

const engineBody = ({ subscription_id, tenant_id, client_id, client_secret }: Tenant): object => ({
  subscription_id,
  tenant_id,
  client_id,
  client_secret,
});

const roleBody = ({ subscription_id }: Tenant): object => ({
  cloud_roles: [{ role_name: "Reader", scope: `/subscriptions/${subscription_id}` }],
  cloud_groups: [{ group_name: "developers" }],
  ttl: "1h",
  max_ttl: "24h",
});
