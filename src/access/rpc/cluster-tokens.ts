import type { ClusterTokensApi, OneTimeToken } from "../../contracts/cluster-acl.ts";
import type { AclToken, AclTokenPage } from "../../contracts/tokens.ts";
import { type Result, refuse } from "../../lib/result.ts";
import { refuseIfSealed } from "../../platform/crypto/refuse-if-sealed.ts";
import type { ClusterTokens } from "../cluster-acl/cluster-tokens.ts";
import type { PublishedChanges } from "../published-changes.ts";
import type { Bootstrap } from "../tokens/bootstrap.ts";
import type { OneTimeTokens } from "../tokens/one-time-tokens.ts";
import type { SecretsTokens } from "../tokens/secrets-tokens.ts";
import type { ClusterTokenRequest } from "../tokens/token.ts";

/** RPC methods about tokens of the cluster API, one-time tokens included. */
export class ClusterTokenMethods implements ClusterTokensApi {
  readonly #tokens: ClusterTokens;
  readonly #secretsTokens: SecretsTokens;
  readonly #bootstrap: Bootstrap;
  readonly #oneTimeTokens: OneTimeTokens;
  readonly #changes: PublishedChanges;

  constructor(
    tokens: ClusterTokens,
    secretsTokens: SecretsTokens,
    bootstrap: Bootstrap,
    oneTimeTokens: OneTimeTokens,
    changes: PublishedChanges,
  ) {
    this.#tokens = tokens;
    this.#secretsTokens = secretsTokens;
    this.#bootstrap = bootstrap;
    this.#oneTimeTokens = oneTimeTokens;
    this.#changes = changes;
  }

  bootstrap(secret: string | null): Result<AclToken> {
    return refuseIfSealed(() => this.#bootstrap.claim(secret));
  }

  async createClusterToken(request: ClusterTokenRequest): Promise<Result<AclToken>> {
    const made = await this.#changes.publish(() => this.#tokens.create(request));
    return made.ok ? this.#tokens.withSecret(made.value) : made;
  }

  async updateClusterToken(accessor: string, request: ClusterTokenRequest, reveal = false): Promise<Result<AclToken>> {
    const updated = await this.#tokens.update(accessor, request);
    return updated.ok && reveal ? this.readClusterToken(accessor, true) : updated;
  }

  readClusterToken(accessor: string, reveal = false): Result<AclToken> {
    return refuseIfSealed(() => this.#tokens.read(accessor, reveal));
  }

  listClusterTokens(prefix: string, from: string, limit: number, onlyGlobal: boolean): AclTokenPage {
    return this.#tokens.list(prefix, from, limit, onlyGlobal);
  }

  async deleteClusterToken(accessor: string): Promise<Result<null>> {
    const revoked = await this.#changes.publish(() => this.#secretsTokens.revoke({ accessor, within: "" }, false));
    return revoked.ok ? revoked : refuse("invalid", `Cannot delete nonexistent tokens: ${accessor}`);
  }

  createOneTimeToken(token: string): Result<OneTimeToken> {
    return refuseIfSealed(() => this.#oneTimeTokens.create(token, Date.now()));
  }

  exchangeOneTimeToken(secret: string): Result<AclToken> {
    return refuseIfSealed(() => {
      const exchanged = this.#oneTimeTokens.exchange(secret, Date.now());
      return exchanged.ok ? this.#tokens.withSecret(exchanged.value) : exchanged;
    });
  }
}
