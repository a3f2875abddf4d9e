/** Parses a boolean as Go's `strconv.ParseBool`: `1`, `t`, `TRUE` and so on. @returns null when invalid */
export function parseGoBool(text: string): boolean | null {
  if (/^(1|t|T|TRUE|true|True)$/.test(text)) return true;
  return /^(0|f|F|FALSE|false|False)$/.test(text) ? false : null;
}

/** Parses a boolean of query strings and forms, in any case: `1`, `t`, `true`, `0`, `f`, `false`. @returns null when invalid */
export function parseFlag(text: string): boolean | null {
  if (/^(1|t|true)$/i.test(text)) return true;
  return /^(0|f|false)$/i.test(text) ? false : null;
}
