import { createHash } from "node:crypto";
import { randomText } from "../lib/random-text.ts";
import { ok, type Result, refuse } from "../lib/result.ts";

/**
 * Templates of names that engines choose, such as `username_template`: the part of Go's text/template that upstream
 * documents for them (https://developer.hashicorp.com/vault/docs/concepts/username-templating). Actions `{{ … }}` with
 * fields, texts, numbers, parentheses, pipes, `if`, `else`, `end`, and the functions below.
 */

type Value = string | number | boolean;
type Fields = Readonly<Record<string, string>>;
type Run = (fields: Fields) => Value;
/** Writes the text of a part. */
type Write = (fields: Fields) => string;

/** A template that cannot be read or filled. Its message is for the operator. */
class TemplateProblem extends Error {}

const MAX_LENGTH = 4_096;
const MAX_RESULT = 1_024;

/** Fills a template. @param fields values by name, such as `RoleName` for `.RoleName` */
export function nameOf(template: string, fields: Fields): Result<string> {
  try {
    const text = parsed(template)(fields);
    return text.length <= MAX_RESULT ? ok(text) : refuse("invalid", `the name has more than ${MAX_RESULT} characters`);
  } catch (problem) {
    if (problem instanceof TemplateProblem) return refuse("invalid", problem.message);
    throw problem;
  }
}

const problem = (message: string): never => {
  throw new TemplateProblem(message);
};

const textOf = (value: Value | undefined): string =>
  value === undefined ? problem("an argument is missing") : String(value);

function countOf(value: Value | undefined): number {
  return typeof value === "number" && Number.isInteger(value) && value >= 0 && value <= MAX_RESULT
    ? value
    : problem(`a length must be a number from 0 to ${MAX_RESULT}`);
}

const sha256 = (text: string): string => createHash("sha256").update(text).digest("hex");

const FUNCTIONS: Readonly<Record<string, (...given: readonly Value[]) => Value>> = {
  random: (length) => randomText(countOf(length)),
  truncate: (length, text) => textOf(text).slice(0, countOf(length)),
  truncate_sha256(length, text) {
    const [most, whole] = [countOf(length), textOf(text)];
    if (most <= 8) return problem("truncate_sha256 needs a length of more than 8");
    return whole.length <= most ? whole : whole.slice(0, most - 8) + sha256(whole.slice(most - 8)).slice(0, 8);
  },
  uppercase: (text) => textOf(text).toUpperCase(),
  lowercase: (text) => textOf(text).toLowerCase(),
  replace: (from, to, text) => textOf(text).replaceAll(textOf(from), () => textOf(to)),
  sha256: (text) => sha256(textOf(text)),
  base64: (text) => Buffer.from(textOf(text)).toString("base64"),
  unix_time: () => String(Math.floor(Date.now() / 1000)),
  unix_time_millis: () => String(Date.now()),
  timestamp(layout) {
    const now = new Date().toISOString();
    // Go's reference time, in its own notation.
    const parts = { "2006": now.slice(0, 4), "01": now.slice(5, 7), "02": now.slice(8, 10), "15": now.slice(11, 13) };
    const rest = { "04": now.slice(14, 16), "05": now.slice(17, 19) };
    const known: Readonly<Record<string, string>> = { ...parts, ...rest };
    return textOf(layout).replace(/2006|01|02|15|04|05/g, (part) => known[part] ?? part);
  },
  uuid: () => crypto.randomUUID(),
  printf(format, ...values) {
    let next = 0;
    return textOf(format).replace(/%(%|[sdvq])/g, (_whole, verb) => {
      if (verb === "%") return "%";
      const value = textOf(values[next++]);
      return verb === "q" ? JSON.stringify(value) : value;
    });
  },
  eq: (first, ...others) => others.some((other) => other === first),
  ne: (first, second) => first !== second,
  not: (value) => !value,
};

interface Token {
  readonly kind: "text" | "number" | "field" | "word" | "mark";
  readonly value: string;
}

const TOKEN = /\s*(?:("(?:[^"\\]|\\.)*"|`[^`]*`)|(\d+)(?![\w.])|\.([A-Za-z]\w*)|([a-z]\w*)|([|()]))/y;

function tokensOf(action: string): Token[] {
  const tokens: Token[] = [];
  TOKEN.lastIndex = 0;
  while (action.slice(TOKEN.lastIndex).trim() !== "") {
    const [, text, number, field, word, mark] = TOKEN.exec(action) ?? problem("the template has an unknown expression");
    if (text !== undefined) tokens.push({ kind: "text", value: literal(text) });
    else if (number !== undefined) tokens.push({ kind: "number", value: number });
    else if (field !== undefined) tokens.push({ kind: "field", value: field });
    else if (word !== undefined) tokens.push({ kind: "word", value: word });
    else tokens.push({ kind: "mark", value: mark ?? "" });
  }
  return tokens;
}

