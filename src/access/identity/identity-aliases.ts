import type { ListedAuthMount } from "../../contracts/auth.ts";
import type { AliasChange, AliasRecord, IdentityKind } from "../../contracts/identity.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import type { ObjectContext } from "../../platform/durable/object-context.ts";
import { type AuthMountTable, tokenMountAccessor } from "../auth-methods/auth-mounts.ts";
import type { NamespaceTree } from "../namespaces/namespaces.ts";
import { comparedName, namedIn } from "./name-case.ts";

interface AliasRow extends Record<string, SqlStorageValue> {
  id: string;
  canonical: string;
  mount: string;
  name: string;
  metadata: string;
  role_metadata: string;
  custom_metadata: string;
  external_id: string;
  issuer: string;
  merged_from: string;
  created: number;
  updated: number;
}

/** An auth method as aliases show it. */
type AliasMount = Pick<ListedAuthMount, "accessor" | "path" | "type">;

/** A query for aliases with the columns of `AliasRow`; conditions follow it. */
const SELECT = {
  entity: `SELECT entity_aliases.id, entity AS canonical, mount, entity_aliases.name, entity_aliases.metadata,
      role_metadata, custom_metadata, external_id, issuer, merged_from, entity_aliases.created, entity_aliases.updated
    FROM entity_aliases JOIN entities AS owner ON owner.id = entity`,
  group: `SELECT group_aliases.id, group_id AS canonical, mount, group_aliases.name, '{}' AS metadata,
      '{}' AS role_metadata, '{}' AS custom_metadata, '' AS external_id, '' AS issuer, '[]' AS merged_from,
      group_aliases.created, group_aliases.updated
    FROM group_aliases JOIN groups AS owner ON owner.id = group_id`,
} as const;
const TABLE = { entity: "entity_aliases", group: "group_aliases" } as const;
const OWNER = { entity: "entity", group: "group_id" } as const;

/** Manages aliases: names of entities and external groups at auth mounts. */
export class IdentityAliases {
  constructor(
    private readonly sql: SqlStorage,
    private readonly mounts: AuthMountTable,
    private readonly namespaces: NamespaceTree,
    private readonly commit: ObjectContext["commit"],
  ) {}

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

  /** The alias with a name at an auth method. */
  named(namespace: string, kind: IdentityKind, accessor: string, name: string): AliasRecord | null {
    const mount = this.#mountOf(accessor, namespace);
    if (!mount) return null;
    const alias = this.#holder(kind, accessor, spelled(mount, name));
    return alias && this.read(namespace, kind, alias.id);
  }

  /**
   * Creates an alias, changes the one with the id, or moves the existing one of the same mount and name.
   * @returns the alias as it is then
   */
  write(namespace: string, kind: IdentityKind, change: AliasChange): Result<AliasRecord> {
    const before = change.id === undefined ? null : this.read(namespace, kind, change.id);
    if (change.id !== undefined && !before) return refuse("invalid", "id: there is no such alias");
    const wanted = change.name ?? before?.name;
    const accessor = change.mount_accessor ?? before?.accessor;
    const owner = change.canonical_id ?? before?.canonical;
    if (wanted === undefined) return refuse("invalid", "name: is required");
    if (accessor === undefined) return refuse("invalid", "mount_accessor: is required");
    if (owner === undefined) return refuse("invalid", "canonical_id: is required");
    const mount = this.#mountOf(accessor, namespace);
    if (!mount) return refuse("invalid", "mount_accessor: invalid mount accessor");
    if (!this.#mayHaveAlias(namespace, kind, owner)) {
      const what = kind === "entity" ? "entity" : "external group";
      return refuse("invalid", `canonical_id: there is no such ${what}`);
    }
    const name = spelled(mount, wanted);
    const taken = this.#holder(kind, accessor, name);
    if (before && taken && taken.id !== before.id) return refuse("invalid", "name: another alias has this name there");
    const id = (before ?? taken)?.id ?? crypto.randomUUID();
    const held = this.of(kind, owner).find((one) => kind === "group" || one.accessor === accessor);
    if (held && held.id !== id) {
      return refuse("invalid", `canonical_id: the ${kind} already has an alias${kind === "entity" ? " there" : ""}`);
    }
    const old = before ?? taken;
    this.commit(() => {
      this.#put(kind, id, owner, accessor, name);
      if (kind === "entity") {
        this.#change(id, change);
      } else if (old && isOther(old, { owner, accessor, name })) {
        // Members of an external group follow the logins of its alias.
        this.sql.exec("DELETE FROM group_members WHERE group_id IN (?, ?)", old.canonical, owner);
      }
    });
    const written = this.read(namespace, kind, id);
    if (!written) throw new Error("an alias that was written is missing");
    return ok(written);
  }

