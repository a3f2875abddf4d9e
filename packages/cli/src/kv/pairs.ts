import { membersOf } from "../../../relay/src/json-text.ts";
import { InvalidUsage } from "../command.ts";
import { textIn } from "../environment.ts";
import type { Data } from "./store.ts";

/**
 * The values that a person gives to a command: `key=value`, `key=@file`, `key=-` for the standard input, `@file` and `-`
 * for a whole JSON object. No error contains a value.
 */

export const PAIRS = `PAIR is key=value; key=@FILE is the text of a file, key=- the standard input, key=\\@text begins with an at
sign; @FILE or - alone is a JSON object. Values keep their line feeds. Arguments are visible to other
users of this machine: prefer files or the standard input for secrets.`;

/** @throws InvalidUsage */
export function dataIn(pairs: readonly string[]): Data {
  if (pairs.filter((pair) => pair === "-" || pair.endsWith("=-")).length > 1)
    throw new InvalidUsage("PAIR: the standard input can be read once");
  const data = new Map<string, string>();
  for (const pair of pairs) for (const [key, value] of pairsOf(pair)) data.set(key, value);
  return data;
}

function pairsOf(pair: string): Data {
  if (pair === "-" || pair.startsWith("@")) return objectIn(pair === "-" ? "-" : pair.slice(1));
  const at = pair.indexOf("=");
  if (at < 1) throw new InvalidUsage("PAIR: must be key=value, key=@FILE, key=-, @FILE or -");
  const [key, value] = [pair.slice(0, at), pair.slice(at + 1)];
  return new Map([[key, JSON.stringify(textOf(key, value))]]);
}

function textOf(key: string, value: string): string {
  if (value === "-") return textIn(key, "-");
  if (value.startsWith("@")) return textIn(key, value.slice(1));
  return value.startsWith("\\@") ? value.slice(1) : value;
}

function objectIn(path: string): Data {
  const text = textIn("PAIR", path);
  try {
    JSON.parse(text);
    return membersOf(text);
  } catch {
    throw new InvalidUsage(`PAIR: ${path === "-" ? "the standard input" : path} must be a JSON object`);
  }
}
