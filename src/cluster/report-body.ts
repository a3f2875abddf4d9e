import * as z from "zod";
import { NAMESPACE_NAME } from "../access/cluster-namespaces.ts";
import { neutralEventType } from "../compat/report-names.ts";
import { badRequest, invalid } from "../http/errors.ts";
import { isPlainObject, parseLossless } from "../http/json.ts";
import { EVENT_TYPES } from "./event-types.ts";
import { REPORTED_TOPICS, type Report } from "./report.ts";
import { TOPICS } from "./topics/index.ts";
import { type Fields, type Topic, textOf } from "./topics/topic.ts";

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

const TopicName = z.object({ Topic: z.enum(REPORTED_TOPICS, `must be one of ${REPORTED_TOPICS.join(", ")}`) });

type EventSchema = z.ZodType<{ readonly Type: string }>;

/** What each topic's events are, made once. */
const SCHEMAS = new Map<string, EventSchema>(
  Object.entries(TOPICS).map(([name, topic]) => [name, eventSchema(name, topic)]),
);

function eventSchema(name: string, { object, beside = {} }: Topic): EventSchema {
  const optional = Object.fromEntries(Object.entries(beside).map(([field, type]) => [field, type.optional()]));
  const ignored = z.unknown().optional();
  return z.strictObject({
    Topic: z.string(),
    Type: z.preprocess(neutralEventType, z.enum(EVENT_TYPES, "is not a type of event")),
    Namespace: z.string().optional(),
    Payload: z.strictObject({ [name]: object, Deleted: z.boolean().optional(), ...optional }),
    // What is computed here, in lines that are passed on as they came.
    ...{ Key: ignored, FilterKeys: ignored, Index: ignored },
  });
}

/** Reads one event of a body. */
class EventReader {
  readonly #number: number;
  readonly #namespace: string;

  constructor(number: number, namespace: string) {
    this.#number = number;
    this.#namespace = namespace;
  }

  read(item: unknown): Report {
    if (!isPlainObject(item)) throw this.#refuse("must be an object");
    if (Object.hasOwn(item, "Events")) throw this.#refuse("Events: a line of a stream comes alone, one to a request");
    const { Topic: name } = this.#check(TopicName, item);
    const { Type } = this.#check(SCHEMAS.get(name) ?? z.never(), item);
    const topic = TOPICS[name];
    const payload = item["Payload"] as Fields;
    const given = payload[name] as Fields;
    const namespace = this.#namespaceOf(topic, name, textOf(item, "Namespace"), textOf(given, "Namespace"));
    const { CreateIndex: _create, ModifyIndex: _modify, ...object } = topic.kept?.(given) ?? given;
    return {
      topic: name,
      type: Type,
      namespace,
      id: textOf(given, topic.key),
      filterKeys: topic.filterKeys(given),
      jobId: textOf(given, "JobID") || null,
      nodeId: topic.nodeOf?.(given) ?? null,
      terminal: topic.terminal?.(given) ?? false,
      deleted: payload["Deleted"] === true || Type === topic.goneBy,
      body: JSON.stringify(topic.namespaced ? { ...object, Namespace: namespace } : object),
      extra: extraOf(payload, ["Deleted", ...Object.keys(topic.beside ?? {})]),
    };
  }

  #namespaceOf({ namespaced }: Topic, name: string, told: string, own: string): string {
    if (!namespaced) {
      if (told !== "") throw this.#refuse(`Namespace: must be empty, as a ${name} has none`);
      return "";
    }
    for (const [field, value] of [
      ["Namespace", told],
      [`Payload.${name}.Namespace`, own],
    ]) {
      if (value !== "" && !NAMESPACE_NAME.test(value ?? ""))
        throw this.#refuse(`${field}: must match ${NAMESPACE_NAME.source}`);
    }
    if (told !== "" && own !== "" && told !== own) {
      throw this.#refuse(`Payload.${name}.Namespace: must be the event's Namespace`);
    }
    return told || own || this.#namespace;
  }

  #check<T>(schema: z.ZodType<T>, item: unknown): T {
    const checked = schema.safeParse(item);
    if (!checked.success) throw this.#refuse(...invalid(checked.error).messages);
    return checked.data;
  }

  #refuse(...messages: readonly string[]) {
    return badRequest(messages.map((message) => `event ${this.#number}: ${message}`).join("; "));
  }
}

/** What the payload says beside the object; what is not so need not be said. */
const extraOf = (payload: Fields, names: readonly string[]): string =>
  names
    .filter((name) => payload[name] !== undefined && payload[name] !== false && payload[name] !== "")
    .map((name) => `,${JSON.stringify(name)}:${JSON.stringify(payload[name])}`)
    .join("");
