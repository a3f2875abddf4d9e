import type { ClusterTokenRequest, TokenRequest } from "../access/token.ts";
import type { Capability } from "../contracts/policies.ts";
import type { AclToken, AclTokenPage, Authed, TokenName, Wish } from "../contracts/tokens.ts";
import { ok, type Result, refuse } from "../lib/result.ts";
import { refuseIfSealed } from "../platform/crypto/refuse-if-sealed.ts";
import { StoredObject } from "../platform/durable/stored-object.ts";
import { settings } from "../platform/settings.ts";
import type { AccessParts } from "./access-parts.ts";

/** What of `AccessControl` is about tokens: its parts decide, this is their surface. */
export abstract class TokenSurface extends StoredObject {
  protected abstract readonly parts: AccessParts;

  createToken(
    caller: string,
    namespace: string,
    path: string,
    request: TokenRequest,
    orphan: boolean,
  ): Promise<Result<Authed>> {
    return this.#published(() => this.parts.tokens.create(caller, namespace, path, request, orphan));
  }

  lookupToken(name: TokenName): Result<Record<string, unknown>> {
    return refuseIfSealed(() => this.parts.tokens.lookup(name));
  }

  renewToken(name: TokenName, increment: number): Promise<Result<Authed>> {
    return this.#published(() => this.parts.tokens.renew(name, increment));
  }

  /** Ends a token at once, with all its descendants, or alone (`keepChildren`). An unknown token counts as revoked. */
  revokeToken(name: TokenName, keepChildren = false): Promise<Result<null>> {
    return this.#published(() => this.parts.tokens.revoke(name, keepChildren));
  }

  accessors(within: string, from: string, limit: number): { keys: string[]; next: string | null } {
    return this.parts.tokens.accessors(within, from, limit);
  }

  /** What a token may do on each path of a namespace. */
  capabilities(
    name: TokenName,
    namespace: string,
    paths: readonly string[],
  ): Result<Record<string, (Capability | "root")[]>> {
    return refuseIfSealed(() => this.parts.tokens.capabilities(name, namespace, paths));
  }

  /** Whether a caller may do more than its request was let in for. Counts no use. */
  mayAlso(wish: Wish): Result<null> {
    return this.parts.tokens.mayAlso(wish);
  }

  /**
   * A mount is about to give a lease to a token, and hears of its end from now on. Idempotent.
   * @returns a refusal when that has come already
   */
  holdsLeases(accessor: string, mount: string): Result<null> {
    return this.parts.leaseHolders.hold(this.parts.tokenStore, accessor, mount, Date.now());
  }

  // ---- as areas C and D show them ----

  bootstrap(secret: string | null): Result<AclToken> {
    const wanted = settings(this.env).BOOTSTRAP_SECRET;
    return refuseIfSealed(() => this.commit(() => this.parts.bootstrap.claim(secret, wanted)));
  }

  async createClusterToken(request: ClusterTokenRequest): Promise<Result<AclToken>> {
    const { clusterTokens } = this.parts;
    const made = await this.#published(() => clusterTokens.create(request));
    if (!made.ok) return made;
    const token = clusterTokens.read(made.value.accessor);
    return token.ok ? ok({ ...token.value, SecretID: made.value.secret }) : token;
  }

  /** @param reveal whether the answer holds the token's secret, if one is kept */
  async updateClusterToken(accessor: string, request: ClusterTokenRequest, reveal = false): Promise<Result<AclToken>> {
    const updated = await this.parts.clusterTokens.update(accessor, request);
    return updated.ok && reveal ? this.readClusterToken(accessor, true) : updated;
  }

  readClusterToken(accessor: string, reveal = false): Result<AclToken> {
    return refuseIfSealed(() => this.parts.clusterTokens.read(accessor, reveal));
  }

  listClusterTokens(prefix: string, from: string, limit: number, onlyGlobal: boolean): AclTokenPage {
    return this.parts.clusterTokens.list(prefix, from, limit, onlyGlobal);
  }

  async deleteClusterToken(accessor: string): Promise<Result<null>> {
    const revoked = await this.revokeToken({ accessor, within: "" });
    return revoked.ok ? revoked : refuse("invalid", `Cannot delete nonexistent tokens: ${accessor}`);
  }

  /** Answers when the events of a change have had their chance to be on the stream. */
  async #published<T>(change: () => Result<T>): Promise<Result<T>> {
    const result = refuseIfSealed(change);
    if (!result.ok) return result;
    // Behind the answer: leases of tokens that have ended.
    this.ctx.waitUntil(this.outbox.drain("leases"));
    await this.parts.journal.published();
    return result;
  }
}
