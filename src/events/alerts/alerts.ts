import type { NewEvent } from "../../contracts/event.ts";
import type { Alert, AlertsView, NamedRule, NotificationRule } from "../../contracts/notification-rule.ts";
import { within } from "../../lib/timeout.ts";
import { textOf, warn } from "../../platform/observability/log.ts";
import { metrics } from "../../rpc/stubs.ts";
import { AlertStore } from "./alert-store.ts";
import { conditions, type Round } from "./conditions.ts";
import { groupOf, judge, type Seen, watches } from "./judge.ts";
import { messageEvent } from "./message.ts";

/** Interval of the evaluations. */
const EVERY_MS = 60_000;
const DEADLINE_MS = 20_000;
export const MAX_RULES = 100;
/** Subjects of a rule; further ones are counted in none of its messages. */
const MAX_SUBJECTS = 1_000;

/**
 * Notification rules: a minute after the last evaluation, each rule's condition is looked at, and the messages that are
 * due become events of the log, in the transaction that records them as sent. So a crash loses none and repeats none; the
 * delivery to channels is that of event subscriptions. Without rules there is no alarm.
 */
export class Alerts {
  readonly #store: AlertStore;
  /** In memory: after a restart, the next alarm evaluates. */
  #evaluatedAt = 0;
  #error: string | null = null;

  /** @param append stores a change of the alerts and the events about it in one transaction */
  constructor(
    sql: SqlStorage,
    private readonly env: () => Env,
    private readonly append: (change: () => readonly NewEvent[]) => Promise<unknown>,
  ) {
    this.#store = new AlertStore(sql);
  }

  rules(): readonly NamedRule[] {
    return this.#store.rules();
  }

  forget(): void {
    this.#store.forget();
  }

  /** When rules are evaluated next; null without any. */
  nextDue(): number | null {
    return this.rules().length === 0 ? null : this.#evaluatedAt + EVERY_MS;
  }

  /**
   * Creates or replaces a rule. Open messages of what it watched before are resolved.
   * @returns false when there is no room
   */
  async write(name: string, rule: NotificationRule): Promise<boolean> {
    const known = this.rules().find((each) => each.name === name);
    if (!known && this.rules().length >= MAX_RULES) return false;
    // Due at once, so that the commit arms the alarm.
    this.#evaluatedAt = 0;
    await this.append(() => {
      const events = known && !isSameWatch(known, rule) ? this.#close(known) : [];
      this.#store.writeRule(name, rule);
      return events;
    });
    return true;
  }

  /** Idempotent. Open messages of the rule are resolved. */
  async delete(name: string): Promise<void> {
    await this.append(() => {
      const known = this.rules().find((each) => each.name === name);
      const events = known ? this.#close(known) : [];
      this.#store.deleteRule(name);
      return events;
    });
  }

  view(): AlertsView {
    const alerts = this.#store.alerts();
    return {
      alerts: this.rules().flatMap(({ name, condition, severity }) =>
        (alerts.get(name) ?? []).map((alert) => ({ ...alert, rule: name, condition, severity })),
      ),
      evaluatedAt: this.#evaluatedAt || null,
      error: this.#error,
    };
  }

  /** Evaluates all rules. Never throws: the next round looks again. */
  async evaluate(): Promise<void> {
    const rules = this.rules();
    if (rules.length === 0) return;
    // Before the first wait: an alarm that comes meanwhile is not due.
    this.#evaluatedAt = Date.now();
    try {
      const env = this.env();
      const round = { env, series: await within(DEADLINE_MS, metrics(env).read()) };
      const seen = new Map<NamedRule, Seen>();
      let error: string | null = null;
      for (const rule of rules) {
        const found = await within(DEADLINE_MS, look(round, rule)).catch((failure: unknown) => {
          error = failed(failure, rule.name);
          return UNSEEN;
        });
        seen.set(rule, found);
      }
      await this.append(() => this.#judgeAll(seen, Date.now()));
      this.#error = error;
    } catch (failure) {
      this.#error = failed(failure);
    }
  }

  /** Rules that changed meanwhile are left to the next round. */
  #judgeAll(seen: ReadonlyMap<NamedRule, Seen>, now: number): NewEvent[] {
    const alerts = this.#store.alerts();
    const current = new Set(this.rules());
    return [...seen].flatMap(([rule, found]) => {
      if (!current.has(rule)) return [];
      const before = alerts.get(rule.name) ?? [];
      const { alerts: after, due } = judge(rule, before, found, now);
      this.#store.replace(rule.name, before, after);
      return due.map((each) => messageEvent(rule.name, rule, each, now));
    });
  }

  /** Deletes the alerts of a rule, inside a transaction. @returns the messages that resolve what was sent */
  #close(rule: NamedRule): NewEvent[] {
    const before = this.#store.alerts().get(rule.name) ?? [];
    this.#store.replace(rule.name, before, []);
    const sent = before.filter(({ notified }) => notified !== null);
    const groups = Map.groupBy(sent, ({ subject }: Alert) => groupOf(rule, subject));
    const now = Date.now();
    return [...groups].map(([group, alerts]) =>
      messageEvent(rule.name, rule, { status: "resolved", group, alerts }, now),
    );
  }
}

/** The subjects where nothing could be read: none is new, and none counts as ended. */
const UNSEEN: Seen = { subjects: new Map(), isWhole: false };

/** Logs a failure. @returns the text for the view */
function failed(failure: unknown, rule?: string): string {
  warn("notifications-not-evaluated", { ...(rule !== undefined && { rule }), because: textOf(failure) });
  return "the state of the deployment could not be read";
}

/** The subjects that the rule watches, the first by name. Of more than it may have, none counts as ended. */
async function look(round: Round, rule: NamedRule): Promise<Seen> {
  const seen = await conditions[rule.condition].seen(round, rule);
  const watched = [...seen.subjects].filter(([subject]) => watches(rule, subject));
  if (watched.length <= MAX_SUBJECTS) return { ...seen, subjects: new Map(watched) };
  const first = watched.toSorted(([a], [b]) => (a < b ? -1 : 1)).slice(0, MAX_SUBJECTS);
  return { subjects: new Map(first), isWhole: false };
}

/** Whether a changed rule goes on with the alerts of the one before: it watches the same, and tells the same channels. */
const isSameWatch = (a: NotificationRule, b: NotificationRule): boolean =>
  a.condition === b.condition && a.groupBy === b.groupBy && a.channels.join() === b.channels.join();
