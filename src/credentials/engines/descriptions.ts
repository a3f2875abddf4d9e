import { description as aws } from "./aws/description.ts";
import { description as azure } from "./azure/description.ts";
import type { EngineDescription } from "./description.ts";
import { description as gcp } from "./gcp/description.ts";
import { description as httpsProducer } from "./https-producer/description.ts";

/** Every engine type, in the order of the console and the guide. */
export const engineDescriptions: EngineDescription[] = [azure, aws, gcp, httpsProducer];

/** Whether a mount of a type is an engine of credentials. */
export const isEngine = ({ type }: { readonly type: string }): boolean =>
  engineDescriptions.some((each) => each.type === type);

/** Whether the names of a type's roles have no case. */
export const isCaseless = ({ type }: { readonly type: string }): boolean =>
  engineDescriptions.some((each) => each.type === type && each.isCaseless);
