import { isKind, type ObjectName } from "../../platform/durable/object-kinds.ts";

/** Beside the tables of `AccessControl`: names with a colon are excluded from snapshots. */
const TABLE = '"births:objects"';
/** Maximum of listed lost objects. */
const SHOWN = 10;

/** Registry of the storage id of each object except `AccessControl`, and of objects later found empty. */
export class StorageRegistry {
  constructor(private readonly sql: SqlStorage) {
    sql.exec(
      `CREATE TABLE IF NOT EXISTS ${TABLE} (kind TEXT NOT NULL, name TEXT NOT NULL, id TEXT NOT NULL,
         lost INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (kind, name)) STRICT, WITHOUT ROWID`,
    );
  }

  /** Records an object's storage, also while a restore blocks other writes. @returns the id on record */
  register({ kind, name }: ObjectName, id: string, fresh: boolean): string {
    if (!fresh) this.forget({ kind, name });
    this.sql.exec(
      `INSERT INTO ${TABLE} (kind, name, id) VALUES (?1, ?2, ?3) ON CONFLICT (kind, name) DO UPDATE SET lost = (id <> ?3)`,
      kind,
      name,
      id,
    );
    return this.sql.exec<{ id: string }>(`SELECT id FROM ${TABLE} WHERE kind = ? AND name = ?`, kind, name).one().id;
  }

  /** Objects with empty storage. */
  lost(): ObjectName[] {
    return this.sql
      .exec<{ kind: string; name: string }>(`SELECT kind, name FROM ${TABLE} WHERE lost = 1 LIMIT ${SHOWN}`)
      .toArray()
      .flatMap(({ kind, name }) => (isKind(kind) ? [{ kind, name }] : []));
  }

  /** The object's storage was restored. */
  found({ kind, name }: ObjectName): void {
    this.sql.exec(`UPDATE ${TABLE} SET lost = 0 WHERE kind = ? AND name = ?`, kind, name);
  }

  /** The object was deleted. */
  forget({ kind, name }: ObjectName): void {
    this.sql.exec(`DELETE FROM ${TABLE} WHERE kind = ? AND name = ?`, kind, name);
  }
}
