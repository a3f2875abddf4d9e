import * as z from "zod";
import { REPORT_SCHEMAS } from "../../cluster/reports/event-reader.ts";
import { MAX_EVENTS, MAX_REPORT_BYTES } from "../../cluster/reports/report-body.ts";
import { clusterHeader } from "../../compat/dialect.ts";
import { index, timeOrNull } from "../../wire/shapes.ts";
import { bare, count, flag, group, text, word } from "../operation.ts";
import { namespaces } from "../parameters.ts";

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

const Subscription = z
  .object({
    Name: z.string(),
    Topics: z.record(z.string(), z.array(z.string())).describe("Keys by topic; `*` means any."),
    Namespace: z.string(),
    Target: z.object({
      Type: z.enum(["webhook", "queue"]),
      URL: z.string().optional(),
      PreviousSecretUntil: z.string().optional(),
    }),
    MaxAttempts: z.int(),
    DeliveredIndex: index.describe("Lines up to this index are delivered, dead or filtered out."),
    Paused: z.string().nullable().describe("Why deliveries are paused."),
    Attempts: z.int().describe("Failed attempts of the current batch."),
    LastError: z.string().nullable(),
    RetryAt: timeOrNull,
    DeadLetters: z.int(),
  })
  .meta({ id: "EventSubscription" });

const subscriptionFields = {
  Topics: "Keys by topic, as the stream's `topic` parameter has them; `*` means any. Default: all.",
  Namespace: "The namespace; `*` means all.",
  Target: "A webhook with its URL, and the secret that signs deliveries; or the queue bound as `EVENT_QUEUE`.",
  StartIndex: "The first index to deliver. Default: the next line; of an existing subscription, no change.",
  MaxAttempts: "Failed attempts after which a batch becomes a dead letter.",
};

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

const CloudEvent = z
  .object({
    id: z.string(),
    source: z.string(),
    specversion: z.literal("1.0"),
    type: z.literal("*"),
    data: z.object({
      event: z.object({ id: z.string(), metadata: z.record(z.string(), z.string()) }),
      namespace: z.string().optional(),
      event_type: z.string(),
      plugin_info: z
        .object({
          mount_class: z.literal("secret"),
          mount_accessor: z.string(),
          mount_path: z.string(),
          plugin: z.string(),
          version: z.string().optional(),
        })
        .optional(),
    }),
    datacontentype: z.literal("application/cloudevents"),
    time: z.string(),
  })
  .meta({ id: "CloudEvent" });

