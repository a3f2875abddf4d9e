import { FIRST_PLUGIN, MOUNT_CLAIM } from "../compat/identity-names.ts";
import type { SyncTokenRequest, TokenRequest } from "../contracts/identity-issuer.ts";
import { VERSION } from "../platform/version.ts";
import { subjectOf } from "../rpc/token-subjects.ts";

const DEFAULT_TTL = 3_600;
/** Maximum TTL of a token, in seconds. A token must not outlive the publication of its key. */
export const MAX_TTL = 86_400;

/** The discovery document (OpenID Connect Discovery 1.0, section 3). */
export const discovery = (issuer: string) => ({
  issuer,
  jwks_uri: `${issuer}/.well-known/keys`,
  response_types_supported: ["id_token"],
  subject_types_supported: ["public"],
  id_token_signing_alg_values_supported: ["RS256"],
});

/** The claims of a token issued at `now`, ms since 1970. A TTL above the maximum is reduced to it. */
export function claimsOf(ask: TokenRequest, now: number): Record<string, unknown> {
  return {
    ...standardClaims({ ...ask, subject: subjectOf(ask) }, now),
    [MOUNT_CLAIM]: {
      accessor: ask.mountAccessor,
      class: "secret",
      local: false,
      namespace_id: ask.namespaceId,
      namespace_path: ask.namespace,
      path: ask.mountPath,
      plugin: ask.plugin ?? FIRST_PLUGIN,
      version: VERSION,
    },
  };
}

/** The claims of a token of a sync destination. */
export const syncClaimsOf = (ask: SyncTokenRequest, now: number): Record<string, unknown> => standardClaims(ask, now);

function standardClaims({ issuer, subject, audience, ttlSeconds }: SyncTokenRequest, now: number) {
  const seconds = Math.floor(now / 1000);
  const ttl = Math.min(ttlSeconds || DEFAULT_TTL, MAX_TTL);
  return { iss: issuer, sub: subject, aud: [audience], iat: seconds, nbf: seconds, exp: seconds + ttl };
}
