/**
 * Globs over paths: `*` stands for a run of characters without a slash, `?` for one such character, `**` for any run,
 * slashes included. Matched in time proportional to both lengths, without backtracking into earlier stars.
 */

const MAX_LENGTH = 1_024;

type Piece = { readonly kind: "text"; readonly text: string } | { readonly kind: "one" | "star" | "deep" };

/** Why a text is no glob; null when it is one. */
export function pathGlobProblem(glob: string): string | null {
  if (glob === "") return "it is empty";
  if (glob.length > MAX_LENGTH) return `it is longer than ${MAX_LENGTH} characters`;
  if (glob.startsWith("/")) return "paths do not begin with a slash";
  if (/\*{3}/.test(glob)) return "more than two stars in a row";
  return /[[\]{}\\]/.test(glob) ? "only *, ** and ? are wildcards" : null;
}

const piecesOf = (glob: string): Piece[] =>
  [...glob.matchAll(/\*\*|\*|\?|[^*?]+/g)].map(([text]): Piece => {
    if (text === "**") return { kind: "deep" };
    if (text === "*") return { kind: "star" };
    return text === "?" ? { kind: "one" } : { kind: "text", text };
  });

export function matchesPathGlob(path: string, glob: string): boolean {
  // The ends of `path` that the pieces so far can reach.
  let ends = new Set([0]);
  for (const piece of piecesOf(glob)) {
    const next = new Set<number>();
    let covered = -1;
    for (const start of [...ends].sort((one, other) => one - other)) {
      if (piece.kind === "text") {
        if (path.startsWith(piece.text, start)) next.add(start + piece.text.length);
      } else if (piece.kind === "one") {
        if (start < path.length && path[start] !== "/") next.add(start + 1);
      } else {
        // Ends that an earlier start has covered are walked once.
        for (let end = Math.max(start, covered + 1); end <= path.length; end++) {
          next.add(end);
          covered = end;
          if (piece.kind === "star" && path[end] === "/") break;
        }
      }
    }
    if (next.size === 0) return false;
    ends = next;
  }
  return ends.has(path.length);
}
