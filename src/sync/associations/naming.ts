import { Buffer } from "node:buffer";
import { createHash } from "node:crypto";
import type { Granularity } from "../../contracts/sync-tasks.ts";
import type { Naming } from "../destinations/destination-type.ts";

/**
 * External names: the template language (a subset of Go's text/template), and normalisation by the rules of a
 * destination type. Pure: no state, no calls. Read by definition checks and by `external-name.ts`.
 */

/** The fields a template may refer to. `*BaseName` is the segment after the last slash. */
const templateFields = [
  "DestinationType",
  "DestinationName",
  "NamespacePath",
  "NamespaceBaseName",
  "NamespaceID",
  "MountPath",
  "MountBaseName",
  "MountAccessor",
  "SecretPath",
  "SecretBaseName",
  "SecretKey",
] as const;
type TemplateField = (typeof templateFields)[number];

/** A value for every field; `SecretKey` is empty with granularity secret-path. */
export type TemplateFields = Readonly<Record<TemplateField, string>>;

/** The AST of an operand, call or pipe. A pipe is a call whose last argument is piped. */
type Expression =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "field"; readonly field: TemplateField }
  | { readonly kind: "call"; readonly function: FunctionName; readonly arguments: readonly Argument[] };
type Argument = Expression | { readonly kind: "number"; readonly number: number };

/** A parsed name template: the concatenated texts of its parts are the name. */
interface Template {
  readonly parts: readonly Expression[];
  /** The fields the template refers to. */
  readonly fields: ReadonlySet<TemplateField>;
}

type Refused = { ok: false; message: string };
type ParsedTemplate = { ok: true; template: Template } | Refused;

/** Characters (Vault's limit since 1.17). */
const maxTemplateLength = 100_000;
const maxNesting = 32;

/** A template is refused when fields of `assumedFieldLength` characters could render longer: `replace` can multiply. */
const maxRenderedLength = 1_000_000;
const assumedFieldLength = 4096;

/** The kinds of a function's arguments; the piped subject comes last. */
const functions = {
  uppercase: ["text"],
  lowercase: ["text"],
  replace: ["text", "text", "text"],
  truncate: ["number", "text"],
  truncate_sha256: ["number", "text"],
  sha256: ["text"],
  base64: ["text"],
} as const;
type FunctionName = keyof typeof functions;

const changing = new Set(["random", "uuid", "timestamp", "unix_time", "unix_time_millis"]);
const keywords = new Set("if else end range with define template block break continue nil true false".split(" "));

/**
 * Parses a name template: a subset of Go's text/template (https://pkg.go.dev/text/template). A template is text with
 * actions between `{{` and `}}`: a field, a "quoted" or `raw` text, or a call, chained with `|`. `{{- ` and ` -}}`
 * trim the adjacent white space. `message` is one sentence that names the syntax error.
 */
export function parseTemplate(text: string): ParsedTemplate {
  if (text.length > maxTemplateLength) {
    return {
      ok: false,
      message: `a template may have at most ${maxTemplateLength} characters, this one has ${text.length}`,
    };
  }
  try {
    const parts = readParts(text);
    const fields = new Set(parts.flatMap(fieldsOf));
    const longest = parts.reduce((sum, part) => sum + maxTextLength(part), 0);
    if (longest > maxRenderedLength) {
      return { ok: false, message: `its replacements could make a name of more than ${maxRenderedLength} characters` };
    }
    return { ok: true, template: { parts, fields } };
  } catch (failure) {
    if (failure instanceof TemplateError) return { ok: false, message: failure.message };
    throw failure;
  }
}

/**
 * Checks a template when a destination is written, so that no later push fails because of it. Besides the grammar: it
 * must render a non-empty name, and refer to the secret's key exactly when there is one object per key. `message` is
 * the text for the caller; `warning` is set when different secrets would get the same name.
 */
