/**
 * The state that an answer shows, for clients which send it back with a later request so that a replica answers no older
 * one (https://developer.hashicorp.com/vault/docs/enterprise/consistency). Every request here is answered by the newest
 * state, so any index that a request carries is satisfied, and none is read.
 */
export const STATE_INDEX_HEADER = "X-Vault-Index";

/**
 * An index in the form that clients take apart: version, cluster, local and replicated index, and a checksum. It grows with
 * time, so that of two indexes the later one is kept.
 * @param now ms since 1970
 */
export const stateIndex = (now: number): string => btoa(`v1:sallyport:${now}:${now}:00`);
