/** The last lines that this isolate wrote, for deployments whose lines no bucket keeps. Costs up to `MAX_CHARS`. */

const MAX_LINES = 1_000;
const MAX_CHARS = 1024 * 1024;

const lines: string[] = [];
let chars = 0;

export function rememberLine(line: string): void {
  lines.push(line);
  chars += line.length;
  while (lines.length > MAX_LINES || chars > MAX_CHARS) chars -= lines.shift()?.length ?? 0;
}

/** Oldest first. */
export const recentLines = (): readonly string[] => lines;
