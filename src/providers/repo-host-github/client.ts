import { createPrivateKey } from "node:crypto";
import { SignJWT } from "jose";
import * as z from "zod";
import type { Failure } from "../../contracts/failure.ts";
import { isListed } from "../../lib/hosts.ts";
import { tryParseJson } from "../../lib/json.ts";
import { memo } from "../../lib/memo.ts";
import { RELEASE } from "../../platform/version.ts";
import { clockDiffers, failure, isWebPage, type Send, withoutEffect, withUnsureEffect } from "../outcome.ts";
import { TokenCache } from "../token-cache.ts";
import { meaningOf } from "./errors.ts";

/** A destination's connection to its repository or organization. Unset fields are absent. */
export interface RepoHostConnection {
  access_token?: string;
  app_name?: string;
  installation_id?: number;
  /** Absent means the repository. */
  secrets_location?: "repository" | "organization";
  /** The part of the service that reads the secrets; absent means Actions. */
  application?: "actions" | "dependabot" | "codespaces";
  repository_owner?: string;
  repository_name?: string;
  environment_name?: string;
  organization_name?: string;
  organization_visibility?: "all" | "private" | "selected";
  selected_repository_names?: string[];
  enterprise_url?: string;
}

/** `SYNC_ALLOWED_HOSTS`: the hosts that `enterprise_url` may name. */
interface RepoHostSettings {
  REPO_HOST_URL?: string | undefined;
  SYNC_ALLOWED_HOSTS?: string | undefined;
}

interface RepoHostContext {
  settings: RepoHostSettings;
  send: Send;
  app?: { appId: string; privateKey: string };
}

/** A failed call. `status` is the call's own; null when it was not sent or not answered. */
export interface Refused {
  ok: false;
  status: number | null;
  outcome: Failure;
  /** Whether the answer's `Date` differs from our clock. */
  clockIsOff?: boolean;
}

/** An answer; `body` is the parsed JSON, or null. */
export type Answer = { ok: true; status: number; headers: Headers; body: unknown } | Refused;

type Method = "GET" | "PUT" | "POST" | "PATCH" | "DELETE";

/** Secrets of an application, or variables of Actions. */
export type Family = "actions" | "dependabot" | "codespaces" | "variables";

export interface RepoHost {
  /** Base URL and credentials, for cache keys only. */
  readonly identity: readonly unknown[];
  readonly kind: "token" | "app";
  /** Sends one request with the connection's token or installation, for example `GET`, `/repos/o/r`. */
  call(method: Method, path: string, body?: unknown): Promise<Answer>;
  /** Checks an application's key and id, apart from its installation; null when valid, and for access tokens. */
  checkApp(): Promise<Refused | null>;
}

interface Installation {
  kind: "app";
  appId: string;
  privateKey: string;
  installationId: number;
}

type Credential = { kind: "token"; token: string } | Installation;

interface InstallationToken {
  token: string;
  expiresAt: number;
}

/** GitHub allows ten minutes from `iat` to `exp`; `iat` is set back a minute for clock differences. */
const jwtBackdateSeconds = 60;
const jwtLifeSeconds = 540;

const installationTokens = new TokenCache<InstallationToken>();

const InstallationAnswer = memo(() => z.object({ permissions: z.record(z.string(), z.string()) }));
const TokenAnswer = memo(() => z.object({ token: z.string().min(1), expires_at: z.iso.datetime({ offset: true }) }));

/**
 * A client of GitHub's REST API, version 2022-11-28, for one operation of an adapter. Authenticates with the
 * connection's access token, or as the installation of its custom application with a token of least permissions. Sends
 * each call once, but renews a refused cached token once.
 */
