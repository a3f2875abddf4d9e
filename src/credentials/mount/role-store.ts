import type { EngineStates } from "../engines/engine-type.ts";

type Role = EngineStates["role"];

/** The roles of one engine, one JSON row each. Writes run inside the object's transaction. */
export class RoleStore {
  #onChange: (name: string) => void = () => {};

  constructor(private readonly sql: SqlStorage) {}

  /** @param onChange called with the name of each role that is written or deleted, inside the transaction */
  watch(onChange: (name: string) => void): void {
    this.#onChange = onChange;
  }

  find(name: string): Role | null {
    const [row] = this.sql.exec<{ body: string }>("SELECT body FROM roles WHERE name = ?", name).toArray();
    return row ? (JSON.parse(row.body) as Role) : null;
  }

  /** The roles of an identity. */
  ofAccount(account: number): Role[] {
    const rows = this.sql.exec<{ body: string }>("SELECT body FROM roles WHERE account = ?", account);
    return rows.toArray().map(({ body }) => JSON.parse(body) as Role);
  }

  /** Id of the identity that made what belongs to a role. */
  account(name: string): number {
    const rows = this.sql.exec<{ account: number }>("SELECT account FROM roles WHERE name = ?", name).toArray();
    return rows[0]?.account ?? 0;
  }

  put(name: string, role: Role, account: number): void {
    this.sql.exec(
      `INSERT INTO roles (name, body, account) VALUES (?, ?, ?)
       ON CONFLICT (name) DO UPDATE SET body = excluded.body, account = excluded.account`,
      name,
      JSON.stringify(role),
      account,
    );
    this.#onChange(name);
  }

  delete(name: string): void {
    this.sql.exec("DELETE FROM roles WHERE name = ?", name);
    this.#onChange(name);
  }

  /** Those of the names that are stored. */
  existing(names: readonly string[]): Set<string> {
    const isStored = (name: string) => this.sql.exec("SELECT 1 FROM roles WHERE name = ?", name).toArray().length > 0;
    return new Set(names.filter(isStored));
  }

  /** A page of the stored names of every kind, sorted. */
  page(after: string, limit: number): string[] {
    return this.sql
      .exec<{ name: string }>("SELECT name FROM roles WHERE name > ? ORDER BY name LIMIT ?", after, limit)
      .toArray()
      .map(({ name }) => name);
  }

  /** A page of names, sorted. @param prefix the beginning of stored names of one kind, which the names lack */
  names(after: string, limit: number, prefix = ""): string[] {
    // The character behind the slash that ends a prefix.
    const end = prefix === "" ? null : `${prefix.slice(0, -1)}0`;
    return this.sql
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
  deleteAll(): { name: string; role: Role; account: number }[] {
    const rows = this.sql.exec<{ name: string; body: string; account: number }>("SELECT * FROM roles").toArray();
    this.sql.exec("DELETE FROM roles");
    for (const { name } of rows) this.#onChange(name);
    return rows.map(({ name, body, account }) => ({ name, role: JSON.parse(body) as Role, account }));
  }
}
