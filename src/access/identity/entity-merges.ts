import type { AliasRecord, EntityMerge } from "../../contracts/identity.ts";
import { ok, type Refusal, type Result, refuse } from "../../lib/result.ts";
import type { ObjectContext } from "../../platform/durable/object-context.ts";
import type { Entities } from "./entities.ts";
import type { IdentityAliases } from "./identity-aliases.ts";

/** Aliases that move to the remaining entity, and aliases that a merge deletes. */
interface Plan {
  readonly moved: readonly AliasRecord[];
  readonly deleted: readonly AliasRecord[];
}

/**
 * Merges entities (https://openbao.org/api-docs/secret/identity/entity/#merge-entities): aliases and memberships move
 * to the remaining entity, the others are deleted with their policies and metadata. Tokens of deleted entities belong to
 * the remaining one from then on.
 */
export class EntityMerges {
  constructor(
    private readonly sql: SqlStorage,
    private readonly entities: Entities,
    private readonly aliases: IdentityAliases,
    private readonly commit: ObjectContext["commit"],
  ) {}

  /** Merges in one transaction. Error texts are upstream's. */
  merge(namespace: string, merge: EntityMerge): Result<null> {
    const { to_entity_id: to, conflicting_alias_ids_to_keep: kept } = merge;
    const from = [...new Set(merge.from_entity_ids)];
    if (from.includes(to)) return refuse("invalid", "to_entity_id should not be present in from_entity_ids");
    if (!this.#has(namespace, to)) return refuse("invalid", "entity id to merge to is invalid");
    if (!from.every((id) => this.#has(namespace, id))) return refuse("invalid", "entity id to merge from is invalid");
    if (from.length > 1 && kept.length > 1) return refuse("invalid", ONE_AT_A_TIME);
    const plan = planOf(
      this.aliases.of("entity", to),
      from.flatMap((id) => this.aliases.of("entity", id)),
      new Set(kept),
    );
    if (!plan.ok) return plan;
    this.commit(() => {
      const now = Date.now();
      for (const { id } of plan.value.deleted) this.sql.exec("DELETE FROM entity_aliases WHERE id = ?", id);
      for (const { id, canonical, mergedFrom } of plan.value.moved) {
        const before = JSON.stringify([...mergedFrom, canonical]);
        const change = "UPDATE entity_aliases SET entity = ?, merged_from = ?, updated = ? WHERE id = ?";
        this.sql.exec(change, to, before, now, id);
      }
      for (const id of from) this.#absorb(id, to);
      this.entities.adjust(namespace, -from.length);
      this.sql.exec("UPDATE entities SET updated = ? WHERE id = ?", now, to);
    });
    return ok(null);
  }

  /** Moves memberships and tokens of an entity without aliases, and deletes it. */
  #absorb(from: string, to: string): void {
    this.sql.exec(
      `INSERT OR IGNORE INTO group_members (group_id, kind, member)
       SELECT group_id, 'entity', ? FROM group_members WHERE kind = 'entity' AND member = ?`,
      to,
      from,
    );
    this.sql.exec("DELETE FROM group_members WHERE kind = 'entity' AND member = ?", from);
    this.sql.exec("UPDATE merged_entities SET entity = ? WHERE entity = ?", to, from);
    this.sql.exec("INSERT INTO merged_entities (id, entity) VALUES (?, ?)", from, to);
    this.sql.exec("DELETE FROM entities WHERE id = ?", from);
  }

  #has(namespace: string, id: string): boolean {
    const query = "SELECT id FROM entities WHERE namespace = ? AND id = ?";
    return this.sql.exec(query, namespace, id).toArray().length > 0;
  }
}

const ONE_AT_A_TIME = "aliases conflicts cannot be resolved with multiple from entity ids - merge one entity at a time";

/** An entity has at most one alias at an auth method: of two, the one to keep is named. */
function planOf(to: readonly AliasRecord[], from: readonly AliasRecord[], kept: ReadonlySet<string>): Result<Plan> {
  const deleted: AliasRecord[] = [];
  const moved: AliasRecord[] = [];
  const clashes: string[] = [];
  for (const alias of from) {
    const { accessor, canonical, id } = alias;
    if (from.some((other) => other.accessor === accessor && other.canonical !== canonical)) return twice(accessor);
    const mine = to.find((other) => other.accessor === accessor);
    if (mine && !kept.has(mine.id) && !kept.has(id)) {
      clashes.push(
        `mountAccessor: ${accessor}, toEntity ID: ${mine.canonical}, fromEntity ID: ${canonical}, conflicting toEntity alias ID: ${mine.id}, conflicting fromEntity alias ID: ${id}`,
      );
    } else if (mine && kept.has(mine.id)) deleted.push(alias);
    else {
      if (mine) deleted.push(mine);
      moved.push(alias);
    }
  }
  if (clashes.length === 0) return ok({ moved, deleted });
  return kept.size > 0
    ? refuse("invalid", `conflicting_alias_ids_to_keep: must name one alias of each conflict: ${clashes.join("; ")}`)
    : refuse("invalid", `${CLASH}: ${clashes.join("; ")}`);
}

const CLASH =
  "toEntity and at least one fromEntity have aliases with the same mount accessor, repeat the merge request specifying exactly one fromEntity, clashes";

const twice = (accessor: string): Refusal =>
  refuse(
    "invalid",
    `mount accessor ${accessor} found in multiple fromEntities, merge should be done with one fromEntity at a time`,
  );