export function repoHostClient(
  connection: RepoHostConnection,
  { settings, send, app }: RepoHostContext,
  family: Family = connection.application ?? "actions",
): { ok: true; host: RepoHost } | Refused {
  const refusedHost = refuseEnterpriseUrl(connection.enterprise_url, settings);
  if (refusedHost !== null) return refused(failure("client", "host_not_allowed", `${refusedHost}.`));
  const base = baseUrl(connection, settings);
  const found = credentialOf(connection, app);
  if ("outcome" in found) return refused(found);
  const credential = found;
  const grant = grantOf(connection, family);
  const identity = [base, credential];

  async function request(method: Method, path: string, bearer: string, body?: unknown): Promise<Answer> {
    const headers: Record<string, string> = {
      accept: "application/vnd.github+json",
      authorization: `Bearer ${bearer}`,
      "user-agent": `sallyport/${RELEASE}`,
      "x-github-api-version": "2022-11-28",
    };
    if (body !== undefined) headers["content-type"] = "application/json; charset=utf-8";
    const init = body === undefined ? { method, headers } : { method, headers, body: JSON.stringify(body) };
    const call = await send([base + path, init]);
    if (!call.ok) return refused(isWithoutEffect(method, path) ? withoutEffect(call.outcome) : call.outcome);
    const { response, text } = call;
    const parsed = tryParseJson(text) ?? null;
    if (response.ok && method === "GET" && parsed === null) {
      // The answer may come from another server than the service.
      return refused(failure("external", "unreadable_answer", `${method} ${path} was answered, but not with JSON.`));
    }
    if (response.ok && method === "DELETE" && isWebPage(text)) {
      return refused(
        failure("unknown", "unreadable_answer", `${method} ${path} was answered, but not by the provider.`),
      );
    }
    if (response.ok) return { ok: true, status: response.status, headers: response.headers, body: parsed };
    const why = meaningOf(response, parsed, `${method} ${path}`);
    const outcome = isWithoutEffect(method, path) ? why : withUnsureEffect(why, response.status);
    const failed = refused(outcome, response.status);
    return { ...failed, clockIsOff: clockDiffers(response, Date.now(), jwtBackdateSeconds * 1000) };
  }

  /** Sends a request as the application itself, signed with its key. */
  async function asApp(app: Installation, method: Method, path: string, body?: unknown): Promise<Answer> {
    const bearer = await signJwt(app);
    if (bearer === null) {
      return refused(failure("client", "app_key_invalid", "The custom application's private key cannot be used."));
    }
    const answer = await request(method, path, bearer, body);
    if (answer.ok || answer.status !== 401) return answer;
    return answer.clockIsOff ? wrongClock : notAccepted(app);
  }

  /** Issues an installation token, limited to the destination's permissions. */
  async function issue(app: Installation): Promise<{ ok: true; token: InstallationToken } | Refused> {
    const answer = await asApp(app, "POST", `${installationPath(app)}/access_tokens`, grant);
    if (!answer.ok) {
      if (answer.status === 404) return noInstallation(app);
      return answer.status === 422 ? explainGrant(app, answer) : answer;
    }
    const issued = TokenAnswer().safeParse(answer.body);
    if (answer.status !== 201 || !issued.success) {
      return refused(failure("external", "unreadable_answer", "An installation token was requested, but none came."));
    }
    return { ok: true, token: { token: issued.data.token, expiresAt: Date.parse(issued.data.expires_at) } };
  }

  /** Explains a refused installation token: a missing permission, or a repository outside the installation. */
  async function explainGrant(app: Installation, answer: Refused): Promise<Refused> {
    const looked = await asApp(app, "GET", installationPath(app));
    const seen = looked.ok ? InstallationAnswer().safeParse(looked.body) : null;
    if (!seen?.success) return answer;
    const missing = Object.keys(grant.permissions).filter((name) => seen.data.permissions[name] !== "write");
    if (missing.length > 0) {
      const message = `The application's installation lacks the permission ${missing.join(" and ")}: write.`;
      return refused(failure("client", "permission_denied", message));
    }
    if (grant.repositories === undefined) return answer;
    const repository = `${connection.repository_owner}/${connection.repository_name}`;
    const message = `There is no repository ${repository}, or the application's installation does not reach it.`;
    return refused(failure("client", "not_found", message));
  }

  async function bearer(): Promise<{ ok: true; token: string; cached: boolean } | { ok: false; outcome: Failure }> {
    if (credential.kind === "token") return { ok: true, token: credential.token, cached: false };
    let cached = true;
    const got = await installationTokens.get([...identity, grant], () => {
      cached = false;
      return issue(credential);
    });
    return got.ok ? { ok: true, token: got.token.token, cached } : got;
  }

  const host: RepoHost = {
    identity,
    kind: credential.kind,
    async call(method, path, body) {
      const first = await bearer();
      if (!first.ok) return refused(first.outcome);
      const answer = await request(method, path, first.token, body);
      if (answer.ok || answer.status !== 401 || !first.cached) return answer;
      // The cached token was revoked.
      installationTokens.forget([...identity, grant]);
      const renewed = await bearer();
      return renewed.ok ? request(method, path, renewed.token, body) : refused(renewed.outcome);
    },

    async checkApp() {
      if (credential.kind === "token") return null;
      const known = await asApp(credential, "GET", "/app");
      if (!known.ok) return known.status === 404 ? notAccepted(credential) : known;
      const installed = await asApp(credential, "GET", installationPath(credential));
      if (installed.ok) return null;
      return installed.status === 404 ? noInstallation(credential) : installed;
    },
  };
  return { ok: true, host };
}

