import type {
  AliasChange,
  AliasRecord,
  EntityChange,
  EntityMerge,
  EntityRecord,
  GroupChange,
  GroupRecord,
  IdentityApi,
  IdentityKey,
  IdentityKind,
  IdentityQuery,
  IdentityWritten,
} from "../../contracts/identity.ts";
import { ok, type Result } from "../../lib/result.ts";
import type { Entities } from "../identity/entities.ts";
import type { EntityMerges } from "../identity/entity-merges.ts";
import type { IdentityAdmin } from "../identity/identity-admin.ts";
import type { IdentityAliases } from "../identity/identity-aliases.ts";
import type { PublishedChanges } from "../published-changes.ts";

/** RPC methods about entities, groups and their aliases. */
export class IdentityMethods implements IdentityApi {
  readonly #identities: IdentityAdmin;
  readonly #aliases: IdentityAliases;
  readonly #merges: EntityMerges;
  readonly #entities: Entities;
  readonly #changes: PublishedChanges;

  constructor(
    identities: IdentityAdmin,
    aliases: IdentityAliases,
    merges: EntityMerges,
    entities: Entities,
    changes: PublishedChanges,
  ) {
    this.#identities = identities;
    this.#aliases = aliases;
    this.#merges = merges;
    this.#entities = entities;
    this.#changes = changes;
  }

  writeEntity(namespace: string, key: IdentityKey | null, change: EntityChange): Promise<Result<IdentityWritten>> {
    return this.#changes.publish(() => this.#identities.writeEntity(namespace, key, change));
  }

  writeGroup(namespace: string, key: IdentityKey | null, change: GroupChange): Promise<Result<IdentityWritten>> {
    return this.#changes.publish(() => this.#identities.writeGroup(namespace, key, change));
  }

  readEntity(namespace: string, query: IdentityQuery): EntityRecord | null {
    return this.#identities.readEntity(namespace, query);
  }

  readGroup(namespace: string, query: IdentityQuery): GroupRecord | null {
    return this.#identities.readGroup(namespace, query);
  }

  listIdentities(namespace: string, kind: IdentityKind): { id: string; name: string }[] {
    return this.#identities.list(namespace, kind);
  }

  deleteIdentity(namespace: string, kind: IdentityKind, key: IdentityKey): Promise<Result<null>> {
    return this.#changes.publish(() => {
      this.#identities.delete(namespace, kind, key);
      return ok(null);
    });
  }

  deleteEntities(namespace: string, ids: readonly string[]): Promise<Result<null>> {
    return this.#changes.publish(() => {
      this.#identities.deleteEntities(namespace, ids);
      return ok(null);
    });
  }

  mergeEntities(namespace: string, merge: EntityMerge): Promise<Result<null>> {
    return this.#changes.publish(() => this.#merges.merge(namespace, merge));
  }

  writeIdentityAlias(namespace: string, kind: IdentityKind, change: AliasChange): Promise<Result<AliasRecord>> {
    return this.#changes.publish(() => this.#identities.writeAlias(namespace, kind, change));
  }

  readIdentityAlias(namespace: string, kind: IdentityKind, id: string): AliasRecord | null {
    return this.#aliases.read(namespace, kind, id);
  }

  listIdentityAliases(namespace: string, kind: IdentityKind): AliasRecord[] {
    return this.#aliases.list(namespace, kind);
  }

  deleteIdentityAlias(namespace: string, kind: IdentityKind, id: string): Promise<Result<null>> {
    return this.#changes.publish(() => {
      this.#aliases.delete(namespace, kind, id);
      return ok(null);
    });
  }

  countEntities(): number {
    return this.#entities.count();
  }
}
