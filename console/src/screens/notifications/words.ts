/** Conditions and services in people's words. */
import type { Schemas } from "../../api/client.ts";
import type { Tone } from "../../components/status.tsx";

export type Rule = Schemas["NotificationRule"];
export type Channel = Schemas["NotificationChannel"];

export const CONDITIONS: Readonly<Record<Rule["condition"], string>> = {
  "sync-failing": "Sync of a destination fails",
  "sync-paused": "Sync is paused",
  "sync-queue-full": "The sync queue is nearly full",
  "lease-irrevocable": "A lease cannot be revoked",
  "secret-expires": "A secret expires",
  "root-secret-ends": "The root credential of an engine ends",
  "destination-key-ends": "The credentials of a destination end",
  "node-down": "A node is down",
  "agent-away": "An agent has no connection",
  "backup-missing": "A backup is missing",
  "delivery-failing": "A delivery of events fails",
};

export const SERVICES: Readonly<Record<Channel["type"], string>> = {
  webhook: "Webhook",
  slack: "Slack",
  teams: "Microsoft Teams",
  pagerduty: "PagerDuty",
  opsgenie: "Opsgenie",
  sendgrid: "E-mail by SendGrid",
  postmark: "E-mail by Postmark",
  mailgun: "E-mail by Mailgun",
};

export const SEVERITY: Readonly<Record<Rule["severity"], Tone>> = {
  critical: "bad",
  error: "bad",
  warning: "warn",
  info: "info",
};
