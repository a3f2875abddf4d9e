import type { Alert, NotificationRule } from "../../contracts/notification-rule.ts";
import { isQuiet } from "./quiet-hours.ts";

/*
 * The state of the subjects of a rule. Subjects share a group; one message is about one group.
 *
 *            seen                  lasts `for`, not quiet: "firing"
 *   (none) ───────> pending ──────────────────────────────────> firing ──┐ `repeat` is over: "firing" again
 *      ^              │  ^                                        │  ^───┘
 *      ├── not seen ──┘  └──────────── seen ──────── ended <── not seen
 *      └── the last firing one of the group has ended, not quiet: "resolved" ──┘
 */

/** Subjects for which a condition holds, with details. */
export interface Seen {
  readonly subjects: ReadonlyMap<string, string>;
  /** Whether everything was looked at. If not, only the subjects that were looked at may count as ended. */
  readonly isWhole: boolean;
  /** Whether a subject was looked at, although not everything was; absent for none. */
  readonly lookedAt?: (subject: string) => boolean;
}

/** A message that is due. */
export interface Due {
  readonly status: "firing" | "resolved";
  readonly group: string;
  readonly alerts: readonly Alert[];
}

export interface Judgement {
  /** All alerts that remain. */
  readonly alerts: readonly Alert[];
  readonly due: readonly Due[];
}

/** The group of a subject. */
export const groupOf = ({ groupBy }: Pick<NotificationRule, "groupBy">, subject: string): string =>
  groupBy === "subject" ? subject : "";

/** Whether a rule watches a subject. */
export const watches = ({ subjects }: Pick<NotificationRule, "subjects">, subject: string): boolean =>
  subjects.length === 0 ||
  subjects.some((each) => (each.endsWith("*") ? subject.startsWith(each.slice(0, -1)) : each === subject));

/** The next state of a rule's alerts, and the messages that are due. Pure: the caller stores both in one transaction. */
export function judge(rule: NotificationRule, before: readonly Alert[], seen: Seen, now: number): Judgement {
  const alerts = observed(rule, before, seen, now);
  if (rule.quiet && isQuiet(rule.quiet, now)) return { alerts, due: [] };
  const groups = Map.groupBy(alerts, ({ subject }) => groupOf(rule, subject));
  const judged = [...groups].map(([group, members]) => judgeGroup(rule, group, members, now));
  return { alerts: judged.flatMap((each) => each.alerts), due: judged.flatMap((each) => each.due) };
}

function observed(rule: NotificationRule, before: readonly Alert[], seen: Seen, now: number): Alert[] {
  const { subjects, isWhole, lookedAt } = seen;
  const known = new Set(before.map(({ subject }) => subject));
  const kept = before.flatMap((alert): Alert[] => {
    const detail = subjects.get(alert.subject);
    const holds = detail !== undefined && watches(rule, alert.subject);
    if (holds) return [{ ...alert, detail, ...(alert.state === "ended" && { state: "pending", since: now }) }];
    if (alert.state === "ended" || !(isWhole || lookedAt?.(alert.subject))) return [alert];
    // Also one that has returned since, and was not sent again: its message is still open.
    return alert.notified === null ? [] : [{ ...alert, state: "ended" }];
  });
  const fresh = [...subjects].filter(([subject]) => !known.has(subject) && watches(rule, subject));
  return [
    ...kept,
    ...fresh.map(([subject, detail]): Alert => ({ subject, state: "pending", since: now, notified: null, detail })),
  ];
}

function judgeGroup(rule: NotificationRule, group: string, members: readonly Alert[], now: number): Judgement {
  const firing = members.filter(({ state }) => state === "firing");
  const ended = members.filter(({ state }) => state === "ended");
  const pending = members.filter(({ state }) => state === "pending");
  const ready = pending.filter(({ since }) => now - since >= rule.forSeconds * 1000);
  const last = Math.max(0, ...firing.map(({ notified }) => notified ?? 0));
  const repeats = firing.length > 0 && rule.repeatSeconds > 0 && now - last >= rule.repeatSeconds * 1000;
  if (ready.length > 0 || repeats) {
    const sent = [...firing, ...ready].map((alert): Alert => ({ ...alert, state: "firing", notified: now }));
    const waiting = pending.filter((alert) => !ready.includes(alert));
    return { alerts: [...sent, ...waiting, ...ended], due: [{ status: "firing", group, alerts: sent }] };
  }
  if (firing.length > 0 || ended.length === 0) return { alerts: members, due: [] };
  // A pending one that was sent before belongs to the incident that ends here.
  const rest = pending.map((alert): Alert => ({ ...alert, notified: null }));
  return { alerts: rest, due: rule.recovery ? [{ status: "resolved", group, alerts: ended }] : [] };
}
