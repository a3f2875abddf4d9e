import * as z from "zod";
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

const report = {
  type: "object",
  properties: {
    Topic: {
      type: "string",
      enum: ["Node", "NodeDrain", "Job", "Allocation", "Evaluation", "Deployment", "Service", "NodePool"],
    },
    Type: { type: "string", description: "Of the event, such as `JobRegistered`." },
    Namespace: { type: "string" },
    Key: { type: "string" },
    FilterKeys: { type: ["array", "null"], items: { type: "string" } },
    Index: { type: "integer" },
    Payload: { type: "object", description: "One member, named after the object; fields that nobody knows are kept." },
  },
  required: ["Topic", "Type", "Payload"],
};

export const events = group(
  "Events",
  {},
  {
    "GET /event/stream": {
      id: "streamEvents",
      summary: "Streams the backlog of events and then each new one",
      description: [
        "The body is newline-delimited JSON, one object a line, and stays open; or server-sent events, for who accepts `text/event-stream`.",
        "A `Node` or `NodeDrain` event takes the right `node:read`; `Job`, `Allocation`, `Deployment` and `Evaluation` take `namespace:read-job`; the others, and no topic at all, `management`.",
        `\`${clusterHeader.oldestIndex[0]}\` says what the oldest line is that there still is.`,
      ].join(" "),
      right: "those of the topics",
      query: {
        topic: {
          description: "A topic, or `Topic:key` for what concerns that key; again for each. All without it.",
          schema: { type: "array", items: { type: "string" } },
        },
        index: {
          description:
            "Where to begin: line N itself, or the next one there is; 0 is the oldest, -1 only what is to come.",
          schema: { type: "integer", minimum: -1, default: 0 },
        },
        namespace: {
          description: "The namespace; `*` is all of them.",
          schema: { type: "string", default: "default" },
        },
        errors: flag("Says in a last line why the service ends the stream."),
      },
      headers: { "Last-Event-ID": text("Of a browser that comes back: the id of the last line it has seen.") },
      answers: { 200: { kind: "stream", description: "The lines.", schema: Line } },
    },
    "POST /cluster/objects": {
      id: "reportObjects",
      summary: "Takes in what a scheduler did, as one line of the stream",
      description: "A JSON array of events, an event a line, or a line of another stream. All are taken, or none.",
      right: "operator:write",
      method: "put",
      query: {
        source: text("Who reports; with an index, a report that comes again is not taken twice."),
        source_index: count("Which of the source's reports this is, growing."),
        namespace: { description: "Of events that name none.", schema: { type: "string", default: "default" } },
        ...pretty,
      },
      body: {
        schema: {
          anyOf: [
            report,
            { type: "array", items: report, minItems: 1, maxItems: 1000 },
            {
              type: "object",
              properties: { Index: { type: "integer" }, Events: { type: "array", items: report } },
              required: ["Events"],
            },
          ],
        },
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
