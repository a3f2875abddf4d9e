import type { Result } from "../lib/result.ts";

/** Entities and groups, as `AccessControl` offers them to routes. Times are ms since 1970. */

export type IdentityKind = "entity" | "group";

/** Names an entity or a group of a namespace. */
export interface IdentityKey {
  readonly by: "id" | "name";
  readonly value: string;
}

/** Names an entity or a group directly, or by one of its aliases. */
export type IdentityQuery =
  | IdentityKey
  | { readonly by: "alias"; readonly value: string }
  | { readonly by: "alias name"; readonly value: string; readonly accessor: string };

/** A request to merge entities. */
export interface EntityMerge {
  readonly to_entity_id: string;
  readonly from_entity_ids: readonly string[];
  /** Of two aliases at one auth method, the one that stays. */
  readonly conflicting_alias_ids_to_keep: readonly string[];
}

/** Fields of an entity or a group in a request; absent fields keep their value. */
interface IdentityChange {
  readonly id?: string | undefined;
  readonly name?: string | undefined;
  readonly policies?: readonly string[] | null | undefined;
  readonly metadata?: Readonly<Record<string, string>> | null | undefined;
}

export interface EntityChange extends IdentityChange {
  readonly disabled?: boolean | undefined;
}

export interface GroupChange extends IdentityChange {
  readonly type?: "internal" | "external" | undefined;
  readonly member_entity_ids?: readonly string[] | null | undefined;
  readonly member_group_ids?: readonly string[] | null | undefined;
}

/** Fields of an alias in a request. With an id, absent fields keep their value. */
export interface AliasChange {
  readonly id?: string | undefined;
  readonly name?: string | undefined;
  readonly mount_accessor?: string | undefined;
  readonly canonical_id?: string | undefined;
  readonly custom_metadata?: Readonly<Record<string, string>> | null | undefined;
  readonly external_id?: string | undefined;
  readonly issuer?: string | undefined;
}

export interface AliasRecord {
  readonly id: string;
  /** The entity or group of the alias. */
  readonly canonical: string;
  readonly name: string;
  readonly accessor: string;
  readonly mountPath: string;
  readonly mountType: string;
  readonly metadata: Readonly<Record<string, string>>;
  /** That of the alias, and over it that of the role or user of the last login. */
  readonly customMetadata: Readonly<Record<string, string>>;
  /** The id at an external provider, and the provider; empty unless set. Without an effect here. */
  readonly externalId?: string;
  readonly issuer?: string;
  /** Ids of the merged entities that had the alias. */
  readonly mergedFrom: readonly string[];
  readonly created: number;
  readonly updated: number;
}

interface IdentityRecord {
  readonly id: string;
  readonly name: string;
  readonly policies: readonly string[];
  readonly metadata: Readonly<Record<string, string>>;
  readonly created: number;
  readonly updated: number;
  readonly aliases: readonly AliasRecord[];
}

export interface EntityRecord extends IdentityRecord {
  readonly disabled: boolean;
  /** Ids of the entities that were merged into this one. */
  readonly merged: readonly string[];
  readonly directGroups: readonly string[];
  readonly inheritedGroups: readonly string[];
}

export interface GroupRecord extends IdentityRecord {
  readonly type: string;
  readonly entities: readonly string[];
  readonly groups: readonly string[];
  readonly parents: readonly string[];
}

export interface IdentityWritten extends Pick<IdentityRecord, "id" | "name"> {
  readonly created: boolean;
}

/** The methods of `AccessControl` about identity. All apply to one namespace. */
export interface IdentityApi {
  /** Creates or changes an entity. Without a key, the body's id or name selects it. */
  writeEntity(namespace: string, key: IdentityKey | null, change: EntityChange): Promise<Result<IdentityWritten>>;
  /** Creates or changes a group. Without a key, the body's id or name selects it. */
  writeGroup(namespace: string, key: IdentityKey | null, change: GroupChange): Promise<Result<IdentityWritten>>;
  readEntity(namespace: string, query: IdentityQuery): EntityRecord | null;
  readGroup(namespace: string, query: IdentityQuery): GroupRecord | null;
  /** Ids and names, sorted by name. */
  listIdentities(namespace: string, kind: IdentityKind): { id: string; name: string }[];
  /** Deletes an entity or a group with its aliases and memberships. Idempotent. */
  deleteIdentity(namespace: string, kind: IdentityKind, key: IdentityKey): Promise<Result<null>>;
  /** Deletes entities with their aliases and memberships. Unknown ids are ignored. */
  deleteEntities(namespace: string, ids: readonly string[]): Promise<Result<null>>;
  /** Moves aliases and memberships of entities to another one, and deletes those entities. Their tokens stay valid. */
  mergeEntities(namespace: string, merge: EntityMerge): Promise<Result<null>>;
  /** Creates an alias, changes the one with the id, or moves the existing one of the same mount and name. */
  writeIdentityAlias(namespace: string, kind: IdentityKind, change: AliasChange): Promise<Result<AliasRecord>>;
  readIdentityAlias(namespace: string, kind: IdentityKind, id: string): AliasRecord | null;
  listIdentityAliases(namespace: string, kind: IdentityKind): AliasRecord[];
  /** Deletes an alias. Idempotent. */
  deleteIdentityAlias(namespace: string, kind: IdentityKind, id: string): Promise<Result<null>>;
  /** Counts the entities of all namespaces. */
  countEntities(): number;
}
