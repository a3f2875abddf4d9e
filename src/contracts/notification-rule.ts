/** Notification rules (docs/guides/notifications.md): what they are, what they find, and what they send. */

/** Conditions of the deployment that a rule may watch. */
export const CONDITIONS = [
  "sync-failing",
  "sync-paused",
  "sync-queue-full",
  "lease-irrevocable",
  "secret-expires",
  "root-secret-ends",
  "destination-key-ends",
  "node-down",
  "agent-away",
  "backup-missing",
  "delivery-failing",
] as const;
export type ConditionName = (typeof CONDITIONS)[number];

export const SEVERITIES = ["critical", "error", "warning", "info"] as const;
export type Severity = (typeof SEVERITIES)[number];

/** Local times between which nothing is sent; `to` before `from` is on the next day. */
export interface QuietHours {
  /** `HH:MM`. */
  readonly from: string;
  readonly to: string;
  /** Days on which it begins, 0 = Sunday; empty = every day. */
  readonly days: readonly number[];
  /** A name of the IANA database. */
  readonly timeZone: string;
}

export interface NotificationRule {
  readonly condition: ConditionName;
  /** Subjects that the rule watches; one may end with `*`. Empty = all. */
  readonly subjects: readonly string[];
  /** Seconds that the condition must last. */
  readonly forSeconds: number;
  /** Seconds before an end, or after the last backup; null for conditions without. */
  readonly withinSeconds: number | null;
  /** Share of a capacity; null for conditions without. */
  readonly percent: number | null;
  readonly severity: Severity;
  readonly channels: readonly string[];
  /** `rule`: one notification for all subjects. `subject`: one for each. */
  readonly groupBy: "rule" | "subject";
  /** Seconds after which a lasting condition is sent again; 0 = never. */
  readonly repeatSeconds: number;
  /** Whether the end of the condition is sent, too. */
  readonly recovery: boolean;
  readonly quiet: QuietHours | null;
  /** Templates; empty = the default text. */
  readonly title: string;
  readonly text: string;
}

/** `pending`: shorter than the rule waits for, or not sent yet. `ended`: over, and its recovery not sent yet. */
export type AlertState = "pending" | "firing" | "ended";

/** One subject for which the condition of a rule holds. */
export interface Alert {
  readonly subject: string;
  readonly state: AlertState;
  /** Ms since 1970. */
  readonly since: number;
  /** When it was last sent; null = not yet. */
  readonly notified: number | null;
  readonly detail: string;
}

export interface ActiveAlert extends Alert {
  readonly rule: string;
  readonly condition: ConditionName;
  readonly severity: Severity;
}

/** The rules as they were last evaluated. */
export interface AlertsView {
  readonly alerts: readonly ActiveAlert[];
  /** Ms since 1970; null before the first. */
  readonly evaluatedAt: number | null;
  /** Why the last evaluation saw nothing; null = it did. */
  readonly error: string | null;
}

export interface NamedRule extends NotificationRule {
  readonly name: string;
}

/** A message of a rule to its channels. */
export interface Notification {
  readonly Rule: string;
  readonly Condition: string;
  readonly Status: "firing" | "resolved" | "test";
  readonly Severity: Severity;
  readonly Title: string;
  readonly Text: string;
  /** The subjects concerned, at most 100 of `Total`. */
  readonly Subjects: readonly { readonly Name: string; readonly Detail: string; readonly Since: string }[];
  readonly Total: number;
  /** The same for all messages about one incident. */
  readonly DedupKey: string;
  readonly Time: string;
}
