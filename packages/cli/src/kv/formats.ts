import { parseEnv } from "node:util";
import { parse, stringify } from "yaml";
import { membersOf } from "../../../relay/src/json-text.ts";
import { Failure, InvalidUsage } from "../command.ts";
import { isEnvName, quotedEnvValue } from "./dotenv.ts";
import { type Data, objectText, plain } from "./store.ts";

/** Secrets as text: .env, JSON and YAML. No error contains a value. */

export const FORMATS = ["dotenv", "json", "yaml"] as const;
export type Format = (typeof FORMATS)[number];

/** By the end of a file's name; .env without a known one. */
export const formatOf = (file: string): Format =>
  /\.json$/i.test(file) ? "json" : /\.ya?ml$/i.test(file) ? "yaml" : "dotenv";

/** @throws Failure for a value that the format cannot hold */
export function formatted(format: Format, data: Data): string {
  if (format === "json")
    return `${indentedJson(objectText(data))}
`;
  // JSON is YAML; integers keep their digits.
  if (format === "yaml") return stringify(parse(objectText(data), { intAsBigInt: true }), { lineWidth: 0 });
  return [...data].map(([key, value]) => `${envName(key)}=${quoted(key, plain(value))}\n`).join("");
}

/** @param name of the text in errors @throws InvalidUsage */
export function parsed(format: Format, text: string, name: string): Data {
  try {
    if (format === "dotenv") {
      const twice = keyGivenTwice(text);
      if (twice !== undefined) throw new InvalidUsage(`${name}: has the key ${twice} twice`);
      return new Map(Object.entries(parseEnv(text)).map(([key, value]) => [key, JSON.stringify(value)]));
    }
    if (format === "json") {
      JSON.parse(text);
      return membersOf(text);
    }
    const value: unknown = parse(text, { intAsBigInt: true });
    if (value === null) return new Map();
    if (typeof value !== "object" || Array.isArray(value)) throw new SyntaxError("not a map");
    return new Map(Object.entries(value).map(([key, each]) => [key, jsonOf(each)]));
  } catch (failure) {
    if (failure instanceof InvalidUsage) throw failure;
    // A parser's message quotes the text.
    const line = (failure as { linePos?: readonly { readonly line: number }[] }).linePos?.[0]?.line;
    throw new InvalidUsage(
      `${name}: must be ${format === "dotenv" ? "lines KEY=VALUE" : `a map in ${format.toUpperCase()}`}${line === undefined ? "" : `, see line ${line}`}`,
    );
  }
}

/** A key with two values in a .env text: Node's reader keeps the last. Text in quotes may look like a line of its own. */
function keyGivenTwice(text: string): string | undefined {
  const names: string[] = [];
  const numbered = text.replace(
    /^([ \t]*(?:export[ \t]+)?)([^\s=#]+)(?=[ \t]*=)/gm,
    (_, lead: string, name: string) => {
      names.push(name);
      return `${lead}K${names.length - 1}`;
    },
  );
  const given = Object.keys(parseEnv(numbered)).map((key) => names[Number(key.slice(1))]);
  return given.find((name, at) => given.indexOf(name) !== at);
}

/** The members on lines of their own, with their texts as they are. */
const indentedJson = (text: string): string =>
  `{${[...membersOf(text)].map(([key, value]) => `\n  ${JSON.stringify(key)}: ${value}`).join()}\n}`;

function jsonOf(value: unknown): string {
  if (typeof value === "bigint") return String(value);
  if (Array.isArray(value)) return `[${value.map(jsonOf).join()}]`;
  if (value !== null && typeof value === "object" && !(value instanceof Date))
    return `{${Object.entries(value)
      .map(([key, each]) => `${JSON.stringify(key)}:${jsonOf(each)}`)
      .join()}}`;
  return JSON.stringify(value);
}

/** The name of an environment variable. @throws Failure */
export function envName(key: string): string {
  if (!isEnvName(key))
    throw new Failure(`${key}: is no name of an environment variable: rename the key, or use --format json`);
  return key;
}

/** @throws Failure */
function quoted(key: string, value: string): string {
  const text = quotedEnvValue(value);
  if (text === null) throw new Failure(`${key}: has quotes that a .env file cannot hold: use --format json or yaml`);
  return text;
}
