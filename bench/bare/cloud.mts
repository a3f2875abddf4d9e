import { AwsClient } from "aws4fetch";

/** The requests that make and remove credentials, sent one after the other with a token that is held; nothing is decided or kept. */

const GRAPH = "https://graph.microsoft.com";
const ASSIGNMENTS = "api-version=2022-04-01";
const YEAR_MS = 365 * 86_400_000;

/** Rights named by the engine's role, too. */
export interface Rights {
  readonly scope: string;
  readonly roleDefinitionId: string;
  readonly group: string;
}

let token: Promise<string> | undefined;

async function obtainToken(url: string): Promise<string> {
  const body = new URLSearchParams({
    grant_type: "client_credentials",
    client_id: crypto.randomUUID(),
    scope: `${GRAPH}/.default`,
    client_secret: "secret",
  });
  const response = await fetch(`${url}/tenant/oauth2/v2.0/token`, { method: "POST", body });
  return ((await response.json()) as { access_token: string }).access_token;
}

async function call<Answer>(url: string, method: string, path: string, body?: unknown): Promise<Answer> {
  token ??= obtainToken(url);
  const response = await fetch(url + path, {
    method,
    headers: {
      accept: "application/json",
      authorization: `Bearer ${await token}`,
      ...(body !== undefined && { "content-type": "application/json" }),
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status}`);
  return (text === "" ? null : JSON.parse(text)) as Answer;
}

/** An application, its principal, a role, a group and a password. */
export async function makeCredentials(url: string, { scope, roleDefinitionId, group }: Rights): Promise<unknown> {
  const displayName = `vault-${crypto.randomUUID()}`;
  const application = await call<{ appId: string }>(url, "POST", "/v1.0/applications", { displayName, tags: [] });
  const { id: principalId } = await call<{ id: string }>(url, "POST", "/v1.0/servicePrincipals", {
    appId: application.appId,
  });
  const at = `${scope}/providers/Microsoft.Authorization/roleAssignments/${crypto.randomUUID()}?${ASSIGNMENTS}`;
  await call(url, "PUT", at, { properties: { roleDefinitionId, principalId, principalType: "ServicePrincipal" } });
  await call(url, "POST", `/v1.0/groups/${group}/members/$ref`, {
    "@odata.id": `${GRAPH}/v1.0/directoryObjects/${principalId}`,
  });
  const [startDateTime, endDateTime] = [0, YEAR_MS].map((after) => new Date(Date.now() + after).toISOString());
  const password = await call<{ secretText: string }>(
    url,
    "POST",
    `/v1.0/servicePrincipals/${principalId}/addPassword`,
    { passwordCredential: { startDateTime, endDateTime } },
  );
  return { client_id: application.appId, client_secret: password.secretText };
}

/** Removes the created resources, rights first. */
export async function removeCredentials(url: string, { scope, group }: Rights): Promise<void> {
  const [assignment, principal, application] = [crypto.randomUUID(), crypto.randomUUID(), crypto.randomUUID()];
  const paths = [
    `${scope}/providers/Microsoft.Authorization/roleAssignments/${assignment}?${ASSIGNMENTS}`,
    `/v1.0/groups/${group}/members/${principal}/$ref`,
    `/v1.0/servicePrincipals/${principal}`,
    `/v1.0/applications/${application}`,
  ];
  for (const path of paths) await call(url, "DELETE", path);
}

/** Credentials of the other engines, by the last part of the path. */
export type OtherKind = "aws-session" | "aws-user" | "google-token";

export const OTHERS: Readonly<Record<OtherKind, (url: string) => Promise<unknown>>> = {
  "aws-session": (url) =>
    action(url, "sts", "AssumeRole", { RoleArn: "arn:aws:iam::123456789012:role/app", RoleSessionName: "bench" }),

  /** A user with a policy and a key. */
  async "aws-user"(url) {
    const UserName = `vault-${crypto.randomUUID()}`;
    await action(url, "iam", "CreateUser", { UserName });
    await action(url, "iam", "AttachUserPolicy", { UserName, PolicyArn: "arn:aws:iam::aws:policy/ReadOnlyAccess" });
    return action(url, "iam", "CreateAccessKey", { UserName });
  },

  "google-token": (url) =>
    call(url, "POST", "/v1/projects/-/serviceAccounts/app@bench.example:generateAccessToken", {
      scope: ["https://www.googleapis.com/auth/cloud-platform"],
      lifetime: "3600s",
    }),
};

async function action(
  url: string,
  service: "iam" | "sts",
  name: string,
  parameters: Readonly<Record<string, string>>,
): Promise<string> {
  const key = { accessKeyId: "AKIABENCH", secretAccessKey: "secret" };
  const client = new AwsClient({ ...key, service, region: "us-east-1", retries: 0 });
  const body = new URLSearchParams({ Action: name, Version: "2011-06-15", ...parameters }).toString();
  const headers = { "content-type": "application/x-www-form-urlencoded; charset=utf-8" };
  const response = await client.fetch(url, { method: "POST", headers, body });
  const text = await response.text();
  if (!response.ok) throw new Error(`${name}: ${response.status}`);
  return text;
}
