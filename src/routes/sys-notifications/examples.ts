import type { Examples } from "../../openapi/example.ts";

const SENT = "notifications › sends what a rule found to a channel";
const SHOWN = "notifications › shows a rule and a channel as they were given";

export const sysNotificationExamples: Examples = {
  "LIST /sys/notifications/channels": { right: "list" },
  "GET /sys/notifications/channels/:name": { right: "read" },
  "POST /sys/notifications/channels/:name": {
    right: "update",
    body: {
      type: "webhook",
      url: "https://receiver.example/alerts",
      secret: "whsec_YSBzaWduaW5nIGtleSBvZiAyNCBieXRlcw==",
    },
    effects: { "type url secret": SENT, "from to": "notifications › takes and shows the fields of each type" },
  },
  "DELETE /sys/notifications/channels/:name": { right: "delete" },
  "POST /sys/notifications/channels/:name/test": { right: "update" },
  "POST /sys/notifications/channels/:name/resume": { right: "update" },
  "LIST /sys/notifications/rules": { right: "list" },
  "GET /sys/notifications/rules/:name": { right: "read" },
  "POST /sys/notifications/rules/:name": {
    right: "update",
    body: { condition: "sync-failing", channels: ["ops"], for: "5m", severity: "error", repeat: "4h" },
    effects: {
      "condition channels for severity title text": SENT,
      "subjects within percent group_by repeat recovery quiet_hours": SHOWN,
      "quiet_hours.from quiet_hours.to quiet_hours.days quiet_hours.time_zone": SHOWN,
    },
  },
  "DELETE /sys/notifications/rules/:name": { right: "delete" },
  "GET /sys/notifications/active": { right: "read" },
};
