import type {
  AliasChange,
  AliasRecord,
  EntityChange,
  EntityRecord,
  GroupChange,
  GroupRecord,
  IdentityKey,
  IdentityKind,
  IdentityQuery,
  IdentityWritten,
} from "../../contracts/identity.ts";
import { ok, type Refusal, type Result, refuse } from "../../lib/result.ts";
import type { ObjectContext } from "../../platform/durable/object-context.ts";
import { comparedPolicies } from "../../rights/policy-names.ts";
import type { NamespaceTree } from "../namespaces/namespaces.ts";
import { column } from "../rows.ts";
import { type Entities, type EntityRow, type IdentityRow, MAX_LOGIN_ENTITIES } from "./entities.ts";
import type { IdentityAliases } from "./identity-aliases.ts";
import { comparedName, namedIn } from "./name-case.ts";

interface GroupRow extends IdentityRow {
  type: string;
}

/**
 * Entities and groups share one object with all tokens; these bounds keep a tenant from filling it. Of the entities, the
 * last 10,000 are left to administrators by logins.
 */
const MAX_IDENTITIES = { entity: MAX_LOGIN_ENTITIES + 10_000, group: 10_000 } as const;
const TABLES = { entity: "entities", group: "groups" } as const;

/** Manages the entities and groups of a namespace (https://openbao.org/api-docs/secret/identity/). */
export class IdentityAdmin {
  constructor(
    private readonly sql: SqlStorage,
    private readonly entities: Entities,
    private readonly aliases: IdentityAliases,
    private readonly namespaces: NamespaceTree,
    private readonly commit: ObjectContext["commit"],
  ) {}

  list(namespace: string, kind: IdentityKind): { id: string; name: string }[] {
    return this.sql
      .exec<{ id: string; name: string }>(
        `SELECT id, name FROM ${TABLES[kind]} WHERE namespace = ? ORDER BY name`,
        namespace,
      )
      .toArray();
  }

  readEntity(namespace: string, query: IdentityQuery): EntityRecord | null {
    const row = this.#find<EntityRow>(namespace, "entity", query);
    if (!row) return null;
    const directGroups = column(
      this.sql,
      "SELECT group_id AS id FROM group_members WHERE kind = 'entity' AND member = ? ORDER BY id",
      row.id,
    );
    const all = this.entities.groupsOf(row.id).map(({ id }) => id);
    const inheritedGroups = all.filter((id) => !directGroups.includes(id)).sort();
    const aliases = this.aliases.of("entity", row.id);
    const merged = column(this.sql, "SELECT id FROM merged_entities WHERE entity = ? ORDER BY id", row.id);
    return { ...shared(row), aliases, disabled: row.disabled === 1, merged, directGroups, inheritedGroups };
  }

  readGroup(namespace: string, query: IdentityQuery): GroupRecord | null {
    const row = this.#find<GroupRow>(namespace, "group", query);
    if (!row) return null;
    const members = (kind: IdentityKind) =>
      column(
        this.sql,
        "SELECT member AS id FROM group_members WHERE group_id = ? AND kind = ? ORDER BY id",
        row.id,
        kind,
      );
    return {
      ...shared(row),
      aliases: this.aliases.of("group", row.id),
      type: row.type,
      entities: members("entity"),
      groups: members("group"),
      parents: column(
        this.sql,
        "SELECT group_id AS id FROM group_members WHERE kind = 'group' AND member = ? ORDER BY id",
        row.id,
      ),
    };
  }

  writeEntity(namespace: string, key: IdentityKey | null, change: EntityChange): Result<IdentityWritten> {
    const selected = this.#select<EntityRow>(namespace, "entity", key, change);
    if (!selected.ok) return selected;
    const { row, id, name } = selected.value;
    const now = Date.now();
    const values = [
      name,
      stored(change.policies?.toSorted(), row?.policies ?? "[]"),
      stored(change.metadata, row?.metadata ?? "{}"),
      change.disabled === undefined ? (row?.disabled ?? 0) : Number(change.disabled),
    ];
    this.commit(() => {
      this.sql.exec(
        `INSERT INTO entities (id, namespace, name, policies, metadata, disabled, created, updated)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?)
         ON CONFLICT (id) DO UPDATE SET name = excluded.name, policies = excluded.policies,
           metadata = excluded.metadata, disabled = excluded.disabled, updated = excluded.updated`,
        id,
        namespace,
        ...values,
        now,
        now,
      );
      if (!row) this.entities.adjust(namespace, 1);
    });
    return ok({ id, name, created: row === null });
  }

