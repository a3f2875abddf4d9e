import { memo } from "../../lib/memo.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import { comparedPolicies } from "../../rights/policy-names.ts";
import type { TemplateSubject } from "../paths/path-templates.ts";
import { comparedName, namedIn } from "./name-case.ts";

/** A row of an entity or of a group. */
export interface IdentityRow extends Record<string, SqlStorageValue> {
  id: string;
  namespace: string;
  name: string;
  policies: string;
  metadata: string;
  created: number;
  updated: number;
}

export interface EntityRow extends IdentityRow {
  disabled: number;
}

/** A caller's name at an auth mount. */
interface SignIn {
  readonly namespace: string;
  /** The accessor of the auth mount. */
  readonly mount: string;
  readonly name: string;
  readonly metadata: Readonly<Record<string, string>>;
  /** `alias_metadata` of the role or user: custom metadata of the alias until the next login. */
  /** Undefined: as it is. */
  readonly roleMetadata: Readonly<Record<string, string>> | undefined;
  /** Names of external groups, by the caller's credentials. */
  readonly groups: readonly string[];
}

/**
 * Entities of a namespace beyond which logins create no more: a claim that differs at each login would fill the object
 * that all tokens share. Administrators may create further ones.
 */
export const MAX_LOGIN_ENTITIES = 50_000;
const TOO_MANY = `entity: the namespace holds ${MAX_LOGIN_ENTITIES} entities, and logins create no more; does the alias, such as the claim in user_claim, differ at each login?`;

/**
 * Entities, their aliases at auth mounts, and groups (https://developer.hashicorp.com/vault/docs/concepts/identity). An
 * entity is created by the first login of an alias. Writes run inside the object's transaction.
 */
export class Entities {
  /** Numbers of entities by namespace, of those that were counted. */
  readonly #held = new Map<string, number>();

  constructor(private readonly sql: SqlStorage) {}

  /** Drops the cached numbers of entities, after a rollback. */
  forget(): void {
    this.#held.clear();
  }

  /** The number of entities of a namespace. Counts them once. */
  number(namespace: string): number {
    const known = this.#held.get(namespace);
    if (known !== undefined) return known;
    const query = "SELECT count(*) AS n FROM entities WHERE namespace = ?";
    const { n } = this.sql.exec<{ n: number }>(query, namespace).one();
    this.#held.set(namespace, n);
    return n;
  }

  /** Adjusts the number of entities of a namespace, in the transaction that creates or deletes some. */
  adjust(namespace: string, by: number): void {
    const known = this.#held.get(namespace);
    if (known !== undefined) this.#held.set(namespace, known + by);
  }

  /** The number of entities, of all namespaces. */
  count(): number {
    return this.sql.exec<{ n: number }>("SELECT count(*) AS n FROM entities").one().n;
  }

  /** The entity with an id, or the one that it was merged into. */
  get(id: string): EntityRow | null {
    const query = `SELECT * FROM entities WHERE id = ?
      UNION ALL SELECT entities.* FROM entities JOIN merged_entities ON entities.id = entity WHERE merged_entities.id = ?`;
    return this.sql.exec<EntityRow>(query, id, id).toArray()[0] ?? null;
  }

