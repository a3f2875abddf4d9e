import type { Actor, SecretRow, VersionSummary } from "../contracts/kv-store.ts";
import { attribution, type VersionRow } from "./version.ts";

/** One version with its path's custom metadata. */
type FoundVersion = VersionRow & Pick<SecretRow, "custom_metadata">;

/** With the longest paths, 400 KB of one statement. */
const PATHS_AT_ONCE = 100;

/**
 * The rows of one mount's secrets and versions: statements without rules, which are in `KvStore`, the owner. Methods
 * that write are called inside the object's transaction.
 */
export class Secrets {
  constructor(private readonly sql: SqlStorage) {}

  find(path: string): SecretRow | null {
    return this.#first<SecretRow>("SELECT * FROM secrets WHERE path = ?", path);
  }

  /** Those of the paths that exist. Costs a statement for each `PATHS_AT_ONCE`. */
  existing(paths: readonly string[]): Set<string> {
    const found = new Set<string>();
    for (let at = 0; at < paths.length; at += PATHS_AT_ONCE) {
      const rows = this.sql.exec<{ path: string }>(
        "SELECT path FROM secrets WHERE path IN (SELECT value FROM json_each(?))",
        JSON.stringify(paths.slice(at, at + PATHS_AT_ONCE)),
      );
      for (const { path } of rows) found.add(path);
    }
    return found;
  }

  isEmpty(): boolean {
    return this.sql.exec("SELECT 1 FROM secrets LIMIT 1").toArray().length === 0;
  }

  store(row: SecretRow): void {
    this.sql.exec(
      `INSERT INTO secrets (path, created, updated, current_version, oldest_version, max_versions, cas_required,
         delete_version_after, custom_metadata, metadata_cas_required, metadata_version)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
       ON CONFLICT (path) DO UPDATE SET updated = excluded.updated, current_version = excluded.current_version,
         oldest_version = excluded.oldest_version, max_versions = excluded.max_versions,
         cas_required = excluded.cas_required, delete_version_after = excluded.delete_version_after,
         custom_metadata = excluded.custom_metadata, metadata_cas_required = excluded.metadata_cas_required,
         metadata_version = excluded.metadata_version`,
      row.path,
      row.created,
      row.updated,
      row.current_version,
      row.oldest_version,
      row.max_versions,
      row.cas_required,
      row.delete_version_after,
      row.custom_metadata,
      row.metadata_cas_required,
      row.metadata_version,
    );
  }

  touch(path: string, now: number): void {
    this.sql.exec("UPDATE secrets SET updated = ? WHERE path = ?", now, path);
  }

  /** @returns whether it existed */
  remove(path: string): boolean {
    this.sql.exec("DELETE FROM versions WHERE path = ?", path);
    return this.#changed("DELETE FROM secrets WHERE path = ?", path);
  }

  clear(): void {
    this.sql.exec("DELETE FROM versions");
    this.sql.exec("DELETE FROM secrets");
  }

  /** @param version 0 = the newest */
  version(path: string, version: number): FoundVersion | null {
    return this.#first<FoundVersion>(
      `SELECT v.*, s.custom_metadata FROM secrets s
       JOIN versions v ON v.path = s.path AND v.version = ifnull(nullif(?, 0), s.current_version) WHERE s.path = ?`,
      version,
      path,
    );
  }

  newestLiving(path: string, now: number): VersionRow | null {
    return this.#first<VersionRow>(
      `SELECT * FROM versions WHERE path = ? AND sealed IS NOT NULL AND (deletion IS NULL OR deletion > ?)
       ORDER BY version DESC LIMIT 1`,
      path,
      now,
    );
  }

  summaries(path: string): VersionSummary[] {
    return this.sql
      .exec<VersionSummary>(
        `SELECT version, created, deletion, sealed IS NULL AS destroyed, created_by, deleted_by FROM versions
         WHERE path = ? ORDER BY version`,
        path,
      )
      .toArray();
  }

  insert(row: Omit<VersionRow, "sealed"> & { sealed: Uint8Array }): void {
    this.sql.exec(
      "INSERT INTO versions (path, version, created, deletion, sealed, created_by) VALUES (?, ?, ?, ?, ?, ?)",
      row.path,
      row.version,
      row.created,
      row.deletion,
      row.sealed,
      row.created_by,
    );
  }

  /** Inserts a version, or replaces the one of its number. */
  replace(row: Omit<VersionRow, "sealed"> & { sealed: Uint8Array }): void {
    this.sql.exec("DELETE FROM versions WHERE path = ? AND version = ?", row.path, row.version);
    this.insert(row);
  }

  prune(path: string, upTo: number): void {
    this.sql.exec("DELETE FROM versions WHERE path = ? AND version <= ?", path, upTo);
  }

  // The next three return whether a row changed. Versions are bound as one JSON list, because parameters are limited.

  delete(path: string, versions: readonly number[], now: number, by: Actor | undefined): boolean {
    return this.#changed(
      `UPDATE versions SET deletion = ?, deleted_by = ? WHERE path = ? AND version IN (SELECT value FROM json_each(?))
       AND sealed IS NOT NULL AND (deletion IS NULL OR deletion > ?)`,
      now,
      attribution(by, "delete"),
      path,
      JSON.stringify(versions),
      now,
    );
  }

  /** @param deletion of the versions from now on, ms since 1970; null for none */
  undelete(path: string, versions: readonly number[], deletion: number | null): boolean {
    return this.#changed(
      `UPDATE versions SET deletion = ?1, deleted_by = NULL WHERE path = ?2
       AND version IN (SELECT value FROM json_each(?3)) AND sealed IS NOT NULL AND deletion IS NOT ?1`,
      deletion,
      path,
      JSON.stringify(versions),
    );
  }

  destroy(path: string, versions: readonly number[], by: Actor | undefined): boolean {
    return this.#changed(
      `UPDATE versions SET sealed = NULL, deleted_by = ? WHERE path = ? AND version IN (SELECT value FROM json_each(?))
       AND sealed IS NOT NULL`,
      attribution(by, "destroy"),
      path,
      JSON.stringify(versions),
    );
  }

  #first<Row extends Record<string, SqlStorageValue>>(statement: string, ...values: SqlStorageValue[]): Row | null {
    return this.sql.exec<Row>(statement, ...values).toArray()[0] ?? null;
  }

  #changed(statement: string, ...values: SqlStorageValue[]): boolean {
    return this.sql.exec(statement, ...values).rowsWritten > 0;
  }
}
