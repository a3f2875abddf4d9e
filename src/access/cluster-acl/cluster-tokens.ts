import type { AclToken, AclTokenPage, ClusterTokenBody } from "../../contracts/tokens.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import { NOTHING } from "../../platform/durable/object-context.ts";
import type { AccessPublisher } from "../event-publisher.ts";
import type { TokenRow } from "../tokens/token.ts";
import { isWrapping } from "../tokens/token.ts";
import { roleColumn, type TokenRules } from "../tokens/token-rules.ts";
import type { TokenSecrets } from "../tokens/token-secrets.ts";
import type { TokenStore } from "../tokens/token-store.ts";
import { aclToken, tokenUpserted } from "./cluster-acl.ts";
import type { ClusterRoles } from "./cluster-roles.ts";

interface Origin {
  readonly path: string;
  readonly readable: boolean;
}

const BY_REQUEST: Origin = { path: "v1/acl/token", readable: true };

/** Creates, changes and lists tokens for the cluster API, which shows the tokens of all APIs. */
export class ClusterTokens {
  constructor(
    private readonly store: TokenStore,
    private readonly rules: TokenRules,
    private readonly secrets: TokenSecrets,
    private readonly publisher: AccessPublisher,
    private readonly roles: ClusterRoles,
  ) {}

  /**
   * Creates a token. As upstream, a request that names both ids of a client token uploads it.
   * @param origin the path that the token shows, and whether management may read its secret
   * @throws Sealed
   */
  create(request: ClusterTokenBody, origin: Origin = BY_REQUEST): Result<{ accessor: string; secret: string }> {
    const roles = this.roles.resolve(request.Roles ?? []);
    if (!roles.ok) return roles;
    const draft = this.rules.draftCluster(request, roles.value, origin.path, Date.now());
    if (!draft.ok) return draft;
    const ids = this.#ids(request);
    if (!ids.ok) return ids;
    const { accessor, secret } = ids.value;
    const token = { ...draft.value, accessor, secret: origin.readable ? this.secrets.seal(accessor, secret) : null };
    // No reader has presented a random secret before. An uploaded one may be known as invalid.
    const changes = request.SecretID ? [this.store.hashOf(secret)] : NOTHING;
    this.publisher.commit(() => {
      const row = this.store.insert(secret, token);
      this.publisher.emit([tokenUpserted(row, this.roles.of(row).links)], [{ token: accessor }]);
    }, changes);
    return ok({ accessor, secret });
  }

  /** The ids of a new token: those of the request, which must be UUIDs that no token has or had, or new ones. */
  #ids({ AccessorID, SecretID, Type }: ClusterTokenBody): Result<{ accessor: string; secret: string }> {
    if (!AccessorID && SecretID) return refuse("invalid", "SecretID: must not be set without AccessorID");
    if (!AccessorID) return ok({ accessor: crypto.randomUUID(), secret: crypto.randomUUID() });
    const secret = SecretID ?? "";
    // An expired token is a row until it is deleted.
    const isTaken = this.store.byAccessor(AccessorID, 0, true) ?? this.store.find(secret, 0, true);
    if (isTaken || Type === "management" || !isUuid(AccessorID) || !isUuid(secret)) {
      return refuse("invalid", `cannot find token ${AccessorID.slice(0, 64)}`);
    }
    return ok({ accessor: AccessorID, secret });
  }

  /**
   * Changes name, type, policies and roles. Expiry and `Global` are fixed at creation: as upstream, another value is
   * refused.
   */
  async update(accessor: string, request: ClusterTokenBody): Promise<Result<AclToken>> {
    const row = this.store.byAccessor(accessor, Date.now());
    if (!row || row.family === "batch") return refuse("invalid", `cannot find token ${accessor}`);
    const fixed = fixedFieldChange(row, request);
    if (fixed !== null) return refuse("invalid", `token 0 invalid: ${fixed}`);
    const roles = this.roles.resolve(request.Roles ?? []);
    if (!roles.ok) return roles;
    const policies = this.rules.clusterPolicies(request, roles.value);
    if (!policies.ok) return policies;
    const next = {
      ...row,
      name: request.Name,
      policies: JSON.stringify(policies.value),
      roles: roleColumn(roles.value),
    };
    this.publisher.commit(() => {
      this.store.update(next);
      this.publisher.emit([tokenUpserted(next, this.roles.of(next).links)], [{ token: accessor }]);
    }, [row.hash]);
    await this.publisher.published();
    return this.read(accessor);
  }

  /** @param reveal include the token's secret if one is stored. @throws Sealed */
  read(accessor: string, reveal = false): Result<AclToken> {
    const row = this.store.byAccessor(accessor, Date.now(), true);
    if (!row) return refuse("missing", "ACL token not found");
    return ok(aclToken(row, reveal ? this.secrets.reveal(row) : "", this.roles.of(row).links));
  }

  /** A new token, with its secret. @throws Sealed */
  withSecret({ accessor, secret }: { readonly accessor: string; readonly secret: string }): Result<AclToken> {
    const token = this.read(accessor);
    return token.ok ? ok({ ...token.value, SecretID: secret }) : token;
  }

  /** One page of tokens, sorted by accessor. */
  list(prefix: string, from: string, limit: number, onlyGlobal: boolean): AclTokenPage {
    const { rows, next } = this.store.page(Date.now(), { from, limit, prefix, global: onlyGlobal ? 1 : null });
    const shown = rows.filter((row) => !isWrapping(row));
    return { tokens: shown.map((row) => aclToken(row, "", this.roles.of(row).links)), next };
  }
}

/** The refusal of a change to a field that is fixed at creation; null for none. */
function fixedFieldChange(row: TokenRow, { Global, ExpirationTTL, ExpirationTime }: ClusterTokenBody): string | null {
  if (typeof Global === "boolean" && Global !== (row.global === 1)) return "cannot toggle global mode";
  // Go clients send the zero value for an omitted field.
  const ttl = ExpirationTTL ?? 0;
  if (ttl !== 0 && ttl !== row.ttl) return "cannot update expiration TTL";
  const isZeroTime = /^0001-01-01T00:00:00/.test(ExpirationTime ?? "");
  if (ExpirationTime && !isZeroTime && Date.parse(ExpirationTime) !== row.expires) {
    return "cannot update expiration time";
  }
  return null;
}

const isUuid = (text: string): boolean => /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(text);
