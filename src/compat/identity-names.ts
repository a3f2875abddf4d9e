import { engineDescriptions } from "../credentials/engines/descriptions.ts";

/*
 * Claims of identity tokens that providers compare: a federated credential created for the upstream system keeps
 * matching.
 */

/** The claim with the token's mount. */
export const MOUNT_CLAIM = "vaultproject.io";

/** The plugin of a request that names none. */
export const FIRST_PLUGIN = engineDescriptions[0]?.upstream;
