import { parse, stringify } from "yaml";
import { membersOf } from "../../../relay/src/json-text.ts";
import { Failure, InvalidUsage } from "../command.ts";
import { isEnvName, parsedEnv, quotedEnvValue } from "./dotenv.ts";
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
  if (format === "yaml") {
    const values: unknown = parse(objectText(data), { intAsBigInt: true });
    jsonOf(values);
    return stringify(values, { lineWidth: 0 });
  }
  return [...data].map(([key, value]) => `${envName(key)}=${quoted(key, plain(value))}\n`).join("");
}

/** @param name of the text in errors @throws InvalidUsage */
export function parsed(format: Format, text: string, name: string): Data {
  if (format === "dotenv") return parsedDotenv(text, name);
  try {
    if (format === "json") {
      JSON.parse(text);
      return membersOf(text);
    }
    const value: unknown = parse(text, { intAsBigInt: true });
    if (value === null) return new Map();
    if (typeof value !== "object" || Array.isArray(value)) throw new SyntaxError("not a map");
    return new Map(Object.entries(value).map(([key, each]) => [key, jsonOf(each)]));
  } catch (failure) {
    if (failure instanceof Failure) throw failure;
    // A parser's message quotes the text.
    const line = (failure as { linePos?: readonly { readonly line: number }[] }).linePos?.[0]?.line;
    throw new InvalidUsage(
      `${name}: must be a map in ${format.toUpperCase()}${line === undefined ? "" : `, see line ${line}`}`,
    );
  }
}

function parsedDotenv(text: string, name: string): Data {
  try {
    return new Map([...parsedEnv(text.replace(/^\uFEFF/, ""))].map(([key, value]) => [key, JSON.stringify(value)]));
  } catch (failure) {
    throw new InvalidUsage(`${name}: ${(failure as Error).message.replace(/^L/, "l").replace(/\.$/, "")}`);
  }
}

/** The members on lines of their own, with their texts as they are. */
const indentedJson = (text: string): string =>
  `{${[...membersOf(text)].map(([key, value]) => `\n  ${JSON.stringify(key)}: ${value}`).join()}\n}`;

/** @throws Failure for a number that JSON cannot hold */
function jsonOf(value: unknown): string {
  if (typeof value === "bigint") return String(value);
  if (typeof value === "number" && !Number.isFinite(value))
    throw new Failure("a number is too large, or is none: write it as a text");
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
