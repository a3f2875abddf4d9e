import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startIam } from "../doubles/cloud-a/server.ts";
import { startAzure } from "../doubles/cloud-b/azure.ts";
import { startGoogle } from "../doubles/cloud-c/server.ts";
import { startCloudC } from "../doubles/cloud-c-sm/server.ts";
import { cloneOfWorkingTree, freePort, LocalService, remove } from "../smoke/local-service.ts";
import { CHANGES, currentProvider, terraformWith } from "./terraform-program.ts";

const DAY = 86_400_000;

/** Terraform with the engines of AWS, Google Cloud and Azure: a service beside the doubles of their providers. */

const provider = currentProvider();
if (provider.missing !== null) console.warn(`Terraform is not tried with engines: ${provider.missing}.`);

describe.runIf(provider.missing === null)("engines of the Vault provider", { timeout: 300_000 }, () => {
  const dir = mkdtempSync(join(tmpdir(), "sallyport-terraform-"));
  const clone = cloneOfWorkingTree();
  let doubles: { close(): Promise<unknown> }[] = [];
  let service: LocalService;
  let variables: Record<string, object>;
  let iamUrl = "";
  let left: () => Promise<unknown>;

  beforeAll(async () => {
    const [iam, google, azure] = await Promise.all([startIam(), startGoogle(), startAzure()]);
    const logins = await startCloudC({ others: google.others });
    doubles = [iam, google, azure, logins];
    const control = async (path: string, body: object = {}) =>
      (await fetch(`${google.url}/_double/${path}`, { method: "POST", body: JSON.stringify(body) })).json();
    const project = (await control("accounts")) as { account: string; root: string; credentials: object };
    const of = `?account=${project.account}`;
    const { email } = (await control(`account${of}`, { id: "app-account" })) as { email: string };
    await control(`bindings${of}`, {
      resource: `//iam.googleapis.com/projects/${project.account}/serviceAccounts/${email}`,
      bindings: [{ role: "roles/iam.serviceAccountTokenCreator", members: [`serviceAccount:${project.root}`] }],
    });
    const { account: tenant, details } = azure.openAccount({});
    const { account: id, access_key, secret_key, role_arn, policy_arn } = iam.open();
    const { directory } = tenant;
    const adopted = directory.createApplication({ displayName: "adopted" }, null);
    directory.createPrincipal(adopted, null);
    const key = directory.addPassword(adopted, { displayName: "by hand", end: Date.now() + 90 * DAY });
    directory.unseen.show("password", key.keyId);
    directory.unseen.show("passwordInGraph", key.keyId);
    iamUrl = iam.url;
    const account = iam.account(id);
    account.addUser({ name: "worker", path: "/", boundary: "", tags: {}, now: 0 });
    variables = {
      aws: { access_key, secret_key, role_arn, policy_arn },
      google: { project: project.account, credentials: JSON.stringify(project.credentials), account: email },
      azure: {
        subscription_id: details.subscription_id,
        tenant_id: details.tenant_id,
        client_id: details.client_id,
        client_secret: details.client_secret,
        scope: details.resource_group,
        application: details.existing_application.object_id,
        imported: adopted.id,
        key: key.keyId,
      },
    };
    left = async () => [
      [...account.users.keys()].sort(),
      account.keysOf("worker").length,
      await control(`everything${of}`),
      directory.applications.get(details.existing_application.object_id)?.passwords.length,
      tenant.everything().applications.length,
    ];
    const env = {
      SEED: "0",
      AGENT: "0",
      CLOUD_A_IAM_URL: iam.url,
      CLOUD_A_STS_URL: iam.url,
      CLOUD_B_LOGIN_URL: azure.loginUrl,
      CLOUD_B_GRAPH_URL: azure.graphUrl,
      CLOUD_B_ARM_URL: azure.armUrl,
      CLOUD_C_API_URL: google.url,
      CLOUD_C_TOKEN_URL: logins.tokenUrl,
    };
    service = await new LocalService(clone, await freePort(), env).ready();
  });

  afterAll(async () => {
    service?.signal("SIGINT");
    await service?.exit;
    for (const double of doubles) await double.close();
    remove(clone);
    rmSync(dir, { recursive: true, force: true });
  });

  it("are applied, show no difference, issue credentials, and leave nothing when they are destroyed", async () => {
    const copy = (file: string) => cpSync(`test/clients/terraform/engines/${file}`, join(dir, file));
    copy("main.tf");
    const inputs = Object.entries(variables).map(([name, value]) => [`TF_VAR_${name}`, JSON.stringify(value)]);
    // The data source of sessions calls AWS with them.
    const aws = { AWS_ENDPOINT_URL: iamUrl, AWS_REGION: "us-east-1" };
    const env = { VAULT_ADDR: service.baseUrl, VAULT_TOKEN: service.token, ...aws, ...Object.fromEntries(inputs) };
    const run = async (...args: string[]) => {
      const { code, output } = await terraformWith(provider.path, dir, env, ...args);
      expect(code, output).not.toBe(CHANGES);
      expect(code, output).toBe(0);
      return output;
    };
    const before = await left();
    expect(await run("apply", "-auto-approve")).toContain("Resources: 15 added");
    expect(await left()).not.toEqual(before);
    await run("plan", "-detailed-exitcode");
    copy("issue.tf");
    expect(await run("apply", "-auto-approve")).toContain("Resources: 0 added, 0 changed, 0 destroyed");
    rmSync(join(dir, "issue.tf"));
    await run("plan", "-detailed-exitcode");
    // A fresh key of an account that is gone counts as removed only when Google has had time to show it.
    const headers = { "X-Vault-Token": service.token };
    await fetch(`${service.baseUrl}/v1/sys/leases/revoke-prefix/tf-gcp`, { method: "PUT", headers });
    await run("destroy", "-auto-approve");
    await expect.poll(left, { timeout: 60_000 }).toEqual(before);
  });
});
