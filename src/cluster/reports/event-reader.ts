import * as z from "zod";
import { neutralEventType } from "../../compat/report-names.ts";
import { NAMESPACE_NAME } from "../../contracts/namespaces.ts";
import { REPORTED_TOPICS, type Report, type ReportedTopic } from "../../contracts/reports.ts";
import { isPlainObject } from "../../lib/json.ts";
import { badRequest, invalid } from "../../platform/http/errors.ts";
import { nodeReport, REPORTED_NODE_TYPES, reportedNode } from "../nodes/report.ts";
import { EVENT_TYPES } from "./event-types.ts";
import { objectReport } from "./object-report.ts";
import { memberOf, TOPICS } from "./topics/index.ts";
import { type Fields, type Topic, textOf } from "./topics/topic.ts";

/** Topic NodeDrain exists on this service's stream only; forwarded lines may contain it. */
const REPORTABLE = [...REPORTED_TOPICS, "Node", "NodeDrain"] as const;

const TopicName = z.object({ Topic: z.enum(REPORTABLE, `must be one of ${REPORTABLE.join(", ")}`) });

function eventSchema<Payload extends z.ZodRawShape, Type extends string>(payload: Payload, types: readonly Type[]) {
  const ignored = z.unknown().optional();
  return z.strictObject({
    Topic: z.string(),
    Type: z.preprocess(neutralEventType, z.enum(types, "is not a type of such an event")),
    Namespace: z.string().optional(),
    Payload: z.strictObject({ ...payload, Deleted: z.boolean().optional() }),
    // Computed fields, accepted in forwarded lines.
    Key: ignored,
    FilterKeys: ignored,
    Index: ignored,
  });
}

const NodeEvent = eventSchema({ Node: reportedNode }, REPORTED_NODE_TYPES);

type ObjectEvent = z.ZodType<{ readonly Type: string }>;

const OBJECT_EVENTS: ReadonlyMap<string, ObjectEvent> = new Map(
  Object.entries(TOPICS).map(([name, { object, member = name, beside = {} }]): [string, ObjectEvent] => {
    const optional = Object.fromEntries(Object.entries(beside).map(([field, type]) => [field, type.optional()]));
    return [name, eventSchema({ [member]: object, ...optional }, EVENT_TYPES)];
  }),
);

/** The schema of each topic's events; NodeDrain events have the payload of Node events. */
export const REPORT_SCHEMAS: ReadonlyMap<string, z.ZodType> = new Map<string, z.ZodType>([
  ["Node", NodeEvent],
  ...OBJECT_EVENTS,
]);

/** Validates one event of a body. */
export class EventReader {
  /**
   * @param number of the event in its body, from 1
   * @param namespace default for objects without one
   */
  constructor(
    private readonly number: number,
    private readonly namespace: string,
  ) {}

  /** @throws RequestError 400 naming event, field and rule */
  read(item: unknown): Report {
    if (!isPlainObject(item)) throw this.#refuse("must be an object");
    if (Object.hasOwn(item, "Events")) throw this.#refuse("Events: lines of a stream come without other events");
    const { Topic: topic } = this.#check(TopicName, item);
    return topic === "Node" || topic === "NodeDrain" ? this.#node(item) : this.#object(topic, item);
  }

  #node(item: Fields): Report {
    const { Type, Payload } = this.#check(NodeEvent, item);
    this.#refuseNamespace("Node", textOf(item, "Namespace"));
    return { topic: "Node", ...nodeReport(Type, Payload.Node, Payload.Deleted === true) };
  }

  #object(name: ReportedTopic, item: Fields): Report {
    const { Type } = this.#check(OBJECT_EVENTS.get(name) ?? z.never(), item);
    const topic = TOPICS[name];
    const payload = item["Payload"] as Fields;
    const given = payload[memberOf(name)] as Fields;
    const namespace = this.#namespaceOf(topic, name, textOf(item, "Namespace"), textOf(given, "Namespace"));
    const deleted = payload["Deleted"] === true || Type === topic.goneBy;
    const beside = { ...topic.implied?.(given), ...payload };
    return objectReport(name, {
      type: Type,
      namespace,
      object: given,
      deleted,
      extra:
        (topic.alwaysDeleted && !deleted ? ',"Deleted":false' : "") +
        extraOf(beside, ["Deleted", ...Object.keys(topic.beside ?? {})]),
    });
  }

  #namespaceOf({ namespaced }: Topic, name: string, given: string, own: string): string {
    if (!namespaced) {
      this.#refuseNamespace(name, given);
      return "";
    }
    this.#checkNamespace("Namespace", given);
    this.#checkNamespace(`Payload.${name}.Namespace`, own);
    if (given !== "" && own !== "" && given !== own) {
      throw this.#refuse(`Payload.${name}.Namespace: must be the event's Namespace`);
    }
    return given || own || this.namespace;
  }

  #refuseNamespace(name: string, given: string): void {
    if (given !== "") throw this.#refuse(`Namespace: must be empty, as a ${name} has none`);
  }

  #checkNamespace(field: string, value: string): void {
    if (value !== "" && !NAMESPACE_NAME.test(value))
      throw this.#refuse(`${field}: must match ${NAMESPACE_NAME.source}`);
  }

  #check<T>(schema: z.ZodType<T>, item: unknown): T {
    const checked = schema.safeParse(item);
    if (!checked.success) throw this.#refuse(...invalid(checked.error).messages);
    return checked.data;
  }

  #refuse(...messages: readonly string[]) {
    return badRequest(messages.map((message) => `event ${this.number}: ${message}`).join("; "));
  }
}

/** The payload's members beside the object, without empty values. */
const extraOf = (payload: Fields, names: readonly string[]): string =>
  names
    .filter((name) => payload[name] !== undefined && payload[name] !== false && payload[name] !== "")
    .map((name) => `,${JSON.stringify(name)}:${JSON.stringify(payload[name])}`)
    .join("");
