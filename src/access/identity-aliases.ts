import type { AliasChange, AliasRecord, IdentityKind } from "../contracts/identity.ts";
import { ok, type Result, refuse } from "../lib/result.ts";
import type { AuthMountTable } from "./auth-mounts.ts";

interface Dependencies {
  readonly sql: SqlStorage;
  readonly mounts: AuthMountTable;
  commit<T>(change: () => T): T;
}

interface AliasRow extends Record<string, SqlStorageValue> {
  id: string;
  canonical: string;
  mount: string;
  name: string;
  metadata: string;
  custom_metadata: string;
  created: number;
  updated: number;
}

/** A query for aliases with the columns of `AliasRow`; conditions follow it. */
const SELECT = {
  entity: `SELECT entity_aliases.id, entity AS canonical, mount, entity_aliases.name, entity_aliases.metadata,
      custom_metadata, entity_aliases.created, entity_aliases.updated
    FROM entity_aliases JOIN entities AS owner ON owner.id = entity`,
  group: `SELECT group_aliases.id, group_id AS canonical, mount, group_aliases.name, '{}' AS metadata,
      '{}' AS custom_metadata, group_aliases.created, group_aliases.updated
    FROM group_aliases JOIN groups AS owner ON owner.id = group_id`,
} as const;
const TABLE = { entity: "entity_aliases", group: "group_aliases" } as const;
const OWNER = { entity: "entity", group: "group_id" } as const;

/** Manages aliases: names of entities and external groups at auth mounts. */
export class IdentityAliases {
  readonly #deps: Dependencies;

  constructor(deps: Dependencies) {
    this.#deps = deps;
  }

  /** The aliases of an entity or a group. */
  of(kind: IdentityKind, id: string): AliasRecord[] {
    return this.#query(kind, "WHERE owner.id = ? ORDER BY 1", id);
  }

  read(namespace: string, kind: IdentityKind, id: string): AliasRecord | null {
    return this.#query(kind, `WHERE owner.namespace = ? AND ${TABLE[kind]}.id = ?`, namespace, id)[0] ?? null;
  }

  list(namespace: string, kind: IdentityKind): AliasRecord[] {
    return this.#query(kind, "WHERE owner.namespace = ? ORDER BY 1", namespace);
  }

  /** Creates an alias, or moves the existing one of the same mount and name. @returns its id */
  write(namespace: string, kind: IdentityKind, change: AliasChange): Result<string> {
    const mount = this.#deps.mounts.byAccessor(change.mount_accessor);
    if (mount?.namespace !== namespace) return refuse("invalid", "mount_accessor: there is no such auth method");
    const owner = change.canonical_id;
    if (!this.#mayHaveAlias(namespace, kind, owner)) {
      const what = kind === "entity" ? "entity" : "external group";
      return refuse("invalid", `canonical_id: there is no such ${what}`);
    }
    // `userpass` compares names in lower case.
    const name = mount.type === "userpass" ? change.name.toLowerCase() : change.name;
    const held = this.of(kind, owner).find(({ accessor }) => kind === "group" || accessor === mount.accessor);
    const taken = this.#query(kind, `WHERE mount = ? AND ${TABLE[kind]}.name = ?`, mount.accessor, name)[0];
    if (held && held.id !== taken?.id) {
      return refuse("invalid", `canonical_id: the ${kind} already has an alias${kind === "entity" ? " there" : ""}`);
    }
    const id = taken?.id ?? crypto.randomUUID();
    const custom = JSON.stringify(change.custom_metadata ?? taken?.customMetadata ?? {});
    this.#deps.commit(() => {
      this.#put(kind, id, owner, mount.accessor, name);
      if (kind === "entity") {
        this.#deps.sql.exec("UPDATE entity_aliases SET custom_metadata = ? WHERE id = ?", custom, id);
      } else if (taken && taken.canonical !== owner) {
        // Members of an external group follow the logins of its alias.
        this.#deps.sql.exec("DELETE FROM group_members WHERE group_id = ?", taken.canonical);
      }
    });
    return ok(id);
  }

  delete(namespace: string, kind: IdentityKind, id: string): void {
    const alias = this.read(namespace, kind, id);
    if (!alias) return;
    this.#deps.commit(() => {
      this.#deps.sql.exec(`DELETE FROM ${TABLE[kind]} WHERE id = ?`, id);
      if (kind === "group") this.#deps.sql.exec("DELETE FROM group_members WHERE group_id = ?", alias.canonical);
    });
  }

  /** Deletes the aliases of an entity or a group. Runs inside a transaction. */
  deleteOf(kind: IdentityKind, id: string): void {
    this.#deps.sql.exec(`DELETE FROM ${TABLE[kind]} WHERE ${OWNER[kind]} = ?`, id);
  }

  #put(kind: IdentityKind, id: string, owner: string, mount: string, name: string): void {
    const now = Date.now();
    const more = kind === "entity" ? { columns: ", metadata, custom_metadata", values: ", '{}', '{}'" } : null;
    this.#deps.sql.exec(
      `INSERT INTO ${TABLE[kind]} (id, ${OWNER[kind]}, mount, name, created, updated${more?.columns ?? ""})
       VALUES (?, ?, ?, ?, ?, ?${more?.values ?? ""})
       ON CONFLICT (mount, name) DO UPDATE SET ${OWNER[kind]} = excluded.${OWNER[kind]}, updated = excluded.updated`,
      id,
      owner,
      mount,
      name,
      now,
      now,
    );
  }

  #mayHaveAlias(namespace: string, kind: IdentityKind, id: string): boolean {
    const query =
      kind === "entity"
        ? "SELECT id FROM entities WHERE namespace = ? AND id = ?"
        : "SELECT id FROM groups WHERE namespace = ? AND id = ? AND type = 'external'";
    return this.#deps.sql.exec(query, namespace, id).toArray().length > 0;
  }

  #query(kind: IdentityKind, where: string, ...values: string[]): AliasRecord[] {
    return this.#deps.sql
      .exec<AliasRow>(`${SELECT[kind]} ${where}`, ...values)
      .toArray()
      .map(({ id, canonical, mount, name, metadata, custom_metadata, created, updated }) => ({
        ...{ id, canonical, name, created, updated },
        accessor: mount,
        mountPath: `auth/${this.#deps.mounts.byAccessor(mount)?.path ?? ""}`,
        mountType: this.#deps.mounts.byAccessor(mount)?.type ?? "",
        metadata: JSON.parse(metadata) as Record<string, string>,
        customMetadata: JSON.parse(custom_metadata) as Record<string, string>,
      }));
  }
}
