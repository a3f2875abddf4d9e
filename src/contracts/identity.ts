import type { Result } from "../lib/result.ts";

/** Entities and groups, as `AccessControl` offers them to routes. Times are ms since 1970. */

export type IdentityKind = "entity" | "group";

/** Names an entity or a group of a namespace. */
export interface IdentityKey {
  readonly by: "id" | "name";
  readonly value: string;
}

/** Fields of an entity in a request; absent fields keep their value. */
export interface EntityChange {
  readonly id?: string | undefined;
  readonly name?: string | undefined;
  readonly policies?: readonly string[] | null | undefined;
  readonly metadata?: Readonly<Record<string, string>> | null | undefined;
  readonly disabled?: boolean | undefined;
}

/** Fields of a group in a request; absent fields keep their value. */
export interface GroupChange {
  readonly id?: string | undefined;
  readonly name?: string | undefined;
  readonly type?: "internal" | "external" | undefined;
  readonly policies?: readonly string[] | null | undefined;
  readonly metadata?: Readonly<Record<string, string>> | null | undefined;
  readonly member_entity_ids?: readonly string[] | null | undefined;
  readonly member_group_ids?: readonly string[] | null | undefined;
}

/** Fields of an alias in a request. */
export interface AliasChange {
  readonly name: string;
  readonly mount_accessor: string;
  readonly canonical_id: string;
  readonly custom_metadata?: Readonly<Record<string, string>> | null | undefined;
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
  readonly customMetadata: Readonly<Record<string, string>>;
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
  readonly directGroups: readonly string[];
  readonly inheritedGroups: readonly string[];
}

export interface GroupRecord extends IdentityRecord {
  readonly type: string;
  readonly entities: readonly string[];
  readonly groups: readonly string[];
  readonly parents: readonly string[];
}

export interface IdentityWritten {
  readonly id: string;
  readonly name: string;
  readonly created: boolean;
}

/** The methods of `AccessControl` about identity. All apply to one namespace. */
export interface IdentityApi {
  /** Creates or changes an entity. Without a key, the body's id or name selects it. */
  writeEntity(namespace: string, key: IdentityKey | null, change: EntityChange): Result<IdentityWritten>;
  /** Creates or changes a group. Without a key, the body's id or name selects it. */
  writeGroup(namespace: string, key: IdentityKey | null, change: GroupChange): Result<IdentityWritten>;
  readEntity(namespace: string, key: IdentityKey): EntityRecord | null;
  readGroup(namespace: string, key: IdentityKey): GroupRecord | null;
  /** Ids and names, sorted by name. */
  listIdentities(namespace: string, kind: IdentityKind): { id: string; name: string }[];
  /** Deletes an entity or a group with its aliases and memberships. Idempotent. */
  deleteIdentity(namespace: string, kind: IdentityKind, key: IdentityKey): Result<null>;
  /** Creates an alias, or moves the existing one of the same mount and name. @returns the alias's id */
  writeIdentityAlias(namespace: string, kind: IdentityKind, change: AliasChange): Result<string>;
  readIdentityAlias(namespace: string, kind: IdentityKind, id: string): AliasRecord | null;
  listIdentityAliases(namespace: string, kind: IdentityKind): AliasRecord[];
  /** Deletes an alias. Idempotent. */
  deleteIdentityAlias(namespace: string, kind: IdentityKind, id: string): Result<null>;
}
