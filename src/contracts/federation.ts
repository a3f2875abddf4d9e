/** The subject of an identity token. */
export interface Bearer {
  /** Path from the root with a trailing slash; the root itself is the empty text. */
  readonly namespace: string;
  /** `root`, or the id that the namespace has had since it was made. */
  readonly namespaceId: string;
  readonly mountAccessor: string;
  /** With a trailing slash. */
  readonly mountPath: string;
}

/** The mount in the claims of its tokens. */
export interface Home extends Bearer {
  /**
   * The origin of the request that configured the mount. It is the issuer while the deployment has no configured origin:
   * providers compare issuers exactly, so the issuer must not follow the address of each request.
   */
  readonly origin: string;
}

/** The verifier of an identity token, and how long it is valid. */
export interface Audience {
  readonly audience: string;
  /** Seconds; 0: an hour. */
  readonly ttlSeconds: number;
}

/** Workload identity federation of a mount, in place of a client secret. */
export type Federation = Home & Audience;

/** Workload identity federation of a sync destination. `origin`: of the request that set the audience. */
export interface SyncFederation extends Pick<Home, "namespace" | "origin">, Audience {
  readonly subject: string;
}
