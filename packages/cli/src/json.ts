import { elementsOf, membersOf } from "../../relay/src/json-text.ts";

/**
 * JSON as text. Values of secrets are forwarded as the source wrote them, because a parsed number loses digits beyond
 * 2^53 and the form `1.50`.
 */

/** The same text for equal values, whatever the order of members and the escapes of strings. @throws SyntaxError */
export function canonicalJson(text: string): string {
  const trimmed = text.trim();
  if (trimmed.startsWith("{"))
    return `{${[...membersOf(trimmed)]
      .map(([name, value]) => [JSON.stringify(name), canonicalJson(value)])
      .sort(([a = ""], [b = ""]) => (a < b ? -1 : 1))
      .map((member) => member.join(":"))
      .join()}}`;
  if (trimmed.startsWith("[")) return `[${elementsOf(trimmed).map(canonicalJson).join()}]`;
  return trimmed.startsWith('"') ? JSON.stringify(JSON.parse(trimmed)) : trimmed;
}

/** The texts of the objects and arrays that follow each other in a file, with only spaces between. @throws SyntaxError */
export function documentsOf(text: string): string[] {
  const found: string[] = [];
  let [depth, from, inString] = [0, 0, false];
  for (let at = 0; at < text.length; at++) {
    const letter = text[at];
    if (inString) {
      if (letter === "\\") at += 1;
      else if (letter === '"') inString = false;
    } else if (letter === '"') inString = true;
    else if (letter === "{" || letter === "[") {
      if (depth++ === 0) from = at;
    } else if (letter === "}" || letter === "]") {
      if (--depth > 0) continue;
      const document = text.slice(from, at + 1);
      JSON.parse(document);
      found.push(document);
      continue;
    }
    if (depth === 0 && !/\s/.test(letter ?? "")) throw new SyntaxError("not an object or an array");
  }
  if (depth !== 0) throw new SyntaxError("JSON ends early");
  return found;
}
