import { randomBytes } from "node:crypto";
import type { Mount } from "../../contracts/mount.ts";
import { Memo } from "../../platform/durable/memo.ts";

/** A mount of an engine or of an auth method. */
type StoredMount = Omit<Mount, "type" | "config"> & { readonly type: string; readonly config: object };

type MountRow = Record<
  "namespace" | "path" | "type" | "accessor" | "uuid" | "description" | "options" | "config",
  string
>;

/** The column `config`: the settings, and two flags of the mount if they are set. */
const configOf = ({ config, local, seal_wrap }: StoredMount): string =>
  JSON.stringify({ ...config, ...(local && { local }), ...(seal_wrap && { seal_wrap }) });

/** The mount of a row. Types and settings are checked when a mount is written. */
function mountOf<M extends StoredMount>({ options, config: stored, ...row }: MountRow): M {
  const { local = false, seal_wrap = false, ...config } = JSON.parse(stored);
  const mount: StoredMount = { ...row, options: JSON.parse(options), local, seal_wrap, config };
  return mount as M;
}

/**
 * A table of mounts: `mounts` or `auth_mounts`, which have the same columns. It is small, and every request resolves a
 * mount, so an index of it is held in memory; a write drops the index. Writes belong in a transaction.
 */
export abstract class MountRows<M extends StoredMount, Index> {
  readonly #index: Memo<Index>;

  /**
   * @param accessorPrefix of the mounts' accessors, before their type
   * @param indexOf the rows as they are looked up
   */
  constructor(
    private readonly sql: SqlStorage,
    private readonly table: "mounts" | "auth_mounts",
    private readonly accessorPrefix: "" | "auth_",
    indexOf: (mounts: readonly M[]) => Index,
  ) {
    const query = `SELECT namespace, path, type, accessor, uuid, description, options, config FROM ${table}`;
    this.#index = new Memo(() =>
      indexOf(
        sql
          .exec<MountRow>(query)
          .toArray()
          .map(mountOf<M>),
      ),
    );
  }

  protected get index(): Index {
    return this.#index.get();
  }

  /** Drops the index, after a rollback. */
  forget(): void {
    this.#index.forget();
  }

  /** @returns the mount with its names */
  insert(mount: Omit<M, "accessor" | "uuid">, now: number): M {
    const accessor = `${this.accessorPrefix}${mount.type}_${randomBytes(4).toString("hex")}`;
    const made = { ...mount, accessor, uuid: crypto.randomUUID() } as unknown as M;
    this.sql.exec(
      `INSERT INTO ${this.table} (namespace, path, type, accessor, uuid, description, options, config, created)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      made.namespace,
      made.path,
      made.type,
      made.accessor,
      made.uuid,
      made.description,
      JSON.stringify(made.options),
      configOf(made),
      now,
    );
    this.forget();
    return made;
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
