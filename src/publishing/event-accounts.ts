/** Accounts of lines about the root namespace's tokens and policies. */
export const ACCESS_ACCOUNT = "access";
/** Account of lines about secrets, destinations, leases and engines of the root namespace. */
export const SERVICE_ACCOUNT = "service";
/** Opens the account of a tree of namespaces below the root. */
export const TENANT = "namespace ";

/** The account of lines about a namespace: one per child of the root, with the tree below it. */
export const accessAccount = (namespace: string): string =>
  namespace === "" ? ACCESS_ACCOUNT : TENANT + namespace.slice(0, namespace.indexOf("/"));

/** The account of lines about the service's own objects in a namespace. */
export const serviceAccount = (namespace: string): string =>
  namespace === "" ? SERVICE_ACCOUNT : accessAccount(namespace);

/** The account of lines about volumes of a flat namespace. */
export const volumeAccount = (namespace: string): string => `volumes ${namespace}`;
