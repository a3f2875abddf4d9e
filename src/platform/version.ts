/** The release of Sallyport, as package.json names it. */
export const RELEASE = "0.2.0";

/**
 * The reported version. Clients compare it by semver and send fields by it: networking of sync destinations needs 1.19,
 * their federation and the metadata of engine roles 2.0, encryption keys and replicas 2.2. The `+ent` suffix enables sync,
 * namespaces and federation.
 */
export const VERSION = "2.2.0+ent";

/** When this release was made, RFC 3339. */
export const BUILD_DATE = "2026-11-25T00:00:00Z";

/** The cluster name that answers show. */
export const CLUSTER_NAME = "sallyport";

/** The version of every engine and auth method: all are built in. */
export const PLUGIN_VERSION = `v${VERSION.replace(/\+.*$/, "")}+builtin`;
