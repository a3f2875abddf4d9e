type Fields = Readonly<Record<string, string | number | boolean | null | undefined>>;

/** Writes one structured log line to stderr. Fields are names, ids and counts, never content of objects. */
const line =
  (level: "info" | "warn" | "error") =>
  (event: string, fields: Fields = {}): void => {
    process.stderr.write(`${JSON.stringify({ time: new Date().toISOString(), level, event, ...fields })}\n`);
  };

export const info = line("info");
export const warn = line("warn");
export const error = line("error");

/** The message of an unknown failure. */
export const textOf = (failure: unknown): string => (failure instanceof Error ? failure.message : String(failure));