  /**
   * The entity of a caller, created on its first login. Updates the alias and the memberships in external groups.
   * @returns the entity's id, and whether the rights of its earlier tokens may have changed; a refusal while it is
   * disabled, or another entity whose alias differs in letter case only
   */
  signIn(
    { namespace, mount, name, metadata, roleMetadata, groups }: SignIn,
    now: number,
  ): Result<{ id: string; hasOtherRights: boolean }> {
    const aliases = this.#aliasesNamed(mount, name);
    const [alias] = aliases;
    const text = JSON.stringify(metadata);
    const ofRole = roleMetadata ? JSON.stringify(roleMetadata) : (alias?.role_metadata ?? "{}");
    const isAsBefore = alias?.metadata === text && alias.role_metadata === ofRole;
    if (!alias && this.number(namespace) >= MAX_LOGIN_ENTITIES) return refuse("invalid", TOO_MANY);
    if (!aliases.every(({ entity }) => this.isActive(entity))) return disabled();
    const entity = alias?.entity ?? this.#create(namespace, now);
    if (!alias) {
      this.sql.exec(
        `INSERT INTO entity_aliases (id, entity, mount, name, metadata, role_metadata, custom_metadata, created, updated)
         VALUES (?, ?, ?, ?, ?, ?, '{}', ?, ?)`,
        crypto.randomUUID(),
        entity,
        mount,
        name,
        text,
        ofRole,
        now,
        now,
      );
    } else if (!isAsBefore) {
      const change = "UPDATE entity_aliases SET metadata = ?, role_metadata = ?, updated = ? WHERE id = ?";
      this.sql.exec(change, text, ofRole, now, alias.id);
    }
    const isOfOtherGroups = this.#joinExternalGroups(entity, mount, groups);
    const hasOtherRights = alias !== undefined && (!isAsBefore || isOfOtherGroups);
    return ok({ id: entity, hasOtherRights });
  }

  /** Whether an entity exists and is not disabled. */
  isActive(id: string): boolean {
    return this.get(id)?.disabled === 0;
  }

  /**
   * Policies of an entity and of its groups, nested groups included; without `root`. Older rows hold names as they were
   * sent. Empty for a disabled entity, and in another namespace than the entity's, where the same name is another policy.
   * @param namespace of the token
   */
  policiesOf(id: string, namespace: string): string[] {
    const entity = this.#activeIn(id, namespace);
    if (!entity) return [];
    const all = [entity.policies, ...this.groupsOf(entity.id).map(({ policies }) => policies)];
    const names = all.flatMap((policies) => JSON.parse(policies) as string[]);
    return comparedPolicies(names)
      .filter((name) => name !== "root")
      .sort();
  }

  /** The groups that an entity is in, directly or through other groups; each is visited once. */
  groupsOf(id: string): { id: string; name: string; policies: string; metadata: string }[] {
    return this.sql
      .exec<{ id: string; name: string; policies: string; metadata: string }>(
        `WITH RECURSIVE within (id) AS (
           SELECT group_id FROM group_members WHERE kind = 'entity' AND member = ?
           UNION SELECT group_members.group_id FROM group_members JOIN within
             ON group_members.kind = 'group' AND group_members.member = within.id)
         SELECT groups.id, name, policies, metadata FROM groups JOIN within ON groups.id = within.id
         ORDER BY name`,
        id,
      )
      .toArray();
  }

  /**
   * The entity of a token, for templates of policies; null for a disabled one, and in another namespace, where equal
   * names belong to others.
   * @param namespace of the token
   */
  templateSubject(id: string, namespace: string): TemplateSubject | null {
    const entity = id === "" ? null : this.#activeIn(id, namespace);
    if (!entity) return null;
    // A merged entity is the one that it was merged into.
    const { id: current, name } = entity;
    // Read on demand: the templates of the policy `default` name the entity only.
    const aliases = memo(() => this.#aliasesOf(current));
    const groups = memo(() => this.groupsOf(current).map((group) => ({ ...group, metadata: mapOf(group.metadata) })));
    return {
      id: current,
      name,
      metadata: mapOf(entity.metadata),
      get aliases() {
        return aliases();
      },
      get groups() {
        return groups();
      },
    };
  }

  #aliasesOf(entity: string): TemplateSubject["aliases"] {
    return this.sql
      .exec<Record<"id" | "accessor" | "name" | "metadata" | "role_metadata" | "custom_metadata", string>>(
        `SELECT id, mount AS accessor, name, metadata, role_metadata, custom_metadata FROM entity_aliases
         WHERE entity = ?`,
        entity,
      )
      .toArray()
      .map(({ custom_metadata: custom, role_metadata: ofRole, metadata, ...alias }) => ({
        ...alias,
        metadata: mapOf(metadata),
        customMetadata: { ...mapOf(custom), ...mapOf(ofRole) },
      }));
  }

