import type { Capability } from "../../contracts/policies.ts";
import type { Authed, ResultantAcl, RightsCheck, TokenLease, TokenName, TokensApi } from "../../contracts/tokens.ts";
import type { Result } from "../../lib/result.ts";
import { refuseIfSealed } from "../../platform/crypto/refuse-if-sealed.ts";
import { resultantAcl } from "../paths/resultant-acl.ts";
import type { PublishedChanges } from "../published-changes.ts";
import type { LeaseHolders } from "../tokens/lease-holders.ts";
import type { SecretsTokens } from "../tokens/secrets-tokens.ts";
import type { TokenCapabilities } from "../tokens/token-capabilities.ts";
import type { TokenIssuer } from "../tokens/token-issuer.ts";

/** RPC methods about tokens of the secrets API. */
export class TokenMethods implements TokensApi {
  readonly #tokens: SecretsTokens;
  readonly #issuer: TokenIssuer;
  readonly #rights: TokenCapabilities;
  readonly #leaseHolders: LeaseHolders;
  readonly #changes: PublishedChanges;

  constructor(
    tokens: SecretsTokens,
    issuer: TokenIssuer,
    rights: TokenCapabilities,
    leaseHolders: LeaseHolders,
    changes: PublishedChanges,
  ) {
    this.#tokens = tokens;
    this.#issuer = issuer;
    this.#rights = rights;
    this.#leaseHolders = leaseHolders;
    this.#changes = changes;
  }

  createToken(...given: Parameters<TokenIssuer["create"]>): Promise<Result<Authed>> {
    return this.#changes.publish(() => this.#issuer.create(...given));
  }

  lookupToken(name: TokenName): Result<Record<string, unknown>> {
    return refuseIfSealed(() => this.#tokens.lookup(name));
  }

  renewToken(name: TokenName, increment: number): Promise<Result<Authed>> {
    return this.#changes.publish(() => this.#tokens.renew(name, increment));
  }

  revokeToken(name: TokenName, keepChildren = false): Promise<Result<null>> {
    return this.#changes.publish(() => this.#tokens.revoke(name, keepChildren));
  }

  revokeIssued(namespace: string, path: string): Promise<Result<null>> {
    return this.#changes.publish(() => this.#tokens.revokeIssued(namespace, path));
  }

  accessors(within: string, from: string, limit: number): { keys: string[]; next: string | null } {
    return this.#tokens.accessors(within, from, limit);
  }

  tokenLeaseNames(namespace: string, prefix: string, after: string): string[] {
    return this.#tokens.leaseNames(namespace, prefix, after);
  }

  tokenLease(namespace: string, id: string): TokenLease | null {
    return this.#tokens.lease(namespace, id);
  }

  countTokens(): number {
    return this.#tokens.count();
  }

  capabilities(
    name: TokenName,
    namespace: string,
    paths: readonly string[],
  ): Result<Record<string, (Capability | "root")[]>> {
    return refuseIfSealed(() => this.#rights.capabilities(name, namespace, paths));
  }

  resultantAcl(accessor: string): ResultantAcl | null {
    const grants = this.#rights.grants(accessor);
    return grants && resultantAcl(grants);
  }

  mayAlso(check: RightsCheck): Result<null> {
    return this.#rights.mayAlso(check);
  }

  holdsLeases(accessor: string, mount: string): Result<boolean> {
    return this.#leaseHolders.hold(accessor, mount, Date.now());
  }
}