function literal(quoted: string): string {
  if (quoted.startsWith("`")) return quoted.slice(1, -1);
  try {
    return JSON.parse(quoted) as string;
  } catch {
    return problem("the template has a malformed text");
  }
}

/** Reads `function argument … | function …`, where the last value of each part is an argument of the next. */
function pipeline(tokens: Token[]): Run {
  let piped = command(tokens, null);
  while (tokens[0]?.value === "|" && tokens[0].kind === "mark") {
    tokens.shift();
    piped = command(tokens, piped);
  }
  return piped;
}

function command(tokens: Token[], before: Run | null): Run {
  const first = tokens[0];
  if (first?.kind !== "word") {
    const value = operand(tokens);
    return before ? problem("a value cannot follow a pipe") : value;
  }
  tokens.shift();
  const called = Object.hasOwn(FUNCTIONS, first.value) ? FUNCTIONS[first.value] : undefined;
  if (!called) return problem(`function "${first.value.slice(0, 32)}" not defined`);
  const given: Run[] = [];
  while (tokens[0] && !(tokens[0].kind === "mark" && tokens[0].value !== "(")) given.push(operand(tokens));
  if (before) given.push(before);
  return (fields) => called(...given.map((each) => each(fields)));
}

function operand(tokens: Token[]): Run {
  const token = tokens.shift();
  if (token?.kind === "text") return () => token.value;
  if (token?.kind === "number") return () => Number(token.value);
  if (token?.kind === "field") {
    return (fields) =>
      Object.hasOwn(fields, token.value)
        ? (fields[token.value] ?? "")
        : problem(`there is no field .${token.value.slice(0, 32)}`);
  }
  // A function without arguments may be an argument itself.
  if (token?.kind === "word") return command([token], null);
  if (token?.value !== "(") return problem("the template has an unknown expression");
  const inner = pipeline(tokens);
  return tokens.shift()?.value === ")" ? inner : problem("the template lacks a )");
}

/** A part of the template: literal text, or an action without its braces. */
interface Part {
  readonly text?: string;
  readonly action?: string;
}

function parsed(template: string): Write {
  if (template.length > MAX_LENGTH) return problem(`the template has more than ${MAX_LENGTH} characters`);
  const parts = template.split(/(\{\{(?:[^}"`]|"(?:[^"\\]|\\.)*"|`[^`]*`)*\}\})/).map((part, at): Part => {
    return at % 2 === 0 ? { text: part } : { action: part.slice(2, -2) };
  });
  // `{{-` and `-}}` remove the space beside them.
  const trimmed = parts.map((part, at): Part => {
    if (part.text === undefined) return { action: (part.action ?? "").replace(/^-\s/, "").replace(/\s-$/, "").trim() };
    if (/\{\{|\}\}/.test(part.text)) return problem("the template has an unclosed action");
    const left = /\s-$/.test(parts[at - 1]?.action ?? "") ? part.text.trimStart() : part.text;
    return { text: /^-\s/.test(parts[at + 1]?.action ?? "") ? left.trimEnd() : left };
  });
  const write = block(trimmed);
  return trimmed.length > 0 ? problem("the template has an unexpected {{ end }} or {{ else }}") : write;
}

/** Reads parts up to an `else` or `end`, which stays. */
function block(parts: Part[]): Write {
  const writes: Write[] = [];
  for (let part = parts[0]; part !== undefined; part = parts[0]) {
    const { text, action = "" } = part;
    if (text === undefined && /^(else|end)\b/.test(action)) break;
    parts.shift();
    if (text !== undefined) writes.push(() => text);
    else if (/^if\b/.test(action)) writes.push(choice(action.slice(2), parts));
    else if (!action.startsWith("/*")) {
      const run = whole(action);
      writes.push((fields) => String(run(fields)));
    }
  }
  return (fields) => writes.map((write) => write(fields)).join("");
}

function whole(action: string): Run {
  const tokens = tokensOf(action);
  const run = pipeline(tokens);
  return tokens.length > 0 ? problem("the template has an unknown expression") : run;
}

/** Reads the branches of an `if` up to its `end`. */
function choice(condition: string, parts: Part[]): Write {
  const when = whole(condition);
  const then = block(parts);
  const { action = "" } = parts.shift() ?? {};
  const elseIf = /^else\s+if\b(.*)$/s.exec(action)?.[1];
  if (elseIf !== undefined) {
    const other = choice(elseIf, parts);
    return (fields) => (when(fields) ? then(fields) : other(fields));
  }
  const other = action === "else" ? block(parts) : () => "";
  if (action === "else" && parts.shift()?.action !== "end") return problem("the template lacks an {{ end }}");
  if (action !== "else" && action !== "end") return problem("the template lacks an {{ end }}");
  return (fields) => (when(fields) ? then(fields) : other(fields));
}
