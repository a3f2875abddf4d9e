/**
 * What the service says it is. Clients compare it with semver and unlock sync, namespaces and federation by the `+ent` mark;
 * a higher minor version would promise fields that are not offered (contract: clients 1.3).
 */
export const VERSION = "1.18.0+ent";
