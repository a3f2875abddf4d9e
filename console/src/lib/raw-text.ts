/**
 * Texts whose line ends stay as they were entered. A field of a browser holds `\n` for each of them
 * (https://html.spec.whatwg.org/#textarea-line-break-normalisation-transformation), so the text itself is kept beside it.
 */

/** The text as a field holds it. */
export const inField = (raw: string): string => raw.replace(/\r\n?/g, "\n");

/** Place in the text of a place in the field. */
function placeIn(raw: string, place: number): number {
  let at = 0;
  for (let left = place; left > 0; left--) at += raw.startsWith("\r\n", at) ? 2 : 1;
  return at;
}

/** The text after `from` to `to` of its field was replaced. */
export const replaced = (raw: string, from: number, to: number, by: string): string =>
  raw.slice(0, placeIn(raw, from)) + by + raw.slice(placeIn(raw, to));

/** The text after its field was changed to `field`: what did not change keeps its line ends. */
export function edited(raw: string, field: string): string {
  const before = inField(raw);
  const shorter = Math.min(before.length, field.length);
  let start = 0;
  while (start < shorter && before[start] === field[start]) start++;
  let end = 0;
  while (end < shorter - start && before.at(-1 - end) === field.at(-1 - end)) end++;
  return replaced(raw, start, before.length - end, field.slice(start, field.length - end));
}

/** Lets the browser save a file. */
export function saveFile(content: BlobPart, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content]));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/** The text of a file, to the byte. @throws Error when it is not UTF-8 */
export async function textOfFile(file: File): Promise<string> {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(await file.arrayBuffer());
  } catch {
    throw new Error(`${file.name} is not UTF-8 text. Encode it first, such as with base64.`);
  }
}