export const events = group(
  "Events",
  { name: "The name of the subscription." },
  {
    "GET /event/stream": {
      id: "streamEvents",
      summary: "Stream events",
      description: [
        "The body is newline-delimited JSON, one object per line, and stays open; or server-sent events with `Accept: text/event-stream`.",
        `\`${clusterHeader.oldestIndex[0]}\` is the index of the oldest line from which on none is missing.`,
        `\`${clusterHeader.startIndex[0]}\` is the first index of a stream whose asked index was not given out yet.`,
        `\`${clusterHeader.disabledTopics[0]}\` names asked topics that \`SERVICE_EVENTS\` does not publish.`,
      ].join(" "),
      right: [
        "of each topic: namespace:read-job (Job, Allocation, Evaluation, Deployment, Service, CSIPlugin)",
        "namespace:host-volume-read (HostVolume), namespace:csi-read-volume (CSIVolume)",
        "any capability in the namespace (Namespace), node:read (Node, NodeDrain), operator:read (Operator)",
        "read or list on the path of each event (Secret, Sync, Lease, Engine); management for the others, and for all",
      ].join(", "),
      query: {
        topic: "A topic, or `Topic:key`; repeatable. Default: all.",
        index: {
          description:
            "The first line: N itself, or the next available one; 0 is the oldest, -1 and one beyond the next line new lines only.",
          schema: { type: "integer", minimum: -1, default: 0 },
        },
        ...namespaces,
        errors: "Says in a last line why the service ends the stream.",
      },
      headers: { "Last-Event-ID": text("Of a client that reconnects: the id of its last line.") },
      answers: { 200: { kind: "stream", description: "The lines.", schema: Line } },
    },
    "GET /sys/events/subscribe/:eventType+": {
      id: "subscribeEvents",
      summary: "Subscribe to event notifications (WebSocket)",
      description: [
        "Each message is a CloudEvents object as JSON text and a line feed, or without `json` upstream's protobuf message; the client sends nothing.",
        "With `Accept: text/event-stream` and no upgrade the body is server-sent events.",
        `\`${clusterHeader.startIndex[0]}\` is the first index of the subscription, \`${clusterHeader.oldestIndex[0]}\` the oldest one from which on no event is missing.`,
        "Of each event's path the token needs `list` and `subscribe`, with a matching entry of `subscribe_event_types`.",
      ].join(" "),
      path: { eventType: "A glob over event types, such as `kv*`." },
      query: {
        json: flag("JSON instead of protobuf."),
        namespaces: "A glob over namespaces below the request's, which is always included; repeatable.",
        filter: "An expression over `event_type`, `operation`, `source_plugin_mount`, `data_path` and `namespace`.",
        index: {
          description: "The first index; without one new events only. The metadata of each event has its `index`.",
          schema: { type: "integer", minimum: -1, default: -1 },
        },
      },
      headers: {
        Upgrade: word("Requests a WebSocket.", "websocket"),
        "Last-Event-ID": text("Of a client of server-sent events that reconnects: the id of its last event."),
      },
      answers: {
        101: { kind: "socket", description: "The subscription is open.", sends: CloudEvent },
        200: { kind: "stream", description: "The events.", schema: CloudEvent, serverSent: true },
      },
      errors: [426],
    },
    "GET /event/subscriptions": {
      id: "listEventSubscriptions",
      summary: "List event subscriptions",
      answers: bare("The subscriptions.", z.array(Subscription)),
    },
    "POST /event/subscription/:name": {
      id: "writeEventSubscription",
      summary: "Create or change an event subscription",
      description: "A secret that is not given is kept. A batch that is being delivered is built again.",
      method: "put",
      body: { fields: subscriptionFields, required: ["Target"] },
    },
    "GET /event/subscription/:name": {
      id: "readEventSubscription",
      summary: "Read an event subscription",
      answers: bare("The subscription, without its secret.", Subscription),
    },
    "DELETE /event/subscription/:name": {
      id: "deleteEventSubscription",
      summary: "Delete an event subscription",
    },
    "GET /event/subscription/:name/dead-letters": {
      id: "listDeadLetters",
      summary: "List the batches that could not be delivered",
      answers: bare(
        "The batches, oldest first.",
        z.array(
          z.object({
            Id: z.string().describe("The `webhook-id`."),
            Attempts: z.int(),
            Error: z.string(),
            FailedAt: timeOrNull,
            Delivery: z.unknown().describe("The body of the delivery."),
          }),
        ),
      ),
    },
    "POST /event/subscription/:name/replay": {
      id: "replayEvents",
      summary: "Deliver again from an index on",
      description: "Dead letters from there on are deleted, since their lines are delivered again.",
      body: { fields: { Index: "The first index to deliver." } },
    },
    "POST /event/subscription/:name/pause": {
      id: "pauseEventSubscription",
      summary: "Pause deliveries",
    },
    "POST /event/subscription/:name/resume": {
      id: "resumeEventSubscription",
      summary: "Resume deliveries",
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
        source: "The reporting source; with an index, a repeated report is applied once.",
        source_index: count("Which of the source's reports this is, growing."),
        namespace: {
          description: "Default namespace of events, and of a full list.",
          schema: { type: "string", default: "default" },
        },
        full: "The events list every object of `topic` in `namespace`: the others are removed.",
        changes: "Events that change nothing are left out; not with `source`.",
        topic: "With `full=true`: Job, Allocation, Evaluation, Deployment or Service.",
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
