import * as z from "zod";
import type { Report } from "../../contracts/reports.ts";
import { isPlainObject, parseLossless } from "../../lib/json.ts";
import { badRequest, invalid, RequestError } from "../../platform/http/errors.ts";
import { EventReader } from "./event-reader.ts";
import { cutArray } from "./report-items.ts";
import type { Fields } from "./topics/topic.ts";

/** A parsed body of `PUT /v1/cluster/objects`. */
export interface ReportBody {
  readonly reports: readonly Report[];
  /** The index of a forwarded stream line; null without one. */
  readonly lineIndex: number | null;
  /** The body is one line of an upstream stream. */
  readonly isLine: boolean;
}

/** Largest report body in bytes; an upstream line for a job with 15,000 allocations has about 28 MB. */
export const MAX_REPORT_BYTES = 32 * 1024 * 1024;
export const MAX_EVENTS = 20_000;

/**
 * Parses a body of several lines of an upstream stream, one per text line.
 * @returns null for another body
 * @throws RequestError as `readReports`, also naming the line's number
 */
export function readLines(text: string, namespace: string): readonly ReportBody[] | null {
  const lines = text.split("\n").filter((line) => line.trim() !== "");
  if (lines.length < 2 || !isStreamLineText(lines[0] ?? "")) return null;
  const bodies = lines.map((line, at) => {
    try {
      const body = readReports(line, namespace);
      if (!body.isLine) throw badRequest("must be a line of a stream, like the first one");
      return body;
    } catch (failure) {
      if (!(failure instanceof RequestError)) throw failure;
      throw new RequestError(
        failure.status,
        failure.messages.map((message) => `line ${at + 1}: ${message}`),
      );
    }
  });
  const events = bodies.reduce((sum, { reports }) => sum + reports.length, 0);
  if (events > MAX_EVENTS) throw new RequestError(413, `request body: at most ${MAX_EVENTS} events`);
  return bodies;
}

/**
 * Parses a JSON array of events, newline-delimited events, or one line of an upstream stream.
 * @param namespace default for events and objects without one
 * @throws RequestError 400 naming the event's number, field and rule; 413 for too many events
 */
export function readReports(text: string, namespace: string): ReportBody {
  const { items, ...line } = itemsOf(text);
  if (items.length > MAX_EVENTS) throw new RequestError(413, `request body: at most ${MAX_EVENTS} events`);
  const jobs = new Set<string>();
  const reports = items.map((item, at) =>
    withNewJob(new EventReader(at + 1, namespace).read(jsonOf(item, `event ${at + 1}`)), jobs),
  );
  return { reports, ...line };
}

/** Allocations of one version share their job's text. */
function withNewJob(report: Report, known: Set<string>): Report {
  if (report.topic === "Node" || report.job === undefined) return report;
  const { job, ...rest } = report;
  const key = JSON.stringify([report.namespace, report.jobId, report.jobVersion]);
  if (known.has(key)) return rest;
  known.add(key);
  return report;
}

function isStreamLineText(text: string): boolean {
  try {
    return itemsOf(text).isLine;
  } catch {
    return false;
  }
}

interface Items extends Pick<ReportBody, "lineIndex" | "isLine"> {
  /** The text of each event; parsed one by one, so that only one tree is in memory. */
  readonly items: readonly string[];
}

const NO_LINE = { lineIndex: null, isLine: false } as const;

function itemsOf(text: string): Items {
  const start = text.trimStart()[0];
  if (start === undefined) throw badRequest("Request body is empty");
  if (start !== "[" && start !== "{") throw badRequest("request body: must be events in JSON");
  const lines = start === "[" ? [] : text.split("\n").filter((line) => line.trim() !== "");
  // A pretty-printed object spans lines; its first line alone is not JSON.
  if (lines.length > 1 && parsed(lines[0] ?? "").failure === null) return { items: lines, ...NO_LINE };
  const cut = cutArray(text, "Events");
  const shell = jsonOf(cut?.shell ?? text, "request body");
  if (Array.isArray(shell)) return { items: cut?.elements ?? [], ...NO_LINE };
  if (!isPlainObject(shell) || !isStreamLine(shell)) return { items: [text], ...NO_LINE };
  return { items: cut?.elements ?? [], lineIndex: lineIndexOf(shell), isLine: true };
}

function parsed(text: string): { readonly value: unknown; readonly failure: string | null } {
  try {
    return { value: parseLossless(text), failure: null };
  } catch (failure) {
    // The engine's message quotes the input.
    const own = failure instanceof SyntaxError && failure.message.startsWith("nested");
    return { value: undefined, failure: own ? failure.message : "is not valid JSON" };
  }
}

function jsonOf(text: string, what: string): unknown {
  const { value, failure } = parsed(text);
  if (failure !== null) throw badRequest(`${what}: ${failure}`);
  return value;
}

/** A heartbeat counts as a stream line without events. */
const isStreamLine = (value: Fields): boolean => Object.hasOwn(value, "Events") || Object.keys(value).length === 0;

const StreamLine = z.strictObject({
  Index: z.number("must be an integer").int("must be an integer").min(0).optional(),
  /** Extracted before. */
  Events: z.tuple([]).nullish(),
});

function lineIndexOf(shell: Fields): number | null {
  const line = StreamLine.safeParse(shell);
  if (!line.success) throw invalid(line.error);
  return line.data.Index ?? null;
}