export function checkTemplate(
  text: string,
  granularity: Granularity,
): { ok: true; template: Template; warning: string | null } | Refused {
  const invalid = (message: string): Refused => ({ ok: false, message: `secret name template is invalid: ${message}` });
  const parsed = parseTemplate(text);
  if (!parsed.ok) return invalid(parsed.message);
  const { template } = parsed;
  const has = (field: TemplateField) => template.fields.has(field);
  if (granularity === "secret-key" && !has("SecretKey")) {
    return invalid("external name template should contain reference to the secret key");
  }
  if (granularity === "secret-path" && has("SecretKey")) {
    return invalid(
      "external name template should not contain reference to the secret key with granularity secret-path",
    );
  }
  const sample = Object.fromEntries(templateFields.map((field) => [field, "x"])) as Record<TemplateField, string>;
  if (render(template, sample).trim() === "") return invalid("it renders an empty name");
  const distinct = has("SecretPath") || (has("SecretBaseName") && has("MountAccessor"));
  const warning =
    "secret name template does not refer to .SecretPath: different secrets may get the same external name";
  return { ok: true, template, warning: distinct ? null : warning };
}

/** The name before normalisation. Equal fields give equal names. */
export function render(template: Template, fields: TemplateFields): string {
  return template.parts.map((part) => evaluate(part, fields)).join("");
}

/**
 * The name as the destination spells it: each forbidden character becomes the replacement. Runs are not collapsed, so
 * that fewer names collide. A name that is too long is cut with the `truncate_sha256` rule.
 */
export function normalise(name: string, naming: Naming): string {
  const spelt = [...name].map((one) => (naming.allowed.test(one) ? one : naming.replacement)).join("");
  const adapt = naming.adapt ?? ((adapted: string) => adapted);
  // Adapted again, because the appended hash has its own spelling.
  return adapt(truncateSha256(naming.maxLength, adapt(spelt)));
}

/** The segment after the last slash; a trailing slash does not count. */
export function baseName(path: string): string {
  const trimmed = withoutTrailing(path, "/");
  return trimmed.slice(trimmed.lastIndexOf("/") + 1);
}

/** A syntax error of a template; caught in `parseTemplate`. */
class TemplateError extends Error {}

const whiteSpace = " \\t\\r\\n";
const action = new RegExp(`\\{\\{(-(?=[${whiteSpace}]))?`, "g");
const trimmedStart = new RegExp(`^[${whiteSpace}]+`);

function readParts(text: string): Expression[] {
  const parts: Expression[] = [];
  let at = 0;
  let trimNext = false;
  const addText = (end: number, trimEnd: boolean) => {
    let part = text.slice(at, end);
    if (trimNext) part = part.replace(trimmedStart, "");
    if (trimEnd) part = withoutTrailing(part, " \t\r\n");
    if (part !== "") parts.push({ kind: "text", text: part });
  };
  for (;;) {
    action.lastIndex = at;
    const open = action.exec(text);
    if (open === null) break;
    addText(open.index, open[1] !== undefined);
    const { tokens, end, trim } = readTokens(text, action.lastIndex);
    parts.push(readAction(tokens));
    at = end;
    trimNext = trim;
  }
  addText(text.length, false);
  return parts;
}

/** A loop, because the regular expression for this takes quadratic time on runs in the middle. */
function withoutTrailing(text: string, characters: string): string {
  let end = text.length;
  while (end > 0 && characters.includes(text.charAt(end - 1))) end--;
  return text.slice(0, end);
}

type Token =
  | { readonly kind: "|" | "(" | ")" }
  | { readonly kind: "operand"; readonly operand: Argument }
  | { readonly kind: "name"; readonly name: string };

const tokenPattern =
  /(?<space>[ \t\r\n]+)|(?<mark>[|()])|(?<field>\.[\w.]*)|(?<quoted>"(?:[^"\\\n]|\\.)*")|`(?<raw>[^`]*)`|(?<number>\d{1,9}(?!\w))|(?<name>[A-Za-z_]\w*)/y;

/** The tokens from `at` up to `}}`, and whether that was ` -}}`. */
function readTokens(text: string, start: number): { tokens: Token[]; end: number; trim: boolean } {
  const tokens: Token[] = [];
  let at = start;
  for (;;) {
    if (text.startsWith("}}", at)) return { tokens, end: at + 2, trim: false };
    if (/^[ \t\r\n]-\}\}/.test(text.slice(at, at + 4))) return { tokens, end: at + 4, trim: true };
    tokenPattern.lastIndex = at;
    const groups = tokenPattern.exec(text)?.groups;
    if (groups === undefined) {
      throw new TemplateError(
        at < text.length ? `unexpected ${quote(text.slice(at, at + 10))}` : "an action is not closed with }}",
      );
    }
    // ` -}}` includes the white space before it, so a run of spaces returns its last one.
    const closes = groups["space"] !== undefined && text.startsWith("-}}", tokenPattern.lastIndex);
    at = closes ? tokenPattern.lastIndex - 1 : tokenPattern.lastIndex;
    const token = readToken(groups);
    if (token !== null) tokens.push(token);
  }
}

