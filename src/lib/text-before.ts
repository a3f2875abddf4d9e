/** The text before the first separator; all of it without one. */
export function textBefore(text: string, separator: string): string {
  const end = text.indexOf(separator);
  return end < 0 ? text : text.slice(0, end);
}
