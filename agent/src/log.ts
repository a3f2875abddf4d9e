type Fields = Record<string, string | number | boolean | null | undefined>;

/** Writes one structured log line to stderr. Fields are ids, configured paths and counts, never values of requests. */
function line(level: "info" | "warn" | "error", event: string, fields: Fields): void {
  process.stderr.write(`${JSON.stringify({ time: new Date().toISOString(), level, event, ...fields })}\n`);
}

export const info = (event: string, fields: Fields = {}) => line("info", event, fields);
export const warn = (event: string, fields: Fields = {}) => line("warn", event, fields);
export const error = (event: string, fields: Fields = {}) => line("error", event, fields);

/** The message of an unknown failure. */
export const textOf = (failure: unknown): string => (failure instanceof Error ? failure.message : String(failure));

/** The code of a system error, such as ENOENT. */
export const codeOf = (failure: unknown): string | undefined =>
  failure instanceof Error && "code" in failure && typeof failure.code === "string" ? failure.code : undefined;
