/*
 * Claims of identity tokens that providers compare: a federated credential created for the upstream system keeps
 * matching.
 */

/** The claim with the token's mount. */
export const MOUNT_CLAIM = "vaultproject.io";

/** Value of that claim for the engine. */
export const CLOUD_B_PLUGIN = "azure";