/**
 * The refusal of an `enterprise_url`, one sentence without a full stop; null when it is allowed. Hosts of ghe.com are
 * GitHub's own. Any other host would receive credentials, so it must be listed in SYNC_ALLOWED_HOSTS.
 */
export function refuseEnterpriseUrl(url: string | undefined, settings: RepoHostSettings): string | null {
  const parsed = URL.parse(url ?? "");
  if (parsed === null || /^([a-z0-9-]+\.)+ghe\.com$/.test(parsed.hostname)) return null;
  if (isListed(parsed, settings.SYNC_ALLOWED_HOSTS)) return null;
  return `enterprise_url: the host ${parsed.host} is not one that the setting SYNC_ALLOWED_HOSTS lists`;
}

/** The API's base URL, without a trailing slash: /api/v3 on GitHub Enterprise Server, a host of its own on GHE.com. */
function baseUrl({ enterprise_url: enterprise }: RepoHostConnection, settings: RepoHostSettings): string {
  const url = URL.parse(enterprise ?? "");
  if (url === null) return (settings.REPO_HOST_URL || "https://api.github.com").replace(/\/+$/, "");
  if (!url.hostname.endsWith(".ghe.com")) return `${url.origin}/api/v3`;
  return url.host.startsWith("api.") ? url.origin : `https://api.${url.host}`;
}

function credentialOf(connection: RepoHostConnection, app: RepoHostContext["app"]): Credential | Failure {
  const { access_token: token, app_name: name, installation_id: installationId } = connection;
  if (name !== undefined && installationId !== undefined) {
    if (app !== undefined) return { kind: "app", ...app, installationId };
    return failure("client", "app_missing", `There is no custom application ${name}.`);
  }
  if (token !== undefined) return { kind: "token", token };
  return failure("client", "credentials_missing", "The destination has neither an access token nor an application.");
}

/** The scope of an installation token: the least permissions for the destination. */
interface Grant {
  repositories?: string[];
  permissions: Record<string, "write">;
}

const familyPermissions: Readonly<Record<Family, string>> = {
  actions: "secrets",
  dependabot: "dependabot_secrets",
  codespaces: "codespaces_secrets",
  variables: "actions_variables",
};

function grantOf(connection: RepoHostConnection, family: Family): Grant {
  const permission = familyPermissions[family];
  if (connection.secrets_location === "organization")
    return { permissions: { [`organization_${permission}`]: "write" } };
  const permissions: Grant["permissions"] = { [permission]: "write" };
  if (connection.environment_name !== undefined) permissions["environments"] = "write";
  return { repositories: [connection.repository_name ?? ""], permissions };
}

/** Whether a call whose answer is lost changed nothing: reads, and the issue of an installation token. */
const isWithoutEffect = (method: Method, path: string): boolean =>
  method === "GET" || (method === "POST" && path.startsWith("/app/"));

/** Signs the application's JWT; null when the key cannot sign. */
async function signJwt({ appId, privateKey }: { appId: string; privateKey: string }): Promise<string | null> {
  const now = Math.floor(Date.now() / 1000);
  try {
    return await new SignJWT({ iat: now - jwtBackdateSeconds, exp: now + jwtLifeSeconds })
      .setProtectedHeader({ alg: "RS256", typ: "JWT" })
      .setIssuer(appId)
      .sign(createPrivateKey(privateKey));
  } catch {
    return null;
  }
}

const refused = (outcome: Failure, status: number | null = null): Refused => ({ ok: false, status, outcome });

/** Whether a list has another page ("Using pagination in the REST API"). A server may answer fewer items than requested. */
export const hasNextPage = (headers: Headers): boolean => /rel="next"/.test(headers.get("link") ?? "");

const installationPath = ({ installationId }: Installation) => `/app/installations/${installationId}`;

const notAccepted = ({ appId }: Installation): Refused => {
  const message = `The id ${appId} and the private key of the custom application are not accepted.`;
  return refused(failure("client", "auth_failed", message), 401);
};

const wrongClock = refused(
  failure("client", "auth_failed", "The application's token is not accepted: GitHub's clock and ours differ too much."),
  401,
);

const noInstallation = ({ installationId: id }: Installation): Refused =>
  refused(failure("client", "installation_not_found", `The application has no installation ${id}.`));
