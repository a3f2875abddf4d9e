import { CLOUD_B_PLUGIN, MOUNT_CLAIM } from "../compat/identity-names.ts";
import { subjectOf } from "../contracts/federation.ts";
import type { TokenAsk } from "../contracts/identity-issuer.ts";
import { VERSION } from "../platform/version.ts";

const DEFAULT_TTL = 3_600;
/** A token must not outlive its key, which stays published for this long after it has signed for the last time. Seconds. */
export const LONGEST_TTL = 86_400;

/** The discovery document (OpenID Connect Discovery 1.0, 3). */
export const discovery = (issuer: string) => ({
  issuer,
  jwks_uri: `${issuer}/.well-known/keys`,
  response_types_supported: ["id_token"],
  subject_types_supported: ["public"],
  id_token_signing_alg_values_supported: ["RS256"],
});

/** The claims of a token made at `now`, ms since 1970. A lifetime beyond the longest is cut to it. */
export function claimsOf(ask: TokenAsk, now: number): Record<string, unknown> {
  const seconds = Math.floor(now / 1000);
  const ttl = Math.min(ask.ttlSeconds || DEFAULT_TTL, LONGEST_TTL);
  return {
    iss: ask.issuer,
    sub: subjectOf(ask),
    aud: [ask.audience],
    iat: seconds,
    nbf: seconds,
    exp: seconds + ttl,
    [MOUNT_CLAIM]: {
      accessor: ask.mountAccessor,
      class: "secret",
      local: false,
      namespace_id: ask.namespaceId,
      namespace_path: ask.namespace,
      path: ask.mountPath,
      plugin: CLOUD_B_PLUGIN,
      version: VERSION,
    },
  };
}
