import { env } from "cloudflare:workers";
import { crc32c } from "../../src/lib/crc32c.ts";
import type { Credentials as RepoHostAccount } from "../doubles/repo-host/state.ts";
import { cloudA } from "./sync-cloud-a.ts";
import type { ProviderAccount } from "./sync-doubles.ts";

/** Another writer at the account of a test: writes foreign objects and reads tags. */

async function json(url: string, init?: RequestInit): Promise<unknown> {
  const answer = await fetch(url, init);
  if (!answer.ok) throw new Error(`${url}: ${answer.status} ${await answer.text()}`);
  return answer.json();
}

/** Speaks to the double of the account. */
function at({ type, body, ...rest }: ProviderAccount) {
  const { cloudB, cloudC, repoHost } = env.TEST_DOUBLES;
  const [url, account] =
    type === "cloud-b-kv"
      ? [cloudB, String(body["tenant_id"])]
      : type === "cloud-c-sm"
        ? [cloudC, String((JSON.parse(String(body["credentials"])) as { project_id: string }).project_id)]
        : [repoHost, (rest as unknown as { account: RepoHostAccount }).account.account];
  const path = (name: string) => `${url}/_double/${name}?account=${encodeURIComponent(account)}`;
  return {
    call: (change: unknown) => json(path("call"), { method: "POST", body: JSON.stringify(change) }),
    secrets: () => json(path("secrets")) as Promise<Record<string, unknown>[]>,
  };
}

/** Writes a foreign object under an unused name. */
export async function foreign(account: ProviderAccount, name: string, value: string): Promise<unknown> {
  const { type, body } = account;
  switch (type) {
    case "cloud-a-sm":
      return cloudA.call("CreateSecret", {
        Name: name,
        SecretString: value,
        ClientRequestToken: crypto.randomUUID(),
      });
    case "cloud-b-kv":
      return at(account).call({ operation: "SetSecret", name, body: { value } });
    case "cloud-c-sm": {
      const secret = { replication: { automatic: {} } };
      await at(account).call({ operation: "CreateSecret", query: { secretId: name }, body: secret });
      const bytes = Buffer.from(value);
      const payload = { data: bytes.toString("base64"), dataCrc32c: String(crc32c(bytes)) };
      return at(account).call({ operation: "AddSecretVersion", secretId: name, body: { payload } });
    }
    case "repo-host": {
      const place = `${body["repository_owner"]}/${body["repository_name"]}`;
      return at(account).call({ operation: "put-secret", place, name, value });
    }
    default: {
      const variable = { key: name, value, type: "encrypted", target: body["deployment_environments"] };
      return json(`${env.TEST_DOUBLES.deployProject}/v10/projects/${body["project_id"]}/env`, {
        method: "POST",
        headers: { Authorization: `Bearer ${body["access_token"]}`, "Content-Type": "application/json" },
        body: JSON.stringify(variable),
      });
    }
  }
}

/** The tags or labels of an object. */
export async function tagsOf(account: ProviderAccount, name: string): Promise<Record<string, string> | undefined> {
  if (account.type === "cloud-a-sm") return (await cloudA.secrets()).find((secret) => secret.name === name)?.tags;
  const found = (await at(account).secrets()).find((secret) => secret["name"] === name);
  return (found?.["tags"] ?? found?.["labels"]) as Record<string, string> | undefined;
}
