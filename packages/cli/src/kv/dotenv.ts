/** Values in .env files. The console reads this file, too. */

export const isEnvName = (key: string): boolean => /^[A-Za-z_][A-Za-z0-9_]*$/.test(key);

/** A value as shells and readers of .env files read alike; null = neither kind of quotes can hold it. */
export function quotedEnvValue(value: string): string | null {
  if (/^[\w@%+,./:-]*$/.test(value)) return value;
  if (!/['\r]/.test(value)) return `'${value}'`;
  if (!/["$`\\\r]/.test(value)) return `"${value}"`;
  return null;
}

/** Of a text that cannot be read: the line and the rule, never the text itself. */
export const lineRefused = (text: string, at: number, rule: string): Error =>
  new Error(`Line ${text.slice(0, at).split("\n").length} ${rule}`);

export const KEY_TWICE = "has a key of an earlier line.";

const LINE =
  /[ \t]*(?:(?:#.*)?|(?:export[ \t]+)?([^\s=#'"`]+)[ \t]*=[ \t]*(?:"([^"]*)"|'([^']*)'|`([^`]*)`|([^\s"'`#][^\n#]*|))[ \t]*(?:#.*)?)(?:\n|$)/y;
const QUOTED = /^.*?=[ \t]*["'`]/;

/**
 * Reads a .env text as Node's `util.parseEnv` does, which leaves out the lines that it cannot read and keeps the last of
 * two values. Readers differ about a quote within quotes of its kind, so it is refused.
 * @throws Error with the line that cannot be read
 */
export function parsedEnv(raw: string): Map<string, string> {
  const text = raw.replace(/\r\n?/g, "\n");
  const data = new Map<string, string>();
  for (LINE.lastIndex = 0; LINE.lastIndex < text.length; ) {
    const at = LINE.lastIndex;
    const found = LINE.exec(text);
    if (!found)
      throw lineRefused(text, at, QUOTED.test(text.slice(at)) ? "must have one pair of quotes." : "must be KEY=VALUE.");
    const [, key, double, single, back, plain] = found;
    if (key === undefined) continue;
    if (data.has(key)) throw lineRefused(text, at, KEY_TWICE);
    data.set(key, double?.replaceAll("\\n", "\n") ?? single ?? back ?? plain?.trim() ?? "");
  }
  return data;
}
