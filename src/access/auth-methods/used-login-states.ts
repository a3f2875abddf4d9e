/**
 * States of logins in a browser that succeeded, until they expire. Only a login that the provider confirmed adds a row,
 * so callers without an account there cannot fill the table. Writes run inside the login's transaction.
 */
export class UsedLoginStates {
  constructor(private readonly sql: SqlStorage) {}

  /** @param expires ms since 1970 */
  isUnused(mount: string, id: string, expires: number, now: number): boolean {
    return (
      expires > now &&
      this.sql.exec("SELECT 1 FROM used_login_states WHERE mount = ? AND id = ?", mount, id).toArray().length === 0
    );
  }

  add(mount: string, id: string, expires: number, now: number): void {
    this.sql.exec("DELETE FROM used_login_states WHERE expires <= ?", now);
    this.sql.exec("INSERT INTO used_login_states VALUES (?, ?, ?)", mount, id, expires);
  }
}
