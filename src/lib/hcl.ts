/**
 * Parser for policy documents: HCL version 1, or JSON of the same structure. The result is a plain tree with members in
 * document order. Members are an array instead of an object, so blocks may repeat, and a name such as `__proto__` has
 * no special meaning.
 */

export type HclValue = string | number | boolean | null | HclValue[] | HclObject;

export interface HclObject {
  readonly members: readonly HclMember[];
}

export interface HclMember {
  readonly name: string;
  readonly label?: string;
  /** True for `name = value` and `"name": value`, false for a block. */
  readonly assigned: boolean;
  readonly value: HclValue;
  readonly line: number;
}

type HclResult =
  | { readonly ok: true; readonly document: HclObject }
  | { readonly ok: false; readonly message: string; readonly line: number; readonly column: number };

export const MAX_DOCUMENT_BYTES = 1024 * 1024;
export const MAX_DEPTH = 32;

/** Parses a document. A text that starts with `{` is JSON, everything else is HCL. Never throws. */
export function parseHcl(text: string): HclResult {
  // A UTF-16 unit takes at least one byte, so this cheap test avoids encoding a huge text.
  if (text.length > MAX_DOCUMENT_BYTES || new TextEncoder().encode(text).length > MAX_DOCUMENT_BYTES) {
    return { ok: false, message: `the document is larger than ${MAX_DOCUMENT_BYTES} bytes`, line: 1, column: 1 };
  }
  try {
    return { ok: true, document: new Parser(text.replace(/^\uFEFF/, "")).document() };
  } catch (error) {
    if (error instanceof SyntaxFault) return { ok: false, ...error.fault };
    throw error;
  }
}

/** Quotes a piece of a document for a message, without control characters and with limited length. */
export function quote(text: string): string {
  return JSON.stringify(text.length > 80 ? `${text.slice(0, 80).toWellFormed()}…` : text);
}

class SyntaxFault extends Error {
  readonly fault: { message: string; line: number; column: number };

  constructor(message: string, text: string, offset: number) {
    super(message);
    const before = text.slice(0, offset).split("\n");
    this.fault = { message, line: before.length, column: [...(before.at(-1) ?? "")].length + 1 };
  }
}

