/*
 * Words of identity tokens that the other side compares: a federated credential made for the upstream system goes on matching.
 */

/** The claim that says which mount a token speaks for. */
export const MOUNT_CLAIM = "vaultproject.io";

/** What that claim calls the engine. */
export const CLOUD_B_PLUGIN = "azure";
