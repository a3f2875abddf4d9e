import { azure } from "./azure/index.ts";
import type { EngineType } from "./engine-type.ts";

/** Every type of engine, one line each. */
const types: readonly EngineType[] = [azure];

/** The type of mounts whose object has no record of its type: the only one at that time. */
export const FIRST_TYPE = azure.type;

const byName: ReadonlyMap<string, EngineType> = new Map(types.map((type) => [type.type, type]));

/** @throws Error for an unregistered type */
export function engineType(name: string): EngineType {
  const type = byName.get(name);
  if (!type) throw new Error(`no engine of type ${JSON.stringify(name)}`);
  return type;
}