const IDENTIFIER = /[\p{L}_][\p{L}\p{N}_.-]*/uy;
const NUMBER = /-?(?:0[xX][0-9a-fA-F]+|(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)(?![\p{L}\p{N}_.])/uy;
const PLAIN_TEXT = /[^"\\\u0000-\u0008\u000A-\u001F]+/y;
const HEREDOC_OPENING = /<<(-?)([\p{L}_][\p{L}\p{N}_.-]*)[ \t]*\r?\n/uy;
const SPACE = /[ \t\r\n]+/y;
const NUMERIC_ESCAPE = /\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|x([0-9a-fA-F]{2})|([0-3][0-7]{2}))/y;
const SIMPLE_ESCAPES = new Map([
  ['"', '"'],
  ["\\", "\\"],
  ["/", "/"],
  ["a", "\u0007"],
  ["b", "\b"],
  ["f", "\f"],
  ["n", "\n"],
  ["r", "\r"],
  ["t", "\t"],
  ["v", "\v"],
]);

class Parser {
  private at = 0;
  private depth = 0;
  private json = false;
  /** Line of `countedTo`. Member offsets only grow, so lines are counted once over the whole text. */
  private line = 1;
  private countedTo = 0;

  constructor(private readonly text: string) {}

  document(): HclObject {
    this.skip();
    if (this.peek() !== "{") return this.members(undefined);
    this.json = true;
    const document = this.object();
    this.skip();
    if (this.at < this.text.length) this.fail("nothing may follow the closing brace of a JSON document");
    // The grammar below is a superset of JSON's; a JSON document is additionally checked by the JSON parser.
    try {
      JSON.parse(this.text);
    } catch {
      this.fail("a document that begins with { must be JSON, without comments or HCL syntax", 0);
    }
    return document;
  }

  private object(): HclObject {
    const opening = this.enter();
    const object = this.members(opening);
    this.depth--;
    return object;
  }

  /** Members up to the brace that closes the one at `opening`, or to the end of the text without one. */
  private members(opening: number | undefined): HclObject {
    const members: HclMember[] = [];
    const assignedByName = new Map<string, boolean>();
    for (;;) {
      this.skip();
      if (this.closes("}", opening)) return { members };
      const start = this.at;
      const member = this.member();
      const earlier = assignedByName.get(member.name);
      if (earlier !== undefined && (earlier || member.assigned)) {
        this.fail(`duplicate attribute ${quote(member.name)}`, start);
      }
      assignedByName.set(member.name, member.assigned);
      members.push(member);
      this.separator("}", this.json);
    }
  }

  private member(): HclMember {
    const line = this.lineAt(this.at);
    const name = this.name();
    this.skip();
    if (this.peek() === (this.json ? ":" : "=")) {
      this.at++;
      this.skip();
      return { name, assigned: true, value: this.value(), line };
    }
    if (this.json) this.fail(`expected ":" after ${quote(name)}`);
    if (this.peek() === "{") return { name, assigned: false, value: this.object(), line };
    if (this.peek() !== '"' && !this.sees(IDENTIFIER)) {
      this.fail(`expected "=", a label or "{" after ${quote(name)}`);
    }
    const label = this.name();
    this.skip();
    if (this.peek() !== "{") this.fail(`expected "{" after the label: a block has at most one`);
    return { name, label, assigned: false, value: this.object(), line };
  }

  private name(): string {
    if (this.peek() === '"') return this.string();
    return this.take(IDENTIFIER)?.[0] ?? this.fail(`expected a name, found ${this.found()}`);
  }

  private value(): HclValue {
    const sign = this.peek();
    if (sign === '"') return this.string();
    if (sign === "{") return this.object();
    if (sign === "[") return this.list();
    if (sign === "<") return this.heredoc();
    const start = this.at;
    const word = this.take(IDENTIFIER)?.[0];
    if (word === "true" || word === "false") return word === "true";
    if (word === "null" && this.json) return null;
    if (word !== undefined) this.fail(`${quote(word)} is not a value: text needs quotes`, start);
    const number = Number(this.take(NUMBER)?.[0] ?? this.fail(`expected a value, found ${this.found()}`));
    if (!Number.isFinite(number)) this.fail("the number is too large", start);
    return number;
  }

  private list(): HclValue[] {
    const opening = this.enter();
    const values: HclValue[] = [];
    for (;;) {
      this.skip();
      if (this.closes("]", opening)) break;
      values.push(this.value());
      this.separator("]", true);
    }
    this.depth--;
    return values;
  }

  /** Reads a quoted text. Interpolation has no meaning in a policy: `${…}` is literal. */
  private string(): string {
    const start = this.at;
    const parts: string[] = [];
    this.at++;
    while (this.peek() !== '"') {
      if (this.at >= this.text.length) this.fail("the text is not closed", start);
      const plain = this.take(PLAIN_TEXT)?.[0];
      if (plain === undefined && this.peek() !== "\\") this.fail("a line break or control sign inside a text");
      parts.push(plain ?? this.escape());
    }
    this.at++;
    return this.wellFormed(parts.join(""), start);
  }

  private escape(): string {
    const start = this.at;
    const numeric = this.take(NUMERIC_ESCAPE);
    if (numeric !== undefined) {
      const [, short, long, byte, octal] = numeric;
      const code = octal === undefined ? Number.parseInt(short ?? long ?? byte ?? "", 16) : Number.parseInt(octal, 8);
      if (code > 0x10ffff) this.fail("no such character", start);
      // Surrogate halves are handled one at a time; the complete text is validated afterwards.
      return String.fromCodePoint(code);
    }
    const simple = SIMPLE_ESCAPES.get(this.text.charAt(this.at + 1));
    if (simple === undefined) this.fail("unknown escape in a text");
    this.at += 2;
    return simple;
  }

  /** Reads `<<MARK` up to a line with only MARK. `<<-` also removes that line's indentation from every line. */
  private heredoc(): string {
    const start = this.at;
    const opening = this.take(HEREDOC_OPENING);
    if (opening === undefined) this.fail("a heredoc begins with << and a marker at the end of its line");
    const [, dash, marker] = opening;
    const lines: string[] = [];
    while (this.at < this.text.length) {
      const newline = this.text.indexOf("\n", this.at);
      const end = newline < 0 ? this.text.length : newline;
      const line = this.text.slice(this.at, end).replace(/\r$/, "");
      // The line break after the marker is consumed by skip(), like all others.
      this.at = end;
      if (line.trim() === marker) {
        const indent = line.slice(0, line.indexOf(marker));
        const strip = dash === "-" && lines.every((each) => each.startsWith(indent)) ? indent.length : 0;
        return this.wellFormed(lines.map((each) => `${each.slice(strip)}\n`).join(""), start);
      }
      lines.push(line);
      this.at++;
    }
    return this.fail(`the heredoc is not closed by a line with ${marker}`, start);
  }

  /** A lone surrogate would be altered in storage and then match something else. */
  private wellFormed(value: string, start: number): string {
    return value.isWellFormed() ? value : this.fail("the text is not valid Unicode", start);
  }

  private enter(): number {
    if (++this.depth > MAX_DEPTH) this.fail(`nested deeper than ${MAX_DEPTH} levels`);
    return this.at++;
  }

  private closes(sign: "}" | "]", opening: number | undefined): boolean {
    if (this.at >= this.text.length) {
      return opening === undefined || this.fail(`expected ${quote(sign)}: opened here, never closed`, opening);
    }
    if (opening === undefined || this.peek() !== sign) return false;
    this.at++;
    return true;
  }

  private separator(closing: "}" | "]", required: boolean): void {
    this.skip();
    if (this.peek() === ",") {
      this.at++;
    } else if (required && this.at < this.text.length && this.peek() !== closing) {
      this.fail(`expected "," or ${quote(closing)}, found ${this.found()}`);
    }
  }

  private skip(): void {
    for (;;) {
      const start = this.at;
      this.take(SPACE);
      if (this.text.startsWith("/*", this.at)) {
        const end = this.text.indexOf("*/", this.at + 2);
        if (end < 0) this.fail("the comment is not closed");
        this.at = end + 2;
      } else if (this.peek() === "#" || this.text.startsWith("//", this.at)) {
        const end = this.text.indexOf("\n", this.at);
        this.at = end < 0 ? this.text.length : end;
      }
      if (this.at === start) return;
    }
  }

  private peek(): string {
    return this.text.charAt(this.at);
  }

  private sees(pattern: RegExp): boolean {
    pattern.lastIndex = this.at;
    return pattern.test(this.text);
  }

  private take(pattern: RegExp): RegExpExecArray | undefined {
    pattern.lastIndex = this.at;
    const match = pattern.exec(this.text);
    if (match === null) return undefined;
    this.at += match[0].length;
    return match;
  }

  private found(): string {
    const code = this.text.codePointAt(this.at);
    return code === undefined ? "the end of the document" : quote(String.fromCodePoint(code));
  }

  private lineAt(offset: number): number {
    for (; this.countedTo < offset; this.countedTo++) {
      if (this.text.charCodeAt(this.countedTo) === 10) this.line++;
    }
    return this.line;
  }

  private fail(message: string, offset = this.at): never {
    throw new SyntaxFault(message, this.text, offset);
  }
}
