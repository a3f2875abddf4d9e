import type { AuthEntryName } from "../../contracts/auth.ts";
import type { DataKeys } from "../../platform/crypto/data-keys.ts";
import { column, firstRow, hasRow } from "../rows.ts";

const context = ({ mount, kind, name }: AuthEntryName): string => `auth-entry ${mount} ${kind} ${name}`;

/**
 * The entries of auth mounts: configuration, roles, users, as JSON texts. Each is sealed, because some hold client
 * secrets or hashes of passwords. Writes run inside the object's transaction.
 */
export class AuthEntries {
  constructor(
    private readonly sql: SqlStorage,
    private readonly keys: DataKeys,
  ) {}

  /** @throws Sealed */
  get(entry: AuthEntryName): string | null {
    const query = "SELECT value FROM auth_entries WHERE mount = ? AND kind = ? AND name = ?";
    const row = firstRow<{ value: ArrayBuffer }>(this.sql, query, entry.mount, entry.kind, entry.name);
    return row ? this.keys.openText(row.value, context(entry)) : null;
  }

  has({ mount, kind, name }: AuthEntryName): boolean {
    const query = "SELECT 1 FROM auth_entries WHERE mount = ? AND kind = ? AND name = ?";
    return hasRow(this.sql, query, mount, kind, name);
  }

  /** @throws Sealed */
  put(entry: AuthEntryName, value: string): void {
    this.sql.exec(
      `INSERT INTO auth_entries (mount, kind, name, value) VALUES (?, ?, ?, ?)
       ON CONFLICT (mount, kind, name) DO UPDATE SET value = excluded.value`,
      entry.mount,
      entry.kind,
      entry.name,
      this.keys.seal(value, context(entry)),
    );
  }

  delete({ mount, kind, name }: AuthEntryName): void {
    this.sql.exec("DELETE FROM auth_entries WHERE mount = ? AND kind = ? AND name = ?", mount, kind, name);
  }

  deleteMount(mount: string): void {
    this.sql.exec("DELETE FROM auth_entries WHERE mount = ?", mount);
  }

  names(mount: string, kind: string): string[] {
    const query = "SELECT name FROM auth_entries WHERE mount = ? AND kind = ? ORDER BY name";
    return column(this.sql, query, mount, kind);
  }
}
