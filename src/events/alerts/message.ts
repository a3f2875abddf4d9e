import type { NewEvent } from "../../contracts/event.ts";
import type { Alert, ConditionName, Notification, NotificationRule } from "../../contracts/notification-rule.ts";
import { channelKey, NOTIFICATION_TOPIC } from "./channel-names.ts";
import type { Due } from "./judge.ts";

/** Subjects that a message names, and those in its text. */
const MAX_NAMED = 100;
const MAX_IN_TEXT = 20;
const MAX_TITLE = 300;
const MAX_TEXT = 3_000;
/** Slots of templates. */
export const SLOTS = ["rule", "condition", "status", "severity", "subjects", "count", "since", "time"] as const;
const SLOT = /\{\{\s*([^{}]*?)\s*\}\}/g;

const TITLES: Readonly<Record<Due["status"], string>> = {
  firing: "{{condition}}: {{count}}",
  resolved: "Resolved: {{condition}}",
};

const LABELS: Readonly<Record<ConditionName, string>> = {
  "sync-failing": "Sync fails",
  "sync-paused": "Sync is paused",
  "sync-queue-full": "The sync queue is nearly full",
  "lease-irrevocable": "Leases cannot be revoked",
  "secret-expires": "Secrets expire",
  "root-secret-ends": "The root credential of an engine ends",
  "destination-key-ends": "The credentials of a destination end",
  "node-down": "Node down",
  "agent-away": "Agents have no connection",
  "backup-missing": "Backup missing",
  "delivery-failing": "Deliveries of events fail",
};

/** The first unknown slot of a template; null when it has none. */
export function unknownSlot(template: string): string | null {
  const names = [...template.matchAll(SLOT)].map(([, name = ""]) => name);
  return names.find((name) => !SLOTS.some((slot) => slot === name)) ?? null;
}

const cut = (text: string, most: number): string => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

const line = ({ subject, detail }: Alert): string => (detail === "" ? `• ${subject}` : `• ${subject}: ${detail}`);

const stamp = (ms: number): string => new Date(ms).toISOString();

function listed(alerts: readonly Alert[]): string {
  const more = alerts.length - MAX_IN_TEXT;
  return [...alerts.slice(0, MAX_IN_TEXT).map(line), ...(more > 0 ? [`and ${more} more`] : [])].join("\n");
}

/** The event that sends a message. Its filter keys are the channels. */
export function messageEvent(
  name: string,
  rule: NotificationRule,
  { status, group, alerts }: Due,
  now: number,
): NewEvent {
  const slots: Record<(typeof SLOTS)[number], string> = {
    rule: name,
    condition: LABELS[rule.condition],
    status,
    severity: rule.severity,
    subjects: listed(alerts),
    count: String(alerts.length),
    since: stamp(Math.min(...alerts.map(({ since }) => since))),
    time: stamp(now),
  };
  const filled = (template: string, most: number): string =>
    cut(
      template.replace(SLOT, (_, slot: keyof typeof slots) => slots[slot] ?? ""),
      most,
    );
  const defaultTitle =
    alerts.length === 1 ? `${TITLES[status].split(": {{count}}")[0]}: ${alerts[0]?.subject}` : TITLES[status];
  return eventOf(rule.channels, status === "firing" ? "NotificationFiring" : "NotificationResolved", {
    Rule: name,
    Condition: rule.condition,
    Status: status,
    Severity: rule.severity,
    Title: filled(rule.title || defaultTitle, MAX_TITLE),
    Text: filled(rule.text || "{{subjects}}", MAX_TEXT),
    Subjects: alerts
      .slice(0, MAX_NAMED)
      .map(({ subject, detail, since }) => ({ Name: subject, Detail: detail, Since: stamp(since) })),
    Total: alerts.length,
    DedupKey: group === "" ? `sallyport/${name}` : `sallyport/${name}/${group}`,
    Time: stamp(now),
  });
}

/** The message of the test of a channel. */
export const testEvent = (channel: string, now: number): NewEvent =>
  eventOf([channel], "NotificationTest", {
    Rule: "test",
    Condition: "test",
    Status: "test",
    Severity: "info",
    Title: "Test of the notification channel",
    Text: `The channel ${channel} works.`,
    Subjects: [],
    Total: 0,
    DedupKey: `sallyport/test/${channel}`,
    Time: stamp(now),
  });

const eventOf = (channels: readonly string[], type: string, notification: Notification): NewEvent => ({
  Topic: NOTIFICATION_TOPIC,
  Type: type,
  Key: notification.Rule,
  Namespace: "",
  FilterKeys: channels.map(channelKey),
  Payload: { Notification: notification },
});
