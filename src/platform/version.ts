/**
 * The reported version. Clients compare it by semver and enable sync, namespaces and federation by the `+ent` suffix; a
 * higher minor version would promise fields that are not offered.
 */
export const VERSION = "1.18.0+ent";