function readToken({ mark, field, quoted, raw, number, name }: Record<string, string | undefined>): Token | null {
  if (mark === "|" || mark === "(" || mark === ")") return { kind: mark };
  if (field !== undefined) return { kind: "operand", operand: { kind: "field", field: knownField(field.slice(1)) } };
  if (quoted !== undefined) return { kind: "operand", operand: { kind: "text", text: unquote(quoted) } };
  if (raw !== undefined) return { kind: "operand", operand: { kind: "text", text: raw } };
  if (number !== undefined) return { kind: "operand", operand: { kind: "number", number: Number(number) } };
  return name === undefined ? null : { kind: "name", name };
}

const quote = (text: string) => JSON.stringify(text.slice(0, 60));

function knownField(name: string): TemplateField {
  const field = templateFields.find((known) => known === name);
  if (field === undefined)
    throw new TemplateError(`unknown field ${quote(`.${name}`)}; known are ${templateFields.join(", ")}`);
  return field;
}

const escapes: Record<string, string> = {
  a: "\x07",
  b: "\b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
  v: "\v",
  "\\": "\\",
  '"': '"',
};

/** A Go string literal, limited to the escapes that names need. */
function unquote(quoted: string): string {
  return quoted.slice(1, -1).replace(/\\(?:u([0-9a-fA-F]{4})|(.))/gs, (whole, hex, letter) => {
    const meaning = hex === undefined ? escapes[letter] : String.fromCharCode(Number.parseInt(hex, 16));
    if (meaning === undefined) throw new TemplateError(`unknown escape ${quote(whole)} in ${quote(quoted)}`);
    return meaning;
  });
}

function readAction(tokens: readonly Token[]): Expression {
  let at = 0;
  const expression = readPipe(0);
  if (at < tokens.length) throw new TemplateError("a closing parenthesis has no opening one");
  return expression;

  /** Reads stages separated by `|` up to the end or a closing parenthesis, which is not consumed. */
  function readPipe(depth: number): Expression {
    if (depth > maxNesting) throw new TemplateError(`parentheses are nested deeper than ${maxNesting}`);
    let piped = readStage(null, depth);
    for (let stages = 1; tokens[at]?.kind === "|"; stages++) {
      if (stages > maxNesting) throw new TemplateError(`more than ${maxNesting} functions follow one another`);
      at++;
      piped = readStage(piped, depth);
    }
    return piped;
  }

  function readStage(piped: Expression | null, depth: number): Expression {
    const first = tokens[at];
    if (first?.kind === "name") {
      at++;
      const given: Argument[] = [];
      for (let one = readOperand(depth); one !== null; one = readOperand(depth)) given.push(one);
      return checkCall(first.name, piped === null ? given : [...given, piped]);
    }
    const operand = readOperand(depth);
    if (operand === null) throw new TemplateError("an action or a step between | is empty");
    if (piped !== null) throw new TemplateError("only a function can follow |");
    if (operand.kind === "number") throw new TemplateError("a number is not a name; put it in quotes");
    if (readOperand(depth) !== null)
      throw new TemplateError("a field or text takes no arguments; put a function before it");
    return operand;
  }

  /** One argument, or null when the next token is none. */
  function readOperand(depth: number): Argument | null {
    const token = tokens[at];
    if (token?.kind === "operand") {
      at++;
      return token.operand;
    }
    if (token?.kind === "name")
      throw new TemplateError(`${quote(token.name)} cannot be an argument; put the call in parentheses`);
    if (token?.kind !== "(") return null;
    at++;
    const expression = readPipe(depth + 1);
    if (tokens[at]?.kind !== ")") throw new TemplateError("a parenthesis is not closed");
    at++;
    return expression;
  }
}

