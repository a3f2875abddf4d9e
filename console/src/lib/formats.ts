/** Values of a secret as `.env`, JSON and YAML, in and out. No error contains a value. */
import { isEnvName, KEY_TWICE, lineRefused, parsedEnv, quotedEnvValue } from "../../../packages/cli/src/kv/dotenv.ts";
import { parseExact, shown } from "./exact-json.ts";

type Data = Readonly<Record<string, unknown>>;

export const FORMATS = { env: ".env", json: "JSON", yaml: "YAML" } as const;
export type Format = keyof typeof FORMATS;

/** By the end of a file's name; `.env` without a known one. */
export const formatOf = (file: string): Format =>
  /\.json$/i.test(file) ? "json" : /\.ya?ml$/i.test(file) ? "yaml" : "env";

/** Keys that YAML reads as texts without quotes. */
const PLAIN_KEY = /^(?!(?:true|false|null|yes|no|on|off|y|n)$)[a-z_][\w.-]*$/i;

/** @throws Error for a key or value that the format cannot hold */
export function formatted(format: Format, data: Data): string {
  if (format === "json") return JSON.stringify(data, null, 2);
  const lines = Object.entries(data).map(([key, value]) => {
    // A JSON text is one of YAML.
    if (format === "yaml") return `${PLAIN_KEY.test(key) ? key : JSON.stringify(key)}: ${JSON.stringify(value)}\n`;
    const text = quotedEnvValue(shown(value));
    if (!isEnvName(key) || text === null)
      throw new Error(
        `${key} cannot be in a .env file: its ${text === null ? "value has both quotes" : "name has other characters than letters, digits and _"}. Use JSON or YAML.`,
      );
    return `${key}=${text}\n`;
  });
  return lines.join("");
}

/** @throws Error with the line that cannot be read */
export function parsed(format: Format, text: string): Data {
  if (format === "env") return Object.fromEntries(parsedEnv(text));
  if (format === "yaml" && !/^\s*\{/.test(text)) return parsedYaml(text);
  let value: unknown;
  try {
    value = parseExact(text);
  } catch {
    // The browser's message quotes the text.
  }
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw new Error("The JSON must be an object.");
  return value as Data;
}

const YAML_LINE =
  /(?:[ \t]*(?:#.*)?|---[ \t]*|("(?:[^"\\\n]|\\.)*"|'(?:[^'\n]|'')*'|[\w./@-][^\n:#]*?)[ \t]*:(?:[ \t]+(.*?))?[ \t]*)(?:\n|$)/y;

/** A map of texts, numbers and JSON values. Nested maps and lists of YAML's own form are refused. */
function parsedYaml(raw: string): Data {
  const text = raw.replace(/\r\n?/g, "\n");
  const data: Record<string, unknown> = {};
  for (YAML_LINE.lastIndex = 0; YAML_LINE.lastIndex < text.length; ) {
    const at = YAML_LINE.lastIndex;
    const found = YAML_LINE.exec(text);
    if (!found) throw lineRefused(text, at, "must be KEY: VALUE. Write a list or a nested map as JSON.");
    const [, key, value = ""] = found;
    if (key === undefined) continue;
    const name = /^["']/.test(key) ? scalar(key) : key;
    const block = /^\|([+-]?)(?:\s+#.*)?$/.exec(value);
    const read = block ? blockText(text, block[1] ?? "") : scalar(value);
    if (typeof name !== "string" || read === undefined)
      throw lineRefused(text, at, "cannot be read. Write the value in quotes, or as JSON.");
    if (Object.hasOwn(data, name)) throw lineRefused(text, at, KEY_TWICE);
    data[name] = read;
  }
  return data;
}

/** The indented lines behind a `|`, where the next line of the map begins. */
function blockText(text: string, chomp: string): string {
  const block = /(?:[ \t]*(?:\n|$)|[ ]+.*(?:\n|$))*/y;
  block.lastIndex = YAML_LINE.lastIndex;
  const lines = (text.length > block.lastIndex ? (block.exec(text)?.[0] ?? "") : "").replace(/\n$/, "").split("\n");
  YAML_LINE.lastIndex = Math.min(text.length, block.lastIndex || text.length);
  const indent = /^ */.exec(lines.find((line) => line.trim() !== "") ?? "")?.[0].length ?? 0;
  const whole = `${lines.map((line) => line.slice(indent)).join("\n")}\n`;
  if (chomp === "+") return whole;
  const body = whole.replace(/\n+$/, "");
  return chomp === "-" || body === "" ? body : `${body}\n`;
}

/** One value; undefined = it is read only by a whole parser of YAML. */
function scalar(value: string): unknown {
  if (/^(?:["[{]|-?\d|(?:true|false|null)\b)/.test(value)) {
    try {
      return parseExact(value.replace(/^("(?:[^"\\]|\\.)*"|[\w.+-]+)\s+#.*$/, "$1"));
    } catch {
      if (/^["[{]/.test(value)) return undefined;
    }
  }
  const single = /^'((?:[^']|'')*)'(?:\s+#.*)?$/.exec(value)?.[1];
  if (single !== undefined) return single.replaceAll("''", "'");
  const plain = value.replace(/(?:^|\s+)#.*$/, "");
  if (plain === "") return null;
  // Numbers and words in other forms than JSON's, and characters that begin or end something else.
  const isOther =
    /^(?:[-+]?(?:\d+|0o[0-7]+|0x[\da-f]+|(?:\.\d+|\d+(?:\.\d*)?)(?:e[-+]?\d+)?|\.inf)|\.nan|true|false|null|~)$/i;
  if (isOther.test(plain) || /^[-?:](?:\s|$)|^[,[\]{}&*!|>'"%@`]|:(?:\s|$)/.test(plain)) return undefined;
  return plain;
}
