/** The release of Sallyport, as package.json names it. */
export const RELEASE = "0.2.0";

/**
 * The reported version. Clients compare it by semver and enable sync, namespaces and federation by the `+ent` suffix; a
 * higher minor version would promise fields that are not offered.
 */
export const VERSION = "1.18.0+ent";

/** When this release was made, RFC 3339. */
export const BUILD_DATE = "2026-11-25T00:00:00Z";

/** The cluster name that answers show. */
export const CLUSTER_NAME = "sallyport";
