/** Parses a boolean as Go's `strconv.ParseBool`: `1`, `t`, `TRUE` and so on. @returns null when invalid */
export function parseGoBool(text: string): boolean | null {
  if (/^(1|t|T|TRUE|true|True)$/.test(text)) return true;
  return /^(0|f|F|FALSE|false|False)$/.test(text) ? false : null;
}
