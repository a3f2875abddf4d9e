/** The configured origin of all issuers; empty when unset. */
export const issuerIn = (sql: SqlStorage): string =>
  sql.exec<{ issuer: string }>("SELECT issuer FROM config").toArray()[0]?.issuer ?? "";

/** Call inside a transaction. */
export function setIssuer(sql: SqlStorage, issuer: string): void {
  sql.exec("INSERT INTO config VALUES (1, ?) ON CONFLICT (id) DO UPDATE SET issuer = excluded.issuer", issuer);
}
