import * as z from "zod";
import { badRequest, invalid } from "../http/errors.ts";
import { isPlainObject, parseLossless } from "../http/json.ts";
import type { Report } from "./report.ts";
import { EventReader } from "./report-event.ts";
import type { Fields } from "./topics/topic.ts";

/** What a body of `PUT /v1/cluster/objects` holds. */
export interface ReportBody {
  readonly reports: readonly Report[];
  /** The index of a line that was passed on as it came from another stream; null when it says none. */
  readonly lineIndex: number | null;
}

const MAX_EVENTS = 1_000;

/**
 * Reads a JSON array of events, one event a line, or one line of an upstream stream.
 * @param namespace of events that name none, nor does their object
 * @throws RequestError 400 naming the number of the event, the field and the rule
 */
export function readReports(text: string, namespace: string): ReportBody {
  const { items, lineIndex } = itemsOf(text);
  if (items.length > MAX_EVENTS) throw badRequest(`request body: at most ${MAX_EVENTS} events`);
  return { reports: items.map((item, at) => new EventReader(at + 1, namespace).read(item)), lineIndex };
}

interface Items {
  readonly items: readonly unknown[];
  readonly lineIndex: number | null;
}

function itemsOf(text: string): Items {
  const start = text.trimStart()[0];
  if (start === undefined) throw badRequest("Request body is empty");
  if (start !== "[" && start !== "{") throw badRequest("request body: must be events in JSON");
  const lines = text.split("\n").filter((line) => line.trim() !== "");
  // An object may be written over several lines; then its first line is no JSON.
  const whole = start === "[" || lines.length === 1 || parsed(lines[0] ?? "").failure !== null;
  if (!whole) return { items: lines.map((line, at) => jsonOf(line, `event ${at + 1}`)), lineIndex: null };
  const value = jsonOf(text, "request body");
  if (Array.isArray(value)) {
    if (value.length === 0) throw badRequest("request body: has no events");
    return { items: value, lineIndex: null };
  }
  return isPlainObject(value) && isStreamLine(value) ? lineItems(value) : { items: [value], lineIndex: null };
}

function parsed(text: string): { readonly value: unknown; readonly failure: string | null } {
  try {
    return { value: parseLossless(text), failure: null };
  } catch (failure) {
    // The engine's own text quotes the input.
    const own = failure instanceof SyntaxError && failure.message.startsWith("nested");
    return { value: undefined, failure: own ? failure.message : "is not valid JSON" };
  }
}

function jsonOf(text: string, what: string): unknown {
  const { value, failure } = parsed(text);
  if (failure !== null) throw badRequest(`${what}: ${failure}`);
  return value;
}

/** A heartbeat is a line, too: there is just nothing to take from it. */
const isStreamLine = (value: Fields): boolean => Object.hasOwn(value, "Events") || Object.keys(value).length === 0;

const StreamLine = z.strictObject({
  Index: z.number("must be an integer").int("must be an integer").min(0).optional(),
  Events: z.array(z.unknown()).nullish(),
});

function lineItems(value: Fields): Items {
  const line = StreamLine.safeParse(value);
  if (!line.success) throw invalid(line.error);
  return { items: line.data.Events ?? [], lineIndex: line.data.Index ?? null };
}
