import type { Migration } from "./migrations.ts";

/** A step of the schema of an owner of such values. */
export const FACTS: Migration = "CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT";

/** Single values of the deployment: its id, whether its first root token was issued, its key term. */
export class DeploymentState {
  constructor(private readonly sql: SqlStorage) {}

  get(name: string): string | null {
    const [row] = this.sql.exec<{ value: string }>("SELECT value FROM facts WHERE name = ?", name).toArray();
    return row?.value ?? null;
  }

  set(name: string, value: string): void {
    this.sql.exec(
      "INSERT INTO facts VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
      name,
      value,
    );
  }
}
