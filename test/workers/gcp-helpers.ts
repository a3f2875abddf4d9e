import { env } from "cloudflare:workers";
import type { Fault } from "../doubles/cloud-c/server.ts";
import { get } from "./client.ts";

/** A project at the double of Google's IAM, with the key of the engine's account. */
export async function openProject() {
  const url = env.TEST_DOUBLES.cloudCIam;
  const control = async (path: string, body: unknown = {}): Promise<unknown> =>
    (await fetch(`${url}/_double/${path}`, { method: "POST", body: JSON.stringify(body) })).json();
  const { account, root, credentials } = (await control("accounts")) as {
    account: string;
    root: string;
    credentials: Record<string, string>;
  };
  const of = `?account=${account}`;
  const resource = `//cloudresourcemanager.googleapis.com/projects/${account}`;
  return {
    account,
    root,
    credentials,
    config: { credentials: JSON.stringify(credentials) },
    resource,
    bindings: `resource "${resource}" { roles = ["roles/viewer", "roles/browser"] }`,
    everything: async () => (await control(`everything${of}`)) as string[],
    fault: (fault: Fault) => control(`faults${of}`, fault),
    /** Makes a service account, which the engine may impersonate. */
    async add(id: string): Promise<string> {
      const { email } = (await control(`account${of}`, { id })) as { email: string };
      await control(`bindings${of}`, {
        resource: `//iam.googleapis.com/projects/${account}/serviceAccounts/${email}`,
        bindings: [{ role: "roles/iam.serviceAccountTokenCreator", members: [`serviceAccount:${root}`] }],
      });
      return email;
    },
    /** Trusts the identity tokens of a mount to act as the engine's account. The key set is copied, because doubles cannot fetch it. */
    async trust(mount: string, audience: string): Promise<void> {
      const documents = "/v1/identity/oidc/plugins/.well-known";
      const { issuer } = (await get(`${documents}/openid-configuration`, { token: null })).body;
      const keys = (await get(`${documents}/keys`, { token: null })).body;
      const subject = `plugin-identity:root:secret:${(await get(`/v1/sys/mounts/${mount}`)).body.data.accessor}`;
      const trust = { issuer, subject, audience, keys, provider: audience.replace("https:", ""), email: root };
      await fetch(`${env.TEST_DOUBLES.cloudC}/_double/trust`, { method: "POST", body: JSON.stringify(trust) });
    },
  };
}
