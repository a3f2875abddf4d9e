/** The documents that the identity issuer publishes. */
import { type Api, api } from "../../api/client.ts";

type Discovery = Api["GET /v1/identity/oidc/plugins/.well-known/openid-configuration"]["answer"];
type Keys = Api["GET /v1/identity/oidc/plugins/.well-known/keys"]["answer"]["keys"];

interface Published {
  readonly discovery: Discovery;
  readonly keys: Keys;
}

/** As a provider reads it: without a token. */
export async function readPublished(signal: AbortSignal): Promise<Published> {
  const [discovery, { keys }] = await Promise.all([
    api("GET /v1/identity/oidc/plugins/.well-known/openid-configuration", { signal, anonymous: true }),
    api("GET /v1/identity/oidc/plugins/.well-known/keys", { signal, anonymous: true }),
  ]);
  return { discovery, keys };
}

/** Why a provider cannot use an issuer; null when it can. */
export function issuerProblem(issuer: string): string | null {
  const url = URL.parse(issuer);
  if (!url) return "The issuer is no URL.";
  if (url.protocol !== "https:") return "The provider reaches an issuer by https only.";
  if (/^(localhost|127\.|10\.|192\.168\.|\[)/.test(url.hostname)) return "The provider cannot reach a private address.";
  return null;
}
