import { Memo } from "../../platform/durable/memo.ts";

/** The fields of a mount in a row, of an engine or of an auth method. */
interface StoredMount {
  readonly namespace: string;
  readonly path: string;
  readonly type: string;
  readonly accessor: string;
  readonly uuid: string;
  readonly description: string;
  readonly options: Readonly<Record<string, string>>;
  readonly local: boolean;
  readonly seal_wrap: boolean;
  readonly config: object;
}

interface Row extends Record<string, SqlStorageValue> {
  namespace: string;
  path: string;
  type: string;
  accessor: string;
  uuid: string;
  description: string;
  options: string;
  config: string;
}

/** The column `config`: the settings, and two flags of the mount if they are set. */
const configOf = ({ config, local, seal_wrap }: StoredMount): string =>
  JSON.stringify({ ...config, ...(local && { local }), ...(seal_wrap && { seal_wrap }) });

/** The mount of a row. Types and settings are checked when a mount is written. */
function mountOf<Mount extends StoredMount>(row: Row): Mount {
  const { local = false, seal_wrap = false, ...config } = JSON.parse(row.config);
  const { namespace, path, type, accessor, uuid, description } = row;
  const options: Record<string, string> = JSON.parse(row.options);
  const mount: StoredMount = {
    ...{ namespace, path, type, accessor, uuid, description, options, local, seal_wrap, config },
  };
  return mount as Mount;
}

/**
 * Rows of `mounts` or `auth_mounts`, which have the same columns. The table is small, and every request resolves a mount,
 * so an index of it is held in memory; a write drops the index. Writes belong in a transaction.
 */
export class MountRows<Mount extends StoredMount, Index> {
  readonly #sql: SqlStorage;
  readonly #table: "mounts" | "auth_mounts";
  readonly #index: Memo<Index>;

  /** @param indexOf the rows as they are looked up */
  constructor(sql: SqlStorage, table: "mounts" | "auth_mounts", indexOf: (mounts: readonly Mount[]) => Index) {
    this.#sql = sql;
    this.#table = table;
    this.#index = new Memo(() =>
      indexOf(
        sql
          .exec<Row>(`SELECT * FROM ${table}`)
          .toArray()
          .map(mountOf<Mount>),
      ),
    );
  }

  get index(): Index {
    return this.#index.get();
  }

  /** Drops the index, after a rollback. */
  forget(): void {
    this.#index.forget();
  }

  insert(mount: Mount, now: number): void {
    this.#sql.exec(
      `INSERT INTO ${this.#table} (namespace, path, type, accessor, uuid, description, options, config, created)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      mount.namespace,
      mount.path,
      mount.type,
      mount.accessor,
      mount.uuid,
      mount.description,
      JSON.stringify(mount.options),
      configOf(mount),
      now,
    );
    this.forget();
  }

  /** Writes the description, the options and the settings of a mount. */
  update(mount: Mount): void {
    this.#sql.exec(
      `UPDATE ${this.#table} SET description = ?, options = ?, config = ? WHERE uuid = ?`,
      mount.description,
      JSON.stringify(mount.options),
      configOf(mount),
      mount.uuid,
    );
    this.forget();
  }

  /** Moves a mount inside its namespace. */
  move(uuid: string, path: string): void {
    this.#sql.exec(`UPDATE ${this.#table} SET path = ? WHERE uuid = ?`, path, uuid);
    this.forget();
  }

  delete(uuid: string): void {
    this.#sql.exec(`DELETE FROM ${this.#table} WHERE uuid = ?`, uuid);
    this.forget();
  }
}
