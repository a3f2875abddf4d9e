/** One structured line for the operator. Ids and counts only: never a value, a token or a body. */
export function warn(event: string, fields: Record<string, string | number | boolean | null | undefined> = {}): void {
  console.warn(JSON.stringify({ level: "warn", event, ...fields }));
}

/** The message of an unknown exception, for the operator's log. */
export const textOf = (failure: unknown): string => (failure instanceof Error ? failure.message : String(failure));
