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

/** Who issues the tokens of a namespace (contract: credentials-engine 9.2). Path and case count: providers compare exactly. */
export const issuerAt = (origin: string, namespace: string): string => `${origin}/v1/${namespace}identity/oidc/plugins`;

/** What a federated credential at the provider names. The accessor is the mount's for life, whatever its path. */
export const subjectOf = ({ namespaceId, mountAccessor }: Pick<Bearer, "namespaceId" | "mountAccessor">): string =>
  `plugin-identity:${namespaceId}:secret:${mountAccessor}`;
