import { description as azure } from "./azure/description.ts";
import type { EngineDescription } from "./description.ts";

/** Every engine type, in the order of the console and the guide. */
export const engineDescriptions: readonly EngineDescription[] = [azure];