function checkCall(name: string, given: readonly Argument[]): Expression {
  if (changing.has(name)) throw new TemplateError(`${name} would give the secret a new name at every push`);
  if (keywords.has(name))
    throw new TemplateError(`${name} is not supported: a name has no conditions, loops or variables`);
  if (!Object.hasOwn(functions, name)) {
    throw new TemplateError(`unknown function ${quote(name)}; known are ${Object.keys(functions).join(", ")}`);
  }
  const known = name as FunctionName;
  const wanted = functions[known];
  if (given.length !== wanted.length)
    throw new TemplateError(`${name} takes ${wanted.length} arguments, got ${given.length}`);
  for (const [index, kind] of wanted.entries()) {
    const isNumber = given[index]?.kind === "number";
    if (isNumber !== (kind === "number")) throw new TemplateError(`argument ${index + 1} of ${name} must be a ${kind}`);
  }
  const [first] = given;
  const least = known === "truncate_sha256" ? hashLength + 1 : 1;
  if (first?.kind === "number" && first.number < least)
    throw new TemplateError(`${name} needs a length of at least ${least}`);
  if (known === "replace" && first?.kind === "text" && first.text === "")
    throw new TemplateError("replace needs a text to find");
  return { kind: "call", function: known, arguments: given };
}

/** The fields that a part of a template refers to. */
function fieldsOf(of: Argument): TemplateField[] {
  if (of.kind === "field") return [of.field];
  return of.kind === "call" ? of.arguments.flatMap(fieldsOf) : [];
}

/** An upper bound of the text's length. */
function maxTextLength(of: Argument): number {
  if (of.kind === "text") return of.text.length;
  if (of.kind === "number") return of.number;
  if (of.kind === "field") return assumedFieldLength;
  const lengths = of.arguments.map((one) => maxTextLength(one));
  const subject = lengths.at(-1) ?? 0;
  if (of.function === "sha256") return 64;
  if (of.function === "base64") return 4 * subject;
  if (of.function === "truncate" || of.function === "truncate_sha256") return Math.min(subject, lengths[0] ?? 0);
  if (of.function !== "replace") return subject;
  const find = of.arguments[0]?.kind === "text" ? (lengths[0] ?? 1) : 1;
  return Math.ceil(subject * Math.max(1, (lengths[1] ?? 0) / find));
}

function evaluate(of: Argument, fields: TemplateFields): string {
  if (of.kind === "text") return of.text;
  if (of.kind === "number") return String(of.number);
  if (of.kind === "field") return fields[of.field];
  const [first = "", second = "", third = ""] = of.arguments.map((one) => evaluate(one, fields));
  switch (of.function) {
    case "uppercase":
      return mapCase(first, (one) => one.toUpperCase());
    case "lowercase":
      return mapCase(first, (one) => one.toLowerCase());
    case "replace":
      // A replacer function, because $& and the like would be expanded in a text. An empty field matches nothing.
      return first === "" ? third : third.replaceAll(first, () => second);
    case "truncate":
      return prefix(Number(first), second);
    case "truncate_sha256":
      return truncateSha256(Number(first), second);
    case "sha256":
      return createHash("sha256").update(first).digest("hex");
    case "base64":
      return Buffer.from(first).toString("base64");
  }
}

/** Go maps one character to one: ß stays ß, where JavaScript produces SS. */
function mapCase(text: string, map: (character: string) => string): string {
  return [...text].map((one) => ([...map(one)].length === 1 ? map(one) : one)).join("");
}

/** Hex digits appended by `truncate_sha256`. */
const hashLength = 8;

/** Lengths are UTF-8 bytes, as in Vault; a character that would be split is left out. */
function prefix(bytes: number, text: string): string {
  const all = Buffer.from(text);
  let end = Math.min(bytes, all.length);
  while (end < all.length && end > 0 && ((all[end] ?? 0) & 0xc0) === 0x80) end--;
  return all.subarray(0, end).toString();
}

/** At most `bytes` UTF-8 bytes: a longer text keeps `bytes` - 8 and ends with a hash of the rest. */
function truncateSha256(bytes: number, text: string): string {
  const all = Buffer.from(text);
  if (all.length <= bytes) return text;
  const cut = all.subarray(bytes - hashLength);
  const hash = createHash("sha256").update(cut).digest("hex");
  return prefix(bytes - hashLength, text) + hash.slice(0, hashLength);
}