  writeGroup(namespace: string, key: IdentityKey | null, change: GroupChange): Result<IdentityWritten> {
    const selected = this.#select<GroupRow>(namespace, "group", key, change);
    if (!selected.ok) return selected;
    const { row, id, name } = selected.value;
    const type = change.type ?? row?.type ?? "internal";
    if (row && row.type !== type) return refuse("invalid", "type: group type cannot be changed");
    const refused = this.#refusedMembers(namespace, id, type, change);
    if (refused) return refused;
    const now = Date.now();
    this.commit(() => {
      this.sql.exec(
        `INSERT INTO groups (id, namespace, name, type, policies, metadata, created, updated)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?)
         ON CONFLICT (id) DO UPDATE SET name = excluded.name, policies = excluded.policies,
           metadata = excluded.metadata, updated = excluded.updated`,
        id,
        namespace,
        name,
        type,
        stored(change.policies, row?.policies ?? "[]"),
        stored(change.metadata, row?.metadata ?? "{}"),
        now,
        now,
      );
      this.#setMembers(id, "entity", change.member_entity_ids);
      this.#setMembers(id, "group", change.member_group_ids);
    });
    return ok({ id, name, created: row === null });
  }

  /** Writes an alias. One that names no owner keeps its own; a new one gets a new entity or external group. */
  writeAlias(namespace: string, kind: IdentityKind, change: AliasChange): Result<AliasRecord> {
    const { name, mount_accessor: accessor } = change;
    if (change.id !== undefined || change.canonical_id !== undefined || name === undefined || accessor === undefined) {
      return this.aliases.write(namespace, kind, change);
    }
    const before = this.aliases.named(namespace, kind, accessor, name);
    if (before) return this.aliases.write(namespace, kind, { ...change, canonical_id: before.canonical });
    const owner =
      kind === "entity"
        ? this.writeEntity(namespace, null, {})
        : this.writeGroup(namespace, null, { type: "external" });
    if (!owner.ok) return owner;
    const written = this.aliases.write(namespace, kind, { ...change, canonical_id: owner.value.id });
    if (!written.ok) this.delete(namespace, kind, { by: "id", value: owner.value.id });
    return written;
  }

  /** Deletes an entity or a group with its aliases and memberships. The tokens of a deleted entity are refused. */
  delete(namespace: string, kind: IdentityKind, key: IdentityKey): void {
    const row = this.#find<IdentityRow>(namespace, kind, key);
    if (row) this.commit(() => this.#erase(kind, row));
  }

  /** Deletes entities in one transaction. Unknown ids are ignored. */
  deleteEntities(namespace: string, ids: readonly string[]): void {
    const found = [...new Set(ids)].flatMap(
      (value) => this.#find<EntityRow>(namespace, "entity", { by: "id", value }) ?? [],
    );
    if (found.length === 0) return;
    this.commit(() => {
      for (const row of found) this.#erase("entity", row);
    });
  }

  #erase(kind: IdentityKind, { id, namespace }: IdentityRow): void {
    this.aliases.deleteOf(kind, id);
    this.sql.exec("DELETE FROM group_members WHERE kind = ? AND member = ?", kind, id);
    if (kind === "group") this.sql.exec("DELETE FROM group_members WHERE group_id = ?", id);
    else {
      this.sql.exec("DELETE FROM merged_entities WHERE entity = ?", id);
      this.entities.adjust(namespace, -1);
    }
    this.sql.exec(`DELETE FROM ${TABLES[kind]} WHERE id = ?`, id);
  }

