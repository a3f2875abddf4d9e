import type { Mount } from "../../contracts/mount.ts";
import { Memo } from "../../platform/durable/memo.ts";

/** A mount of an engine or of an auth method. */
type StoredMount = Omit<Mount, "type" | "config"> & { readonly type: string; readonly config: object };

interface MountRow extends Record<string, SqlStorageValue> {
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
function mountOf<M extends StoredMount>(row: MountRow): M {
  const { local = false, seal_wrap = false, ...config } = JSON.parse(row.config);
  const { namespace, path, type, accessor, uuid, description } = row;
  const options: Record<string, string> = JSON.parse(row.options);
  const mount: StoredMount = {
    namespace,
    path,
    type,
    accessor,
    uuid,
    description,
    options,
    local,
    seal_wrap,
    config,
  };
  return mount as M;
}

/**
 * Rows of `mounts` or `auth_mounts`, which have the same columns. The table is small, and every request resolves a mount,
 * so an index of it is held in memory; a write drops the index. Writes belong in a transaction.
 */
export class MountRows<M extends StoredMount, Index> {
  readonly #index: Memo<Index>;

  /** @param indexOf the rows as they are looked up */
  constructor(
    private readonly sql: SqlStorage,
    private readonly table: "mounts" | "auth_mounts",
    indexOf: (mounts: readonly M[]) => Index,
  ) {
    this.#index = new Memo(() =>
      indexOf(
        sql
          .exec<MountRow>(`SELECT * FROM ${table}`)
          .toArray()
          .map(mountOf<M>),
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

  insert(mount: M, now: number): void {
    this.sql.exec(
      `INSERT INTO ${this.table} (namespace, path, type, accessor, uuid, description, options, config, created)
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
  update(mount: M): void {
    this.sql.exec(
      `UPDATE ${this.table} SET description = ?, options = ?, config = ? WHERE uuid = ?`,
      mount.description,
      JSON.stringify(mount.options),
      configOf(mount),
      mount.uuid,
    );
    this.forget();
  }

  /** Moves a mount inside its namespace. */
  move(uuid: string, path: string): void {
    this.sql.exec(`UPDATE ${this.table} SET path = ? WHERE uuid = ?`, path, uuid);
    this.forget();
  }

  delete(uuid: string): void {
    this.sql.exec(`DELETE FROM ${this.table} WHERE uuid = ?`, uuid);
    this.forget();
  }
}
