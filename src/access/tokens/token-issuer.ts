import { type Authed, TOO_LONG_BATCH_TOKEN, type TokenBody, type TokenKind } from "../../contracts/tokens.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import { NOTHING } from "../../platform/durable/object-context.ts";
import { tokenUpserted } from "../cluster-acl/cluster-acl.ts";
import type { AccessPublisher } from "../event-publisher.ts";
import { type NamespaceTree, namespaceMissing } from "../namespaces/namespaces.ts";
import type { TokenRoles } from "./token-roles.ts";
import type { TokenRules } from "./token-rules.ts";
import type { TokenStore } from "./token-store.ts";

/** Creates tokens for the secrets API. A token and its event are one transaction. */
export class TokenIssuer {
  constructor(
    private readonly store: TokenStore,
    private readonly rules: TokenRules,
    private readonly namespaces: NamespaceTree,
    private readonly roles: TokenRoles,
    private readonly publisher: AccessPublisher,
  ) {}

  /** @throws Sealed */
  create(caller: string, namespace: string, path: string, request: TokenBody, kind: TokenKind): Result<Authed> {
    const now = Date.now();
    const parent = this.store.byAccessor(caller, now, true);
    if (!parent) return refuse("denied", "permission denied");
    if (parent.family === "batch") return refuse("invalid", "batch tokens cannot create more tokens");
    if (!this.namespaces.has(namespace)) return namespaceMissing(namespace);
    const role = kind.role === null ? null : this.roles.get(namespace, kind.role);
    if (kind.role !== null && !role) return refuse("invalid", `unknown role ${kind.role}`);
    const draft = this.rules.draft(parent, namespace, path, request, { orphan: kind.orphan, role }, now);
    if (!draft.ok) return draft;
    const { secret, token, warnings } = draft.value;
    // No reader has presented a random secret before. A chosen one may be known as invalid, and an alias may add rights.
    const isNew = !request.id && !request.entity_alias;
    return this.publisher.commit(
      () => {
        const entity = request.entity_alias
          ? this.rules.entityOfAlias(namespace, request.entity_alias, now)
          : ok(token.entity_id ?? "");
        if (!entity.ok) return entity;
        const drafted = { ...token, entity_id: entity.value };
        if (token.family === "batch") {
          const sealed = this.store.seal(drafted, token.parent ? parent.accessor : null, now);
          if (!sealed) return refuse("invalid", TOO_LONG_BATCH_TOKEN);
          return ok({ auth: this.rules.authBlock(sealed.row, sealed.secret, now), warnings });
        }
        const row = this.store.insert(secret, drafted);
        this.publisher.emit([tokenUpserted(row)], [{ token: row.accessor }]);
        return ok({ auth: this.rules.authBlock(row, secret, now), warnings });
      },
      isNew ? NOTHING : null,
    );
  }
}
