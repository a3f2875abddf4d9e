import type { EngineStates } from "../engines/engine-type.ts";

type Role = EngineStates["role"];

/** The roles of one engine, one JSON row each. Writes run inside the object's transaction. */
export class RoleStore {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  find(name: string): Role | null {
    const [row] = this.#sql.exec<{ body: string }>("SELECT body FROM roles WHERE name = ?", name).toArray();
    return row ? (JSON.parse(row.body) as Role) : null;
  }

  put(name: string, role: Role): void {
    this.#sql.exec(
      "INSERT INTO roles VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET body = excluded.body",
      name,
      JSON.stringify(role),
    );
  }

  delete(name: string): void {
    this.#sql.exec("DELETE FROM roles WHERE name = ?", name);
  }

  /** A page of names, sorted. */
  names(after: string, limit: number): string[] {
    return this.#sql
      .exec<{ name: string }>("SELECT name FROM roles WHERE name > ? ORDER BY name LIMIT ?", after, limit)
      .toArray()
      .map(({ name }) => name);
  }

  /** Deletes all roles. @returns the deleted roles */
  deleteAll(): { name: string; role: Role }[] {
    const rows = this.#sql.exec<{ name: string; body: string }>("SELECT * FROM roles").toArray();
    this.#sql.exec("DELETE FROM roles");
    return rows.map(({ name, body }) => ({ name, role: JSON.parse(body) as Role }));
  }
}
