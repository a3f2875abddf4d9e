import { corsSettings } from "../../access/system/cors-cached.ts";
import { clusterHeader, requestHeader } from "../../compat/dialect.ts";
import type { CorsSettings } from "../../contracts/access-control.ts";
import { RequestError } from "../../platform/http/errors.ts";
import type { HeaderReader } from "../../platform/http/request-headers.ts";

/**
 * Cross-origin requests of browsers (https://fetch.spec.whatwg.org/#http-cors-protocol), by the rules of upstream: an
 * origin that is not configured is refused, once any is. Requests without an `Origin` header cost nothing here, those
 * with one at most a call of `AccessControl` each 1.5 s.
 */

/**
 * Request headers that a read shows before the configured ones: those of upstream (`StdAllowedHeaders` in vault/cors.go).
 * Terraform removes exactly these from the answer, and takes the others for configured ones.
 */
export const SHOWN_HEADERS: readonly string[] = [
  "Content-Type",
  "X-Requested-With",
  "X-Vault-AWS-IAM-Server-ID",
  "X-Vault-MFA",
  "X-Vault-No-Request-Forwarding",
  "X-Vault-Wrap-Format",
  "X-Vault-Wrap-TTL",
  "X-Vault-Policy-Override",
  "Authorization",
  "X-Vault-Token",
];

/** Request headers that every allowed origin may send. */
const ALLOWED_HEADERS: readonly string[] = [
  ...new Set([...SHOWN_HEADERS, "X-Vault-Request", "X-HTTP-Method-Override", ...Object.values(requestHeader).flat()]),
];

const METHODS = ["DELETE", "GET", "OPTIONS", "POST", "PUT", "LIST", "PATCH"];
/** How long a browser may keep a preflight's answer, in seconds. */
const MAX_AGE_S = 300;

/** An allowed cross-origin request. */
export interface CrossOrigin {
  readonly origin: string;
  readonly settings: CorsSettings;
}

/**
 * The origin of a cross-origin request; null for other requests, and while no origin is configured.
 * @throws RequestError 403 for an origin that is not allowed
 */
export async function crossOrigin(headers: HeaderReader, url: URL, env: Env): Promise<CrossOrigin | null> {
  const origin = headers.get("Origin");
  if (origin === null || origin === url.origin) return null;
  const settings = await corsSettings(env);
  if (!settings) return null;
  const isAllowed = settings.origins.some(
    (allowed) => allowed === "*" || allowed.toLowerCase() === origin.toLowerCase(),
  );
  if (!isAllowed) throw new RequestError(403, "origin not allowed");
  return { origin, settings };
}

/**
 * The answer to a preflight request; null for any other request.
 * @throws RequestError 405 for a method that the service has not
 */
export function preflight(request: Request, { settings }: CrossOrigin): Response | null {
  const method = request.headers.get("Access-Control-Request-Method");
  if (request.method !== "OPTIONS" || method === null) return null;
  if (!METHODS.includes(method)) throw new RequestError(405, "method not allowed");
  return new Response(null, {
    status: 204,
    headers: {
      "Access-Control-Allow-Methods": METHODS.join(","),
      "Access-Control-Allow-Headers": [...ALLOWED_HEADERS, ...settings.headers].join(","),
      "Access-Control-Max-Age": String(MAX_AGE_S),
    },
  });
}

const EXPOSED = Object.values(clusterHeader).flat().join(",");

/** Lets the page of an allowed origin read an answer, errors included. */
export function allowOrigin(headers: Headers, { origin }: CrossOrigin): void {
  headers.set("Access-Control-Allow-Origin", origin);
  headers.set("Access-Control-Expose-Headers", EXPOSED);
  headers.append("Vary", "Origin");
}
