import { aws } from "./aws/index.ts";
import { azure } from "./azure/index.ts";
import type { EngineType } from "./engine-type.ts";
import { gcp } from "./gcp/index.ts";
import { httpsProducer } from "./https-producer/index.ts";

/** Every type of engine, one line each. */
export const engineTypes: EngineType[] = [azure, aws, gcp, httpsProducer];

/** The type of mounts whose object has no record of its type: the only one at that time. */
export const FIRST_TYPE = azure.type;

/** @throws Error for an unregistered type */
export function engineType(name: string): EngineType {
  const type = engineTypes.find((each) => each.type === name);
  if (!type) throw new Error(`no engine of type ${JSON.stringify(name)}`);
  return type;
}
