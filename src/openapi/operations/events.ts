import * as z from "zod";
import { REPORT_SCHEMAS } from "../../cluster/reports/event-reader.ts";
import { MAX_EVENTS, MAX_REPORT_BYTES } from "../../cluster/reports/report-body.ts";
import { clusterHeader } from "../../compat/dialect.ts";
import { bare, count, flag, group, text } from "../operation.ts";
import { pretty } from "../parameters.ts";
import { index } from "../shapes.ts";

const Event = z
  .object({
    Topic: z.string(),
    Type: z.string(),
    Key: z.string().describe("Of the object that it is about."),
    Namespace: z.string().describe("Empty for objects without one."),
    FilterKeys: z.array(z.string()).nullable().describe("By what else a topic's filter key finds it."),
    Index: index,
    Payload: z.record(z.string(), z.unknown()).describe("One member, named after the object."),
  })
  .meta({ id: "Event" });

const Line = z
  .union([
    z.object({
      Index: index,
      Events: z.array(Event).describe("None in a heartbeat, which says how far the reader has come."),
    }),
    z.object({ Error: z.unknown() }).describe("With `errors=true`: why the stream ends."),
  ])
  .meta({ id: "EventLine" });

/** Read form of each topic's object. */
const Report = z
  .union(
    [...REPORT_SCHEMAS].map(([topic, schema]) => {
      const Topic = topic === "Node" ? z.enum(["Node", "NodeDrain"]) : z.literal(topic);
      return (schema as z.ZodObject).extend({ Topic }).meta({ id: `${topic}Report` });
    }),
  )
  .meta({ id: "Report" });
const Reports = z.union([
  Report,
  z.array(Report).max(MAX_EVENTS),
  z.object({ Index: z.int().optional(), Events: z.array(Report) }).describe("A line of another stream."),
]);

export const events = group(
  "Events",
  {},
  {
    "GET /event/stream": {
      id: "streamEvents",
      summary: "Stream events",
      description: [
        "The body is newline-delimited JSON, one object per line, and stays open; or server-sent events with `Accept: text/event-stream`.",
        `\`${clusterHeader.oldestIndex[0]}\` is the index of the oldest buffered line.`,
      ].join(" "),
      right: [
        "of each topic: namespace:read-job (Job, Allocation, Evaluation, Deployment, Service, CSIPlugin)",
        "namespace:host-volume-read (HostVolume), namespace:csi-read-volume (CSIVolume)",
        "node:read (Node, NodeDrain), operator:read (Operator)",
        "read or list on the path of each event (Secret, Sync, Lease, Engine); management for the others, and for all",
      ].join(", "),
      query: {
        topic: {
          description: "A topic, or `Topic:key`; repeatable. Default: all.",
          schema: { type: "array", items: { type: "string" } },
        },
        index: {
          description: "The first line: N itself, or the next available one; 0 is the oldest, -1 new lines only.",
          schema: { type: "integer", minimum: -1, default: 0 },
        },
        namespace: {
          description: "The namespace; `*` means all.",
          schema: { type: "string", default: "default" },
        },
        errors: flag("Says in a last line why the service ends the stream."),
      },
      headers: { "Last-Event-ID": text("Of a client that reconnects: the id of its last line.") },
      answers: { 200: { kind: "stream", description: "The lines.", schema: Line } },
    },
    "POST /cluster/objects": {
      id: "reportObjects",
      summary: "Report scheduler objects",
      description: [
        "A JSON array of events, an event a line, or a line of another stream. All are taken, or none.",
        `At most ${MAX_REPORT_BYTES} bytes and ${MAX_EVENTS} events; more than 1.6 MB are published as several consecutive lines.`,
        "An empty array is taken with `full=true` only.",
      ].join(" "),
      right: "operator:write",
      method: "put",
      query: {
        source: text("The reporting source; with an index, a repeated report is applied once."),
        source_index: count("Which of the source's reports this is, growing."),
        namespace: {
          description: "Default namespace of events, and of a full list.",
          schema: { type: "string", default: "default" },
        },
        full: flag("The events list every object of `topic` in `namespace`: the others are removed."),
        changes: flag("Events that change nothing are left out; not with `source`."),
        topic: text("With `full=true`: Job, Allocation, Evaluation, Deployment or Service."),
        ...pretty,
      },
      body: {
        schema: Reports,
        types: ["application/x-ndjson"],
      },
      errors: [409],
      answers: bare(
        "Whether it was taken, and as which line.",
        z.object({ Index: index.nullable(), Applied: z.boolean().describe("False for what had come before.") }),
      ),
    },
  },
);
