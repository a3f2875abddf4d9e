import * as z from "zod";
import { CONDITIONS, SEVERITIES } from "../../contracts/notification-rule.ts";
import { data, group, noContent } from "../../openapi/operation.ts";
import { index, keysOf, seconds, time, timeOrNull } from "../../wire/shapes.ts";
import { CHANNEL_TYPES } from "./bodies.ts";
import { sysNotificationExamples } from "./examples.ts";

const Channel = z
  .object({
    name: z.string(),
    type: z.enum(CHANNEL_TYPES),
    url: z.string().describe("Of a service whose URL is its secret, the host only."),
    from: z.string().optional(),
    to: z.array(z.string()).optional(),
    paused: z.string().nullable().describe("Why deliveries are paused."),
    attempts: z.int().describe("Failed attempts of the current message."),
    last_error: z.string().nullable(),
    retry_at: timeOrNull,
    dead_letters: z.int().describe("Messages whose attempts are used up."),
    delivered_index: index.describe("Lines up to this index are delivered, dead or for other channels."),
  })
  .meta({ id: "NotificationChannel" });

const Rule = z
  .object({
    name: z.string(),
    condition: z.enum(CONDITIONS),
    channels: z.array(z.string()),
    subjects: z.array(z.string()),
    for: seconds,
    within: seconds.optional(),
    percent: z.int().optional(),
    severity: z.enum(SEVERITIES),
    group_by: z.enum(["rule", "subject"]),
    repeat: seconds,
    recovery: z.boolean(),
    quiet_hours: z
      .object({ from: z.string(), to: z.string(), days: z.array(z.string()), time_zone: z.string() })
      .nullable(),
    title: z.string(),
    text: z.string(),
  })
  .meta({ id: "NotificationRule" });

const Active = z
  .object({
    rule: z.string(),
    condition: z.enum(CONDITIONS),
    severity: z.enum(SEVERITIES),
    subject: z.string(),
    detail: z.string(),
    state: z
      .enum(["pending", "firing", "ended"])
      .describe("Pending: not sent yet. Ended: its recovery is not sent yet."),
    since: time,
    notified: timeOrNull,
  })
  .meta({ id: "NotificationAlert" });

export const sysNotifications = group(
  "System",
  { name: "The name of the channel or rule." },
  {
    "LIST /sys/notifications/channels": {
      id: "listNotificationChannels",
      summary: "List channels of notifications",
      answers: data("Their names, and each channel.", keysOf({ key_info: z.record(z.string(), Channel) })),
    },
    "GET /sys/notifications/channels/:name": {
      id: "readNotificationChannel",
      summary: "Read a channel of notifications",
      answers: data("The channel, without its secret.", Channel),
    },
    "POST /sys/notifications/channels/:name": {
      id: "writeNotificationChannel",
      summary: "Create or replace a channel of notifications",
      description: "An absent `secret` stays as it was, as does an absent `url` of a service whose URL is its secret.",
      body: {
        fields: {
          type: "The service that gets the messages.",
          url: "Its address: `https://`, no private host. Optional for services with one address for all.",
          from: "For e-mail: the sender's address.",
          to: "For e-mail: the receivers' addresses.",
          secret: "The signing secret of a webhook, or the key of the service. Never shown.",
        },
      },
      answers: noContent,
    },
    "DELETE /sys/notifications/channels/:name": {
      id: "deleteNotificationChannel",
      summary: "Delete a channel of notifications",
      description: "Refused while a rule sends to it.",
      answers: noContent,
    },
    "POST /sys/notifications/channels/:name/test": {
      id: "testNotificationChannel",
      summary: "Send a test message to a channel",
      description: "It takes the way of every message. The answer waits up to 10 s for the outcome.",
      answers: data(
        "The outcome; a message that failed is sent again.",
        z.object({ index, delivered: z.boolean(), error: z.string().nullable() }),
      ),
    },
    "POST /sys/notifications/channels/:name/resume": {
      id: "resumeNotificationChannel",
      summary: "Resume a channel that its receiver has paused",
      description: "Forgets its dead letters, so that `delivery-failing` ends.",
      answers: noContent,
    },
    "LIST /sys/notifications/rules": {
      id: "listNotificationRules",
      summary: "List notification rules",
      answers: data("Their names, and each rule.", keysOf({ key_info: z.record(z.string(), Rule) })),
    },
    "GET /sys/notifications/rules/:name": {
      id: "readNotificationRule",
      summary: "Read a notification rule",
      answers: data("The rule.", Rule),
    },
    "POST /sys/notifications/rules/:name": {
      id: "writeNotificationRule",
      summary: "Create or replace a notification rule",
      description: "Evaluated at once, then every minute.",
      body: {
        fields: {
          condition: "What it watches.",
          channels: "Where it sends.",
          subjects: "Only these subjects, such as `cloud-a-sm/prod`; a final `*` makes a prefix. Default: all.",
          for: "How long the condition must last.",
          within:
            "For `backup-missing`: the age of the last backup. For `…-expires` and `…-ends`: the time left. Default: 1 or 14 days.",
          percent: "For `sync-queue-full`: the share of the capacity. Default: 90.",
          severity: "As the message shows it.",
          group_by: "`rule`: one message for all subjects. `subject`: one for each.",
          repeat: "When a lasting condition is sent again; 0 = never.",
          recovery: "Whether the end of the condition is sent.",
          quiet_hours: "Local times between which nothing is sent; the state at their end counts.",
          title: "Template of the title; slots such as `{{condition}}`. Default: the condition and its subject.",
          text: "Template of the text. Default: the subjects.",
        },
      },
      answers: noContent,
    },
    "DELETE /sys/notifications/rules/:name": {
      id: "deleteNotificationRule",
      summary: "Delete a notification rule",
      description: "What it has sent is resolved.",
      answers: noContent,
    },
    "GET /sys/notifications/active": {
      id: "readActiveNotifications",
      summary: "Read what notification rules have found",
      answers: data(
        "Subjects for which a condition holds.",
        z.object({
          active: z.array(Active),
          evaluated_at: timeOrNull.describe("Null until the first evaluation after a restart."),
          error: z.string().nullable().describe("Why the last evaluation saw nothing."),
        }),
      ),
    },
  },
  sysNotificationExamples,
);