  /** Deletes the aliases at an auth mount that is gone, with the memberships that follow them; entities stay. */
  deleteAliasesOf(mount: string): void {
    this.sql.exec(
      "DELETE FROM group_members WHERE group_id IN (SELECT group_id FROM group_aliases WHERE mount = ?)",
      mount,
    );
    this.sql.exec("DELETE FROM entity_aliases WHERE mount = ?", mount);
    this.sql.exec("DELETE FROM group_aliases WHERE mount = ?", mount);
  }

  /** Deletes the entities and groups of a namespace. */
  deleteNamespace(namespace: string): void {
    const entities = "SELECT id FROM entities WHERE namespace = ?";
    const groups = "SELECT id FROM groups WHERE namespace = ?";
    this.sql.exec(`DELETE FROM group_members WHERE group_id IN (${groups})`, namespace);
    this.sql.exec(`DELETE FROM group_members WHERE kind = 'entity' AND member IN (${entities})`, namespace);
    this.sql.exec(`DELETE FROM group_aliases WHERE group_id IN (${groups})`, namespace);
    this.sql.exec(`DELETE FROM entity_aliases WHERE entity IN (${entities})`, namespace);
    this.sql.exec(`DELETE FROM merged_entities WHERE entity IN (${entities})`, namespace);
    this.sql.exec("DELETE FROM groups WHERE namespace = ?", namespace);
    this.sql.exec("DELETE FROM entities WHERE namespace = ?", namespace);
    this.#held.delete(namespace);
  }

  #activeIn(id: string, namespace: string): EntityRow | null {
    const entity = this.get(id);
    return entity?.disabled === 0 && entity.namespace === namespace ? entity : null;
  }

  #aliasesNamed(mount: string, name: string) {
    const { condition, order } = namedIn("entity_aliases");
    const query = `SELECT id, entity, metadata, role_metadata FROM entity_aliases WHERE mount = ? AND ${condition} ${order}`;
    return this.sql
      .exec<Record<"id" | "entity" | "metadata" | "role_metadata", string>>(query, mount, name, name)
      .toArray();
  }

  /** @returns the id of the new entity */
  #create(namespace: string, now: number): string {
    const id = crypto.randomUUID();
    this.sql.exec(
      `INSERT INTO entities (id, namespace, name, policies, metadata, disabled, created, updated)
       VALUES (?, ?, ?, '[]', '{}', 0, ?, ?)`,
      id,
      namespace,
      `entity_${id.slice(0, 8)}`,
      now,
      now,
    );
    this.adjust(namespace, 1);
    return id;
  }

  /**
   * Makes an entity a member of exactly those external groups of an auth mount that its credentials name.
   * @returns whether it joined or left one
   */
  #joinExternalGroups(entity: string, mount: string, names: readonly string[]): boolean {
    const aliases = this.sql
      .exec<{ group_id: string; name: string }>(
        "SELECT group_id, name FROM group_aliases WHERE mount = ? ORDER BY created, id",
        mount,
      )
      .toArray();
    const named = new Set(names.map((name) => aliasFor(name, aliases)?.group_id));
    let changed = 0;
    for (const { group_id } of aliases) {
      const change = named.has(group_id)
        ? "INSERT OR IGNORE INTO group_members (group_id, kind, member) VALUES (?, 'entity', ?) RETURNING 1"
        : "DELETE FROM group_members WHERE group_id = ? AND kind = 'entity' AND member = ? RETURNING 1";
      changed += this.sql.exec(change, group_id, entity).toArray().length;
    }
    return changed > 0;
  }
}

/** The alias of a name: that of its own spelling, else the first. */
const aliasFor = <Alias extends { readonly name: string }>(name: string, aliases: readonly Alias[]) =>
  aliases.find((alias) => alias.name === name) ??
  aliases.find((alias) => comparedName(alias.name) === comparedName(name));

const disabled = () => refuse("denied", "permission denied: the entity is disabled");

const mapOf = (json: string) => JSON.parse(json) as Readonly<Record<string, string>>;
