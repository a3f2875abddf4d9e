import { CLOUD_B_PLUGIN, MOUNT_CLAIM } from "../compat/identity-names.ts";
import { VERSION } from "../platform/version.ts";

/** Whom a token speaks for. */
export interface Bearer {
  /** Path from the root with a trailing slash; the root itself is the empty text. */
  readonly namespace: string;
  /** `root`, or the id that the namespace has had since it was made. */
  readonly namespaceId: string;
  readonly mountAccessor: string;
  /** With a trailing slash. */
  readonly mountPath: string;
}

/** A mount as its tokens speak of it. */
export interface Home extends Bearer {
  /**
   * Where the service was reached when the mount was told to log in this way. Tokens name it while the deployment has no origin
   * of its own: the provider compares the issuer exactly, so it must not change with whom a request happens to come through.
   */
  readonly origin: string;
}

/** What a mount logs in with at its provider in place of a secret. */
export interface Federation extends Home {
  readonly audience: string;
  /** Seconds; 0: an hour. */
  readonly ttlSeconds: number;
}

/** A token that is wanted. `issuer` as the discovery document under it says it. */
export interface TokenAsk extends Bearer {
  readonly issuer: string;
  readonly audience: string;
  /** Seconds; 0: the default of an hour. */
  readonly ttlSeconds: number;
}

const DEFAULT_TTL = 3_600;
/** A token must not outlive its key, which stays published for this long after it has signed for the last time. Seconds. */
export const LONGEST_TTL = 86_400;

/** Who issues the tokens of a namespace (contract: credentials-engine 9.2). Path and case count: providers compare exactly. */
export const issuerAt = (origin: string, namespace: string): string => `${origin}/v1/${namespace}identity/oidc/plugins`;

/** What a federated credential at the provider names. The accessor is the mount's for life, whatever its path. */
export const subjectOf = ({ namespaceId, mountAccessor }: Pick<Bearer, "namespaceId" | "mountAccessor">): string =>
  `plugin-identity:${namespaceId}:secret:${mountAccessor}`;

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