  delete(namespace: string, kind: IdentityKind, id: string): void {
    const alias = this.read(namespace, kind, id);
    if (!alias) return;
    this.commit(() => {
      this.sql.exec(`DELETE FROM ${TABLE[kind]} WHERE id = ?`, id);
      if (kind === "group") this.sql.exec("DELETE FROM group_members WHERE group_id = ?", alias.canonical);
    });
  }

  /** Deletes the aliases of an entity or a group. Runs inside a transaction. */
  deleteOf(kind: IdentityKind, id: string): void {
    this.sql.exec(`DELETE FROM ${TABLE[kind]} WHERE ${OWNER[kind]} = ?`, id);
  }

  /** The alias with a name at an auth method, in whatever namespace its owner is. */
  #holder(kind: IdentityKind, accessor: string, name: string): AliasRecord | null {
    const { condition, order } = namedIn(TABLE[kind]);
    return this.#query(kind, `WHERE mount = ? AND ${condition} ${order}`, accessor, name, name)[0] ?? null;
  }

  #put(kind: IdentityKind, id: string, owner: string, mount: string, name: string): void {
    const now = Date.now();
    const more = kind === "entity" ? { columns: ", metadata, custom_metadata", values: ", '{}', '{}'" } : null;
    this.sql.exec(
      `INSERT INTO ${TABLE[kind]} (id, ${OWNER[kind]}, mount, name, created, updated${more?.columns ?? ""})
       VALUES (?, ?, ?, ?, ?, ?${more?.values ?? ""})
       ON CONFLICT (id) DO UPDATE SET ${OWNER[kind]} = excluded.${OWNER[kind]}, mount = excluded.mount,
         name = excluded.name, updated = excluded.updated`,
      id,
      owner,
      mount,
      name,
      now,
      now,
    );
  }

  /** Writes the fields of an entity's alias that a request names. */
  #change(id: string, { custom_metadata: custom, external_id: externalId, issuer }: AliasChange): void {
    this.sql.exec(
      `UPDATE entity_aliases SET custom_metadata = coalesce(?, custom_metadata),
         external_id = coalesce(?, external_id), issuer = coalesce(?, issuer) WHERE id = ?`,
      custom ? JSON.stringify(custom) : null,
      externalId ?? null,
      issuer ?? null,
      id,
    );
  }

  #mayHaveAlias(namespace: string, kind: IdentityKind, id: string): boolean {
    const query =
      kind === "entity"
        ? "SELECT id FROM entities WHERE namespace = ? AND id = ?"
        : "SELECT id FROM groups WHERE namespace = ? AND id = ? AND type = 'external'";
    return this.sql.exec(query, namespace, id).toArray().length > 0;
  }

  /** An auth method of a namespace; null when its accessor is unknown there. */
  #mountOf(accessor: string, namespace: string): AliasMount | null {
    if (accessor === tokenMountAccessor(this.namespaces.idOf(namespace) ?? "")) return tokenMount(accessor);
    const mount = this.mounts.byAccessor(accessor);
    return mount?.namespace === namespace ? mount : null;
  }

  #query(kind: IdentityKind, where: string, ...values: string[]): AliasRecord[] {
    return this.sql
      .exec<AliasRow>(`${SELECT[kind]} ${where}`, ...values)
      .toArray()
      .map((row) => {
        const { id, canonical, mount: accessor, name, created, updated } = row;
        const isToken = accessor.startsWith(tokenMountAccessor(""));
        const mount = isToken ? tokenMount(accessor) : this.mounts.byAccessor(accessor);
        return {
          id,
          canonical,
          name,
          created,
          updated,
          accessor,
          mountPath: `auth/${mount?.path ?? ""}`,
          mountType: mount?.type ?? "",
          metadata: mapOf(row.metadata),
          customMetadata: { ...mapOf(row.custom_metadata), ...mapOf(row.role_metadata) },
          externalId: row.external_id,
          issuer: row.issuer,
          mergedFrom: JSON.parse(row.merged_from) as string[],
        };
      });
  }
}

const mapOf = (text: string): Record<string, string> => JSON.parse(text) as Record<string, string>;

const tokenMount = (accessor: string): AliasMount => ({ accessor, path: "token/", type: "token" });

/** Whether an alias leads elsewhere than before, or is the name of something else. */
const isOther = (
  alias: AliasRecord,
  { owner, accessor, name }: { readonly owner: string; readonly accessor: string; readonly name: string },
): boolean =>
  alias.canonical !== owner || alias.accessor !== accessor || comparedName(alias.name) !== comparedName(name);

/** The name as the auth method compares it: `userpass` does so in lower case. */
const spelled = ({ type }: AliasMount, name: string): string => (type === "userpass" ? name.toLowerCase() : name);
