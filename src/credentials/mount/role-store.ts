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

  /** A page of names, sorted. @param prefix the beginning of stored names of one kind, which the names lack */
  names(after: string, limit: number, prefix = ""): string[] {
    // The character behind the slash that ends a prefix.
    const end = prefix === "" ? null : `${prefix.slice(0, -1)}0`;
    return this.#sql
      .exec<{ name: string }>(
        `SELECT name FROM roles WHERE name > ? AND (name < ? OR (? IS NULL AND instr(name, '/') = 0))
         ORDER BY name LIMIT ?`,
        prefix + after,
        end,
        end,
        limit,
      )
      .toArray()
      .map(({ name }) => name.slice(prefix.length));
  }

  /** Deletes all roles. @returns the deleted roles */
  deleteAll(): { name: string; role: Role }[] {
    const rows = this.#sql.exec<{ name: string; body: string }>("SELECT * FROM roles").toArray();
    this.#sql.exec("DELETE FROM roles");
    return rows.map(({ name, body }) => ({ name, role: JSON.parse(body) as Role }));
  }
}
