/**
 * Whether a text matches a glob, in which `*` matches any run of characters. Each literal piece is matched at its first
 * occurrence without backtracking, so a hostile glob costs no more than a plain one.
 */
export function matchesGlob(text: string, glob: string): boolean {
  const [first = "", ...pieces] = glob.split("*");
  const last = pieces.pop();
  if (last === undefined) return text === glob;
  if (!text.startsWith(first)) return false;
  let at = first.length;
  for (const piece of pieces) {
    const found = text.indexOf(piece, at);
    if (found < 0) return false;
    at = found + piece.length;
  }
  return text.length - last.length >= at && text.endsWith(last);
}
