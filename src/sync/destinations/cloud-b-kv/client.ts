import * as z from "zod";
import type { Failure } from "../../../contracts/failure.ts";
import { isListed, isLoopback } from "../../../lib/hosts.ts";
import { tryParseJson } from "../../../lib/json.ts";
import { memo } from "../../../lib/memo.ts";
import {
  applicationOf,
  type Cloud,
  cloudNamed,
  clouds,
  sendAuthorized,
  word,
} from "../../../providers/cloud-b-azure/login.ts";
import type { ClientAssertion } from "../../../providers/identity-token.ts";
import { failure, isWebPage, retryAfterMs, type Send, withUnsureEffect } from "../../../providers/outcome.ts";
import { type Meaning, meaningsBy, type RestMethod } from "../../../providers/rest.ts";

/** A destination's connection to its vault. */
export interface CloudBConnection {
  /** The vault's address, an origin. */
  key_vault_uri: string;
  tenant_id: string;
  client_id: string;
  /** Absent with `identity_token_audience`. */
  client_secret?: string | undefined;
  identity_token_audience?: string | undefined;
  identity_token_key?: string | undefined;
  identity_token_ttl?: number | undefined;
  /** A cloud's name in any spelling; absent is the public one. */
  cloud?: string | undefined;
}

/** The settings read here. `SYNC_ALLOWED_HOSTS`: see `refuseVaultHost`. */
interface CloudBSettings {
  CLOUD_B_LOGIN_URL?: string | undefined;
  SYNC_ALLOWED_HOSTS?: string | undefined;
}

/**
 * A failed call. `code` and `inner` (from `innererror`) are the vault's error codes, "" when unreadable. `status` is
 * null without an answer.
 */
export interface VaultFailure {
  ok: false;
  status: number | null;
  code: string;
  inner: string;
  outcome: Failure;
}

type VaultAnswer = { ok: true; body: unknown } | VaultFailure;

export type KeyVault = ReturnType<typeof keyVault>;

/** The oldest version supported by the vendor's current client; the requests used here are the same in later versions. */
const apiVersion = "7.5";

/** A client of one Key Vault's data plane. `settings` must allow the vault's host. */
export function keyVault(
  connection: CloudBConnection,
  { settings, send, identity }: { settings: CloudBSettings; send: Send; identity?: ClientAssertion | undefined },
) {
  const { key_vault_uri: base, tenant_id: tenantId } = connection;
  const cloud = cloudOf(connection) ?? clouds[0];
  const account = applicationOf(connection, { identity }, cloud.vaultResource, settings.CLOUD_B_LOGIN_URL, cloud);
  return {
    /**
     * Sends one request, once; the caller retries.
     * @param operation the operation's name, for messages
     * @param path begins with a slash; the API version is added to its query
     */
    async call(
      operation: string,
      method: RestMethod,
      path: string,
      body?: Record<string, unknown>,
    ): Promise<VaultAnswer> {
      // Checked again before the token is sent: settings may have changed since the destination was written.
      const refused = refuseVaultHost(connection, settings);
      if (refused !== null) return unanswered(failure("client", "host_not_allowed", `${refused}.`));
      const url = new URL(path, base);
      url.searchParams.set("api-version", apiVersion);
      const headers = { accept: "application/json", ...(body && { "content-type": "application/json" }) };
      const init = { method, headers, ...(body && { body: JSON.stringify(body) }) };
      const call = await sendAuthorized(account, [url.href, init], send);
      if (!call.ok) return unanswered(call.outcome);
      const answered = tryParseJson(call.text);
      if (!call.response.ok) {
        const refused = refusal(call.response, answered, operation, tenantId);
        return method === "GET"
          ? refused
          : { ...refused, outcome: withUnsureEffect(refused.outcome, call.response.status) };
      }
      if (typeof answered === "object" && answered !== null) return { ok: true, body: answered };
      if (method === "DELETE" && !isWebPage(call.text)) return { ok: true, body: {} };
      // The answer may come from another server than the service.
      return unanswered(failure("unknown", "unreadable_answer", `${operation} was answered, but not with JSON.`));
    },
  };
}

const unanswered = (outcome: Failure): VaultFailure => ({ ok: false, status: null, code: "", inner: "", outcome });

/** The failure of a read for a success of another shape. */
export const unreadable = (operation: string): Failure =>
  failure("external", "unreadable_answer", `${operation} was answered, but not as the service answers it.`);

/** The cloud of a connection; null for an unknown name. The value `cloud` means the default. */
export const cloudOf = ({ cloud }: Pick<CloudBConnection, "cloud">): Cloud | null =>
  cloud === undefined || cloud === "cloud" ? clouds[0] : cloudNamed(cloud);

/** "Naming rules for Azure resources", Microsoft.KeyVault: 3 to 24 letters, digits and single hyphens, first a letter. */
const vaultName = /^(?!.*--)[a-z][a-z0-9-]{1,22}[a-z0-9]$/;

/**
 * The refusal of a vault's host, to which tokens would be sent; null when it is allowed. One sentence without a full
 * stop. Allowed are hosts of the connection's cloud and those in `SYNC_ALLOWED_HOSTS`; http for listed loopback hosts.
 */
