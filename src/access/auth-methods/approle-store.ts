import type { ApproleName, SecretIdName } from "../../contracts/approle.ts";
import { APPROLE } from "../../contracts/approle.ts";
import type { AuthEntryName } from "../../contracts/auth.ts";
import type { DataKeys } from "../../platform/crypto/data-keys.ts";
import { column, firstRow } from "../rows.ts";
import type { TokenStore } from "../tokens/token-store.ts";

/** The sealed part of a secret id. Times in ms since 1970, durations in seconds. */
export interface SecretIdDetails {
  readonly created: number;
  readonly ttl: number;
  readonly metadata: Readonly<Record<string, string>>;
  readonly cidrs: readonly string[];
  readonly tokenCidrs: readonly string[];
}

/** A live secret id. Times in ms since 1970. */
export interface StoredSecretId extends Record<string, SqlStorageValue> {
  mount: string;
  role: string;
  hash: string;
  accessor: string;
  /** Uses left; 0 = any number. */
  uses: number;
  /** Null = never. */
  expires: number | null;
  updated: number;
}

const context = (mount: string, role: string, accessor: string): string =>
  `approle-secret-id ${mount} ${role} ${accessor}`;

/**
 * The index of role ids and the secret ids of `approle`. Role ids and secret ids are keyed hashes, so that both are found
 * by one indexed read and none can be read back. Writes run inside the object's transaction.
 */
export class ApproleStore {
  constructor(
    private readonly sql: SqlStorage,
    private readonly keys: DataKeys,
    private readonly tokens: TokenStore,
  ) {}

  /** The role with a role id; null when there is none. @throws Sealed */
  byRoleId(mount: string, roleId: string): { role: string; bound: boolean } | null {
    const query = "SELECT role, bound FROM approles WHERE mount = ? AND role_id = ?";
    const hash = this.#roleIdHash(mount, roleId);
    const row = firstRow<{ role: string; bound: number }>(this.sql, query, mount, hash);
    return row ? { role: row.role, bound: row.bound === 1 } : null;
  }

  /** @throws Sealed */
  putRole({ mount, role }: ApproleName, roleId: string, bound: boolean): void {
    this.sql.exec(
      `INSERT INTO approles (mount, role, role_id, bound) VALUES (?, ?, ?, ?)
       ON CONFLICT (mount, role) DO UPDATE SET role_id = excluded.role_id, bound = excluded.bound`,
      mount,
      role,
      this.#roleIdHash(mount, roleId),
      bound ? 1 : 0,
    );
  }

  deleteRole({ mount, role }: ApproleName): void {
    this.sql.exec("DELETE FROM approles WHERE mount = ? AND role = ?", mount, role);
    this.sql.exec("DELETE FROM approle_secret_ids WHERE mount = ? AND role = ?", mount, role);
  }

  deleteMount(mount: string): void {
    this.sql.exec("DELETE FROM approles WHERE mount = ?", mount);
    this.sql.exec("DELETE FROM approle_secret_ids WHERE mount = ?", mount);
  }

  /** A secret id of a role that has not expired; null when there is none. @throws Sealed */
  find({ mount, role }: ApproleName, name: SecretIdName, now: number): StoredSecretId | null {
    const [key, value] =
      "accessor" in name ? ["accessor", name.accessor] : ["hash", this.#secretIdHash({ mount, role }, name.secretId)];
    const query = `SELECT mount, role, hash, accessor, uses, expires, updated FROM approle_secret_ids
      WHERE mount = ? AND role = ? AND ${key} = ? AND (expires IS NULL OR expires > ?)`;
    return firstRow(this.sql, query, mount, role, value, now);
  }

  /** @throws Sealed */
  details({ mount, role, hash, accessor }: StoredSecretId): SecretIdDetails {
    const { value } = this.sql
      .exec<{ value: ArrayBuffer }>(
        "SELECT value FROM approle_secret_ids WHERE mount = ? AND role = ? AND hash = ?",
        mount,
        role,
        hash,
      )
      .one();
    return JSON.parse(this.keys.openText(value, context(mount, role, accessor))) as SecretIdDetails;
  }

  /** Inserts a secret id, in place of an expired one of the same text. @param uses 0 = any number @throws Sealed */
  insert(name: ApproleName, secretId: string, accessor: string, uses: number, details: SecretIdDetails): void {
    const hash = this.#secretIdHash(name, secretId);
    this.sql.exec(
      `INSERT INTO approle_secret_ids (mount, role, hash, accessor, uses, expires, updated, value)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?)
       ON CONFLICT (mount, role, hash) DO UPDATE SET accessor = excluded.accessor, uses = excluded.uses,
         expires = excluded.expires, updated = excluded.updated, value = excluded.value`,
      name.mount,
      name.role,
      hash,
      accessor,
      uses,
      details.ttl === 0 ? null : details.created + details.ttl * 1000,
      details.created,
      this.keys.seal(JSON.stringify(details), context(name.mount, name.role, accessor)),
    );
  }

  /** Counts one use; the last one deletes the secret id. */
  use(secretId: StoredSecretId, now: number): void {
    const { mount, role, hash, uses } = secretId;
    if (uses === 1) this.delete(secretId);
    if (uses <= 1) return;
    this.sql.exec(
      "UPDATE approle_secret_ids SET uses = ?, updated = ? WHERE mount = ? AND role = ? AND hash = ?",
      uses - 1,
      now,
      mount,
      role,
      hash,
    );
  }

  delete({ mount, role, hash }: StoredSecretId): void {
    this.sql.exec("DELETE FROM approle_secret_ids WHERE mount = ? AND role = ? AND hash = ?", mount, role, hash);
  }

  /** Accessors of the secret ids of a role that have not expired, sorted. */
  accessors({ mount, role }: ApproleName, now: number): string[] {
    const query = `SELECT accessor FROM approle_secret_ids
      WHERE mount = ? AND role = ? AND (expires IS NULL OR expires > ?) ORDER BY accessor`;
    return column(this.sql, query, mount, role, now);
  }

  /** The number of secret ids of a role, expired ones included. */
  count({ mount, role }: ApproleName): number {
    return this.sql
      .exec<{ n: number }>("SELECT count(*) AS n FROM approle_secret_ids WHERE mount = ? AND role = ?", mount, role)
      .one().n;
  }

  /** The time of the next expiry, ms since 1970; null when no secret id expires. */
  nextExpiry(): number | null {
    return this.sql
      .exec<{ at: number | null }>("SELECT min(expires) AS at FROM approle_secret_ids WHERE expires IS NOT NULL")
      .one().at;
  }

  /** Deletes expired secret ids, of one mount or of all, at most `limit`. */
  deleteExpired(now: number, limit: number, mount: string | null): void {
    this.sql.exec(
      `DELETE FROM approle_secret_ids WHERE rowid IN (
         SELECT rowid FROM approle_secret_ids WHERE expires <= ?1 AND (?3 IS NULL OR mount = ?3) LIMIT ?2)`,
      now,
      limit,
      mount,
    );
  }

  #roleIdHash = (mount: string, roleId: string): string => this.tokens.hashOf(`approle-role-id\n${mount}\n${roleId}`);

  #secretIdHash = ({ mount, role }: ApproleName, secretId: string): string =>
    this.tokens.hashOf(`approle-secret-id\n${mount}\n${role}\n${secretId}`);
}

/** The entry of a role among those of its method. */
export const approleEntry = ({ mount, role }: ApproleName): AuthEntryName => ({ mount, kind: APPROLE, name: role });
