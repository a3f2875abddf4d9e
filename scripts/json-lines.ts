/** The log of `npm run serve`: one JSON object a line, on stdout. */
import { format } from "node:util";

type Level = "debug" | "info" | "warn" | "error";
type Field = string | number | boolean | null;

/** A line of the Worker's log keeps its fields; any other text becomes the message of an event. */
export function jsonLine(level: Level, text: string, event = "message", now = new Date()): string {
  const time = now.toISOString();
  return `${JSON.stringify({ time, level, ...(fieldsIn(text) ?? { event, message: text.trimEnd() }) })}\n`;
}

/** Writes an event of the process itself. */
export function logEvent(level: Level, event: string, fields: Readonly<Record<string, Field>> = {}): void {
  process.stdout.write(jsonLine(level, JSON.stringify({ event, ...fields })));
}

/** From now on, everything that this process prints is such a line. */
export function printJsonLines(): void {
  for (const [method, level] of [
    ["log", "info"],
    ["info", "info"],
    ["warn", "warn"],
    ["error", "error"],
  ] as const)
    console[method] = (...words: unknown[]) => void process.stdout.write(jsonLine(level, format(...words)));
}

function fieldsIn(text: string): object | undefined {
  if (!text.startsWith("{")) return undefined;
  try {
    return JSON.parse(text) as object;
  } catch {
    return undefined;
  }
}
