/**
 * Settings of `provider_config` (https://developer.hashicorp.com/vault/docs/auth/jwt/oidc-providers): how a provider
 * states groups. Those that would need an API of the provider are refused.
 */

/** Providers that state groups as one text, and the separators. */
export const GROUPS_SEPARATORS = { secureauth: ",", ibmisam: " " } as const;

const REFUSED: Readonly<Record<string, string>> = {
  azure:
    "azure: groups beyond those in the token would need Microsoft Graph, which is not called; leave provider_config out, and limit the groups in the token at the provider",
  gsuite:
    "gsuite: groups would need Google's Admin SDK, which is not called; leave provider_config out, and bind roles to other claims",
};

/** Why a `provider_config` cannot be stored; null when it can. */
export function providerConfigProblem(config: Readonly<Record<string, unknown>>): string | null {
  const { provider, ...others } = config;
  if (Object.keys(config).length === 0) return null;
  if (typeof provider !== "string") return "'provider' field not found in provider_config";
  if (Object.hasOwn(REFUSED, provider)) return REFUSED[provider] ?? null;
  if (!Object.hasOwn(GROUPS_SEPARATORS, provider)) {
    return `provider ${JSON.stringify(provider.slice(0, 64))} not found in custom providers`;
  }
  const [other] = Object.keys(others);
  return other === undefined ? null : `${other.slice(0, 64)}: this provider has no such setting`;
}