export function refuseVaultHost(connection: CloudBConnection, settings: CloudBSettings): string | null {
  const { name, vaultSuffix } = cloudOf(connection) ?? clouds[0];
  const url = new URL(connection.key_vault_uri);
  const isVault = (vault: string, suffix: string) => suffix === vaultSuffix && vaultName.test(vault);
  const example = `a vault of ${name}, such as my-vault.${vaultSuffix}`;
  return refuseCloudHost("key_vault_uri", url, isVault, example, settings);
}

/**
 * The refusal of a host of the provider: not one of the connection's cloud, nor in `SYNC_ALLOWED_HOSTS`; http, except for
 * listed loopback hosts.
 * @param isOwn whether a resource's name and the rest of its host are valid ones of the cloud
 */
export function refuseCloudHost(
  field: string,
  url: URL,
  isOwn: (resource: string, suffix: string) => boolean,
  example: string,
  { SYNC_ALLOWED_HOSTS: list }: Pick<CloudBSettings, "SYNC_ALLOWED_HOSTS">,
): string | null {
  const listed = isListed(url, list);
  if (url.protocol !== "https:" && !(listed && isLoopback(url.hostname))) return `${field}: must begin with https://`;
  const [resource = "", ...suffix] = url.host.split(".");
  if (listed || isOwn(resource, suffix.join("."))) return null;
  return `${field}: the host must be ${example}, or one that the setting SYNC_ALLOWED_HOSTS lists`;
}

const throttled: Meaning = ["external", "throttled", "too many requests"];
const unavailable: Meaning = ["external", "provider_unavailable", "the provider failed"];
const contended: Meaning = ["external", "contended", "another caller changes the secret at the same time"];

/** Meanings by `innererror.code`, else `code` ("Azure Key Vault REST API error codes"). */
const byWord = meaningsBy<string>(
  [["client", "permission_denied", "no role of the application grants it"], "ForbiddenByRbac"],
  [
    ["client", "permission_denied", "the vault's access policy does not let the application do it"],
    "ForbiddenByPolicy",
    "AccessDenied",
  ],
  [
    ["client", "permission_denied", "the vault's firewall does not let this service in"],
    "ForbiddenByFirewall",
    "ForbiddenByConnection",
  ],
  [["external", "name_held", "a deleted secret holds the name"], "ObjectIsDeletedButRecoverable"],
  [["external", "name_held", "a secret of this name is still being deleted"], "ObjectIsBeingDeleted"],
  [["external", "name_held", "a secret of this name is still being recovered"], "ObjectIsBeingRecovered"],
  [["client", "not_found", "there is no such secret"], "SecretNotFound"],
  [["client", "invalid_parameter", "a parameter is not valid"], "BadParameter"],
  [throttled, "Throttled"],
);

const ErrorBody = memo(() =>
  z.object({
    error: z.object({ code: z.unknown(), innererror: z.object({ code: z.unknown() }).nullish().catch(null) }),
  }),
);

/** The failure for an answer without success. Its message is never read, because it may quote the request. */
function refusal(response: Response, body: unknown, operation: string, tenantId: string): VaultFailure {
  const error = ErrorBody().safeParse(body).data?.error;
  const [code, inner] = [word(error?.code), word(error?.innererror?.code)];
  const [outcome, meaning, text] =
    byWord.get(inner) ?? byWord.get(code) ?? byStatus(response.status, belongsElsewhere(response, tenantId));
  const cause = [code || "unnamed", ...(inner ? [inner] : []), `HTTP ${response.status}`].join(", ");
  const requestId = response.headers.get("x-ms-request-id") ?? "";
  const reference = /^[\w-]{1,64}$/.test(requestId) ? `, request ${requestId}` : "";
  const wait = outcome === "external" ? retryAfterMs(response) : null;
  const message = `${operation} was refused: ${text} (${cause}${reference}).`;
  return { ok: false, status: response.status, code, inner, outcome: failure(outcome, meaning, message, wait) };
}

function byStatus(status: number, elsewhere: boolean): Meaning {
  if (status === 401 && elsewhere) {
    return ["client", "auth_failed", "the vault belongs to another tenant than tenant_id"];
  }
  if (status === 401) return ["client", "auth_failed", "the vault does not accept the application's token"];
  if (status === 403) return ["client", "permission_denied", "the application lacks the permission"];
  if (status === 404) return ["client", "not_found", "there is no such object"];
  if (status === 409) return contended;
  if (status === 413) return ["client", "value_too_large", "the value is larger than the provider takes"];
  if (status === 429) return throttled;
  // Cloudflare's answer to a Worker for a host name that does not resolve (error 1016).
  if (status === 530) return ["external", "network_error", "the vault's host cannot be reached"];
  if (status >= 500 || status === 408) return unavailable;
  return ["client", "refused", "the provider does not accept the request"];
}

const guid = /[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}/i;

/** Whether the challenge (`Bearer authorization="https://login.windows.net/<tenant>", …`) names another tenant's id. */
function belongsElsewhere(response: Response, tenantId: string): boolean {
  const named = guid.exec(response.headers.get("www-authenticate") ?? "")?.[0];
  return named !== undefined && guid.test(tenantId) && named.toLowerCase() !== tenantId.toLowerCase();
}
