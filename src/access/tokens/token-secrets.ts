import type { DataKeys } from "../../platform/crypto/data-keys.ts";
import { settings } from "../../platform/settings.ts";
import type { TokenRow } from "./token.ts";

/**
 * Sealed copies of the secrets of tokens made under `/v1/acl`, which upstream clients read back
 * (docs/reference/compatibility.md). The column `tokens.secret` holds them; each is bound to its token's accessor. The
 * setting `ACL_TOKEN_SECRETS` turns them off.
 */
export class TokenSecrets {
  constructor(
    private readonly sql: SqlStorage,
    private readonly keys: DataKeys,
    private readonly env: Env,
  ) {}

  get #isEnabled(): boolean {
    return settings(this.env).ACL_TOKEN_SECRETS === "on";
  }

  /** The sealed secret for the token's row; null if the deployment stores none. @throws Sealed */
  seal(accessor: string, secret: string): ArrayBuffer | null {
    if (!this.#isEnabled) return null;
    return new Uint8Array(this.keys.seal(secret, context(accessor))).buffer;
  }

  /** The token's secret; empty if none is stored. @throws Sealed */
  reveal({ accessor, secret }: Pick<TokenRow, "accessor" | "secret">): string {
    return secret === null || !this.#isEnabled ? "" : this.keys.openText(secret, context(accessor));
  }

  /** Deletes all stored secrets after the setting is turned off. Runs inside a transaction. */
  purge(): void {
    if (!this.#isEnabled) this.sql.exec("UPDATE tokens SET secret = NULL WHERE secret IS NOT NULL");
  }
}

const context = (accessor: string): string => `token-secret ${accessor}`;
