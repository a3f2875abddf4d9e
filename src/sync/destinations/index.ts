import { cloudASm } from "./cloud-a-sm.ts";
import { cloudBKv } from "./cloud-b-kv.ts";
import { cloudCSm } from "./cloud-c-sm.ts";
import { deployProject } from "./deploy-project.ts";
import type { DestinationType } from "./destination-type.ts";
import { inMem } from "./in-mem.ts";
import { repoHost } from "./repo-host.ts";

export type { Granularity } from "../../contracts/sync-tasks.ts";
export type { DestinationType } from "./destination-type.ts";

/**
 * Every destination type by the word in its path. A `connection` handed to a type must have been parsed by that
 * type's own schema: the map cannot say so in types.
 */
export const destinationTypes: ReadonlyMap<string, DestinationType<unknown>> = new Map(
  [cloudASm, cloudBKv, cloudCSm, repoHost, deployProject, inMem].map((type) => [
    type.type,
    type as DestinationType<unknown>,
  ]),
);
