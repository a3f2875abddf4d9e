import { isPlainObject } from "../lib/json.ts";

/** The shape of a secret without its values: every leaf, and every empty object, is null. @param depth 0 = all of it */
export function subkeys(data: Readonly<Record<string, unknown>>, depth: number): Record<string, unknown> {
  const entries = Object.entries(data).map(([key, value]): [string, unknown] => {
    const walks = depth !== 1 && isPlainObject(value) && Object.keys(value).length > 0;
    return [key, walks ? subkeys(value, Math.max(0, depth - 1)) : null];
  });
  // fromEntries defines, so a key named __proto__ stays an ordinary key.
  return Object.fromEntries(entries);
}
