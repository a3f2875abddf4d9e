/**
 * Splits the elements of a large JSON array without parsing the whole: the tree of a 32 MiB body exceeds an isolate's
 * memory. One pass over the text. Elements are validated when they are parsed; the text between them is validated
 * here.
 */

/** An array within a text: its elements, and the surrounding text with the array emptied. */
interface CutArray {
  readonly elements: readonly string[];
  readonly shell: string;
}

const [QUOTE, BACKSLASH, COMMA] = [0x22, 0x5c, 0x2c];
const opens = (code: number): boolean => code === 0x7b || code === 0x5b;
const closes = (code: number): boolean => code === 0x7d || code === 0x5d;

/** The position after the string that begins at `at`. */
function behindString(text: string, at: number): number {
  let end = at + 1;
  while (end < text.length && text.charCodeAt(end) !== QUOTE) end += text.charCodeAt(end) === BACKSLASH ? 2 : 1;
  return end + 1;
}

/** The position of the array: the text itself, or its member of this name; -1 without one. */
function arrayIn(text: string, member: string): number {
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) {
      const end = behindString(text, at);
      const begins = depth === 1 ? /^\s*:\s*\[/.exec(text.slice(end, end + 64)) : null;
      if (begins && text.slice(at + 1, end - 1) === member) return end + begins[0].length - 1;
      at = end - 1;
    } else if (opens(code)) {
      if (depth === 0 && code === 0x5b) return at;
      depth += 1;
    } else if (closes(code)) depth -= 1;
  }
  return -1;
}

/** @returns null without such an array, or when it is not terminated */
export function cutArray(text: string, member: string): CutArray | null {
  const begin = arrayIn(text, member);
  if (begin < 0) return null;
  const elements: string[] = [];
  let depth = 0;
  let from = begin + 1;
  for (let at = begin + 1; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) at = behindString(text, at) - 1;
    else if (opens(code)) depth += 1;
    else if (depth > 0) depth -= closes(code) ? 1 : 0;
    else if (code === COMMA || closes(code)) {
      const element = text.slice(from, at);
      const isEmpty = closes(code) && elements.length === 0 && element.trim() === "";
      if (!isEmpty) elements.push(element);
      from = at + 1;
      if (code !== COMMA)
        return code === 0x5d ? { elements, shell: `${text.slice(0, begin)}[]${text.slice(from)}` } : null;
    }
  }
  return null;
}
