/**
 * Splits JSON text without parsing: the relay forwards the source's own text, so that integers beyond 2^53 keep their
 * digits. One pass over the text; costs no tree of a large line.
 */

const [QUOTE, BACKSLASH, COMMA, COLON] = [0x22, 0x5c, 0x2c, 0x3a];
const opens = (code: number): boolean => code === 0x7b || code === 0x5b;
const closes = (code: number): boolean => code === 0x7d || code === 0x5d;

/** The position after the string that begins at `at`. */
function afterString(text: string, at: number): number {
  let end = at + 1;
  while (end < text.length && text.charCodeAt(end) !== QUOTE) end += text.charCodeAt(end) === BACKSLASH ? 2 : 1;
  return end + 1;
}

/** The positions of commas and of the end, at the top level of the array or object that begins at `open`. */
function* boundaries(text: string, open: number): Generator<number> {
  let depth = 0;
  for (let at = open + 1; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) at = afterString(text, at) - 1;
    else if (opens(code)) depth += 1;
    else if (closes(code)) {
      if (depth === 0) return yield at;
      depth -= 1;
    } else if (code === COMMA && depth === 0) yield at;
  }
  throw new SyntaxError("JSON ends early");
}

function parts(text: string, open: number): string[] {
  const found: string[] = [];
  let from = open + 1;
  for (const at of boundaries(text, open)) {
    const part = text.slice(from, at).trim();
    if (part !== "" || found.length > 0) found.push(part);
    from = at + 1;
  }
  return found;
}

/** The texts of an array's elements; none for `null`. @throws SyntaxError */
export function elementsOf(text: string): string[] {
  const trimmed = text.trim();
  if (trimmed === "null") return [];
  if (!trimmed.startsWith("[")) throw new SyntaxError("not a JSON array");
  return parts(trimmed, 0);
}

/** The texts of an object's members by name. @throws SyntaxError */
export function membersOf(text: string): Map<string, string> {
  const trimmed = text.trim();
  if (!trimmed.startsWith("{")) throw new SyntaxError("not a JSON object");
  return new Map(
    parts(trimmed, 0).map((part) => {
      const end = afterString(part, 0);
      const colon = part.indexOf(":", end);
      if (part.charCodeAt(0) !== QUOTE || part.charCodeAt(colon) !== COLON) throw new SyntaxError("not a member");
      return [JSON.parse(part.slice(0, end)) as string, part.slice(colon + 1).trim()];
    }),
  );
}

/** One line of an event stream. */
export interface StreamLine {
  readonly index: number;
  /** Texts. */
  readonly events: readonly string[];
}

/** @returns null for a heartbeat. @throws SyntaxError */
export function streamLine(text: string): StreamLine | null {
  const members = membersOf(text);
  const events = elementsOf(members.get("Events") ?? "null");
  return events.length === 0 ? null : { index: Number(members.get("Index")), events };
}
