import type { Alert, NamedRule, NotificationRule } from "../../contracts/notification-rule.ts";
import { Memo } from "../../platform/durable/memo.ts";

type AlertRow = Alert & { readonly rule: string } & Record<string, SqlStorageValue>;

/** Rows of notification rules and of the alerts they have found. Writes belong in a transaction. */
export class AlertStore {
  readonly #rules: Memo<readonly NamedRule[]>;

  constructor(private readonly sql: SqlStorage) {
    this.#rules = new Memo(() =>
      sql
        .exec<{ name: string; definition: string }>("SELECT name, definition FROM notification_rules ORDER BY name")
        .toArray()
        .map(({ name, definition }) => ({ name, ...(JSON.parse(definition) as NotificationRule) })),
    );
  }

  /** All rules, by name. */
  rules(): readonly NamedRule[] {
    return this.#rules.get();
  }

  forget(): void {
    this.#rules.forget();
  }

  writeRule(name: string, rule: NotificationRule): void {
    this.sql.exec(
      "INSERT INTO notification_rules VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET definition = excluded.definition",
      name,
      JSON.stringify(rule),
    );
    this.forget();
  }

  deleteRule(name: string): void {
    this.sql.exec("DELETE FROM notification_rules WHERE name = ?", name);
    this.forget();
  }

  /** Alerts by rule. */
  alerts(): ReadonlyMap<string, readonly Alert[]> {
    const rows = this.sql.exec<AlertRow>("SELECT * FROM alerts ORDER BY rule, subject").toArray();
    return Map.groupBy(rows, ({ rule }) => rule);
  }

  /** Replaces the alerts of a rule: writes the rows that differ. */
  replace(rule: string, before: readonly Alert[], after: readonly Alert[]): void {
    const kept = new Map(after.map((alert) => [alert.subject, alert]));
    for (const { subject } of before) {
      if (!kept.has(subject)) this.sql.exec("DELETE FROM alerts WHERE rule = ? AND subject = ?", rule, subject);
    }
    const known = new Map(before.map((alert) => [alert.subject, alert]));
    for (const alert of after) {
      if (isSame(known.get(alert.subject), alert)) continue;
      this.sql.exec(
        `INSERT INTO alerts (rule, subject, state, since, notified, detail) VALUES (?, ?, ?, ?, ?, ?)
         ON CONFLICT (rule, subject) DO UPDATE SET state = excluded.state, since = excluded.since,
           notified = excluded.notified, detail = excluded.detail`,
        rule,
        alert.subject,
        alert.state,
        alert.since,
        alert.notified,
        alert.detail,
      );
    }
  }
}

const isSame = (a: Alert | undefined, b: Alert): boolean =>
  a !== undefined && a.state === b.state && a.since === b.since && a.notified === b.notified && a.detail === b.detail;
