import { createHash } from "node:crypto";

/**
 * Templates of an object's text from the keys of a secret, such as `{{ .Data.user }}:{{ .Data.password }}`. Pure; the same
 * secret gives the same text. A missing key is an error, never an empty text.
 */

const FUNCTIONS: Readonly<Record<string, (text: string) => string>> = {
  base64: (text) => Buffer.from(text).toString("base64"),
  json: (text) => JSON.stringify(text),
  lowercase: (text) => text.toLowerCase(),
  sha256: (text) => createHash("sha256").update(text).digest("hex"),
  uppercase: (text) => text.toUpperCase(),
  urlquery: (text) => encodeURIComponent(text),
};

const MAX_LENGTH = 8_192;
const ACTION = /\{\{\s*(?:\.Data\.([A-Za-z_]\w*)|index\s+\.Data\s+"([^"\\]+)")((?:\s*\|\s*[a-z0-9]+)*)\s*\}\}/g;

const functionsIn = (pipe: string): string[] => pipe.split("|").flatMap((name) => name.trim() || []);

/** Why a text is no value template; null when it is one. */
export function valueTemplateProblem(template: string): string | null {
  if (template.length > MAX_LENGTH) return `must have at most ${MAX_LENGTH} characters`;
  const actions = [...template.matchAll(ACTION)];
  if (actions.length === 0) return 'must name a key of the secret, as {{ .Data.key }} or {{ index .Data "key" }}';
  if (/\{\{|\}\}/.test(template.replace(ACTION, ""))) {
    return 'takes {{ .Data.key }} and {{ index .Data "key" }}, with functions after |';
  }
  const unknown = actions
    .flatMap(([, , , pipe = ""]) => functionsIn(pipe))
    .find((name) => !Object.hasOwn(FUNCTIONS, name));
  return unknown === undefined ? null : `has no function ${unknown}; there are ${Object.keys(FUNCTIONS).join(", ")}`;
}

/** The text for a secret. @param data its keys as texts */
export function renderValue(
  template: string,
  data: Readonly<Record<string, string>>,
): { readonly ok: true; readonly value: string } | { readonly ok: false; readonly message: string } {
  let missing: string | null = null;
  const value = template.replace(ACTION, (_action, field?: string, index?: string, pipe = "") => {
    const key = field ?? index ?? "";
    if (!Object.hasOwn(data, key)) missing ??= key;
    return functionsIn(pipe).reduce((text, name) => FUNCTIONS[name]?.(text) ?? text, data[key] ?? "");
  });
  return missing === null
    ? { ok: true, value }
    : { ok: false, message: `value_template: the secret has no key ${JSON.stringify(missing)}` };
}