  #find<Row extends Record<string, SqlStorageValue>>(
    namespace: string,
    kind: IdentityKind,
    query: IdentityQuery,
  ): Row | null {
    const key = isKey(query) ? query : this.#ownerOf(namespace, kind, query);
    if (!key) return null;
    const from = `SELECT * FROM ${TABLES[kind]} WHERE namespace = ?`;
    const { condition, order } = namedIn(TABLES[kind]);
    const rows =
      key.by === "id"
        ? this.sql.exec<Row>(`${from} AND id = ?`, namespace, key.value)
        : this.sql.exec<Row>(`${from} AND ${condition} ${order}`, namespace, key.value, key.value);
    return rows.toArray()[0] ?? null;
  }

  /** The entity or group of an alias. */
  #ownerOf(namespace: string, kind: IdentityKind, query: Exclude<IdentityQuery, IdentityKey>): IdentityKey | null {
    const alias =
      query.by === "alias"
        ? this.aliases.read(namespace, kind, query.value)
        : this.aliases.named(namespace, kind, query.accessor, query.value);
    return alias && { by: "id", value: alias.canonical };
  }

  /**
   * The row that a write changes, or the id and name of a new one. As upstream, a name without a key selects an entity,
   * and no group.
   */
  #select<Row extends IdentityRow>(
    namespace: string,
    kind: IdentityKind,
    key: IdentityKey | null,
    change: { readonly id?: string | undefined; readonly name?: string | undefined },
  ): Result<{ row: Row | null; id: string; name: string }> {
    const admitted = this.namespaces.admit(namespace);
    if (!admitted.ok) return admitted;
    const wanted = key ?? keyOf(kind, change);
    const row = wanted && this.#find<Row>(namespace, kind, wanted);
    if (wanted?.by === "id" && !row) return refuse("invalid", `id: there is no such ${kind}`);
    const id = row?.id ?? crypto.randomUUID();
    const named = key?.by === "name" ? key.value : change.name;
    // As upstream, another spelling of the name is no other name.
    const isSpelling = row !== null && named !== undefined && comparedName(named) === comparedName(row.name);
    const name = (isSpelling ? row.name : named) ?? row?.name ?? `${kind}_${id.slice(0, 8)}`;
    const other = this.#find<Row>(namespace, kind, { by: "name", value: name });
    if (other && other.id !== id) return refuse("invalid", `${kind} name is already in use`);
    if (!row && this.#number(namespace, kind) >= MAX_IDENTITIES[kind]) {
      return refuse("invalid", `${kind}: a namespace holds at most ${MAX_IDENTITIES[kind]}`);
    }
    return ok({ row, id, name });
  }

  #number(namespace: string, kind: IdentityKind): number {
    if (kind === "entity") return this.entities.number(namespace);
    const query = "SELECT count(*) AS held FROM groups WHERE namespace = ?";
    return this.sql.exec<{ held: number }>(query, namespace).one().held;
  }

  #refusedMembers(namespace: string, id: string, type: string, change: GroupChange): Refusal | null {
    const { member_entity_ids: entities, member_group_ids: groups } = change;
    if (type === "external" && (entities ?? groups)) {
      const field = entities ? "member_entity_ids" : "member_group_ids";
      return refuse("invalid", `${field}: the members of an external group follow the logins of its alias`);
    }
    const unknown = (kind: IdentityKind, ids: readonly string[]) =>
      ids.some((member) => !this.#find(namespace, kind, { by: "id", value: member }));
    if (unknown("entity", entities ?? [])) return refuse("invalid", "member_entity_ids: names an unknown entity");
    if (unknown("group", groups ?? [])) return refuse("invalid", "member_group_ids: names an unknown group");
    return groups && this.#reaches(groups, id)
      ? refuse("invalid", "member_group_ids: a group cannot contain itself, directly or through other groups")
      : null;
  }

  /** Whether one of `groups` is a group or contains it, at any depth. */
  #reaches(groups: readonly string[], id: string): boolean {
    const inside = column(
      this.sql,
      `WITH RECURSIVE inside (id) AS (
         SELECT value FROM json_each(?)
         UNION SELECT member FROM group_members JOIN inside ON group_id = inside.id WHERE kind = 'group')
       SELECT id FROM inside WHERE id = ?`,
      JSON.stringify(groups),
      id,
    );
    return inside.length > 0;
  }

  #setMembers(group: string, kind: IdentityKind, members: readonly string[] | null | undefined): void {
    if (!members) return;
    this.sql.exec("DELETE FROM group_members WHERE group_id = ? AND kind = ?", group, kind);
    for (const member of new Set(members)) {
      this.sql.exec("INSERT INTO group_members (group_id, kind, member) VALUES (?, ?, ?)", group, kind, member);
    }
  }
}

const isKey = (query: IdentityQuery): query is IdentityKey => query.by === "id" || query.by === "name";

const keyOf = (
  kind: IdentityKind,
  { id, name }: { readonly id?: string | undefined; readonly name?: string | undefined },
): IdentityKey | null => {
  if (id !== undefined) return { by: "id", value: id };
  return name === undefined || kind === "group" ? null : { by: "name", value: name };
};

const stored = (given: object | null | undefined, before: string): string => (given ? JSON.stringify(given) : before);

const shared = ({ id, name, policies, metadata, created, updated }: IdentityRow) => ({
  id,
  name,
  created,
  updated,
  policies: comparedPolicies(JSON.parse(policies) as string[]),
  metadata: JSON.parse(metadata) as Record<string, string>,
});
