import type { ExpiringSecrets } from "../contracts/kv-store.ts";

const DAY_MS = 86_400_000;
/** A date, or a time of RFC 3339. */
const TIME = /^\d{4}-\d\d-\d\d(?:[Tt ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:[Zz]|[+-]\d\d:\d\d))?$/;

/** The moment of `custom_metadata.expires_at`, ms since 1970; null for other texts. */
export function expiryOf(text: string): number | null {
  const at = TIME.test(text) ? Date.parse(text.replace(" ", "T").toUpperCase()) : Number.NaN;
  return Number.isNaN(at) ? null : at;
}

/**
 * Secrets whose `custom_metadata.expires_at` is not after a moment. Reads the rows that it finds, by an index of secrets
 * that have one.
 * @param until ms since 1970
 * @param limit of the rows
 */
export function expiringSecrets(sql: SqlStorage, until: number, limit: number): ExpiringSecrets {
  // Texts are compared, and an offset moves a time by less than a day.
  const beyond = new Date(until + DAY_MS).toISOString();
  const rows = sql
    .exec<{ path: string; expires: string }>(
      `SELECT path, json_extract(custom_metadata, '$.expires_at') AS expires FROM secrets
       WHERE json_extract(custom_metadata, '$.expires_at') IS NOT NULL
         AND json_extract(custom_metadata, '$.expires_at') <= ?
       ORDER BY json_extract(custom_metadata, '$.expires_at') LIMIT ?`,
      beyond,
      limit,
    )
    .toArray();
  const secrets = rows.flatMap(({ path, expires }) => {
    const at = expiryOf(expires);
    return at === null || at > until ? [] : [{ path, at }];
  });
  return { secrets, isWhole: rows.length < limit };
}
