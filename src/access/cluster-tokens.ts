import { ok, type Result, refuse } from "../result.ts";
import { type AclToken, aclToken, tokenUpserted } from "./cluster-acl.ts";
import type { Journal } from "./journal.ts";
import type { ClusterTokenRequest } from "./token.ts";
import type { TokenRules } from "./token-rules.ts";
import type { TokenStore } from "./token-store.ts";

export interface AclTokenPage {
  readonly tokens: AclToken[];
  /** Where the following page starts. */
  readonly next: string | null;
}

/** Tokens as areas C and D make, change and list them. They see all tokens, whoever made them. */
export class ClusterTokens {
  readonly #store: TokenStore;
  readonly #rules: TokenRules;
  readonly #journal: Journal;

  constructor(store: TokenStore, rules: TokenRules, journal: Journal) {
    this.#store = store;
    this.#rules = rules;
    this.#journal = journal;
  }

  /** @returns the secret, which nothing shows again. @throws Sealed */
  create(request: ClusterTokenRequest): Result<{ accessor: string; secret: string }> {
    const draft = this.#rules.draftCluster(request, "v1/acl/token", Date.now());
    if (!draft.ok) return draft;
    const secret = crypto.randomUUID();
    const accessor = this.#journal.commit(() => {
      const row = this.#store.insert(secret, draft.value);
      this.#journal.emit([tokenUpserted(row)], [{ token: row.accessor }]);
      return row.accessor;
    });
    return ok({ accessor, secret });
  }

  /** Changes name, type and policies; a token's expiry stays as it was made. */
  async update(accessor: string, request: ClusterTokenRequest): Promise<Result<AclToken>> {
    const row = this.#store.byAccessor(accessor, Date.now());
    if (!row) return refuse("invalid", `cannot find token ${accessor}`);
    const policies = this.#rules.clusterPolicies(request);
    if (!policies.ok) return policies;
    const next = {
      ...row,
      name: request.Name,
      policies: JSON.stringify(policies.value),
      global: request.Global ? 1 : 0,
    };
    this.#journal.commit(() => {
      this.#store.update(next);
      this.#journal.emit([tokenUpserted(next)], [{ token: accessor }]);
    });
    await this.#journal.published();
    return this.read(accessor);
  }

  read(accessor: string, secret = ""): Result<AclToken> {
    const row = this.#store.byAccessor(accessor, Date.now(), true);
    return row ? ok(aclToken(row, secret)) : refuse("missing", "ACL token not found");
  }

  /** One page of tokens, by accessor. */
  list(prefix: string, from: string, limit: number, onlyGlobal: boolean): AclTokenPage {
    const { rows, next } = this.#store.page(Date.now(), { from, limit, prefix, global: onlyGlobal ? 1 : null });
    return { tokens: rows.map((row) => aclToken(row)), next };
  }
}
