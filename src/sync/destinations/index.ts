import { cloudASm } from "./cloud-a-sm.ts";
import type { DestinationType } from "./destination-type.ts";
import { inMem } from "./in-mem.ts";

export type { DestinationType, Granularity } from "./destination-type.ts";

/**
 * Every destination type by the word in its path. A `connection` handed to a type must have been parsed by that
 * type's own schema: the map cannot say so in types.
 */
export const destinationTypes: ReadonlyMap<string, DestinationType<unknown>> = new Map(
  [cloudASm, inMem].map((type) => [type.type, type]),
);
