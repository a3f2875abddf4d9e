import { timingSafeEqual } from "node:crypto";
import type { AclToken } from "../../contracts/tokens.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import type { DeploymentState } from "../../platform/durable/deployment-state.ts";
import { settings } from "../../platform/settings.ts";
import { aclToken } from "../cluster-acl/cluster-acl.ts";
import type { TokenRow } from "./token.ts";
import type { TokenSecrets } from "./token-secrets.ts";
import { newAccessor, type TokenStore } from "./token-store.ts";

/**
 * Creates the first root token of a deployment, once: from a setting in local development, otherwise for a caller with
 * the deployment's bootstrap secret.
 */
export class Bootstrap {
  constructor(
    private readonly env: Env,
    private readonly state: DeploymentState,
    private readonly tokens: TokenStore,
    private readonly secrets: TokenSecrets,
    private readonly commit: <T>(change: () => T) => T,
  ) {}

  get done(): boolean {
    return this.state.get("bootstrapped") !== null;
  }

  /** Creates the developer's token. No effect after the first token. Runs inside a transaction. */
  local(secret: string): void {
    if (!this.done) this.#insert(secret, "root", "secrets", "auth/token/root");
  }

  /** Creates the first token for a caller with the deployment's bootstrap secret. @throws Sealed */
  claim(presented: string | null): Result<AclToken> {
    const wanted = settings(this.env).BOOTSTRAP_SECRET;
    const index = this.state.get("bootstrapped");
    if (index !== null) return refuse("invalid", `ACL bootstrap already done (reset index: ${index})`);
    if (wanted === undefined) {
      return refuse("denied", "ACL bootstrap needs the setting BOOTSTRAP_SECRET on the service");
    }
    if (presented === null || !sameText(presented, wanted)) {
      return refuse("denied", "BootstrapSecret: does not match the setting BOOTSTRAP_SECRET");
    }
    const secret = crypto.randomUUID();
    const row = this.commit(() => this.#insert(secret, "Bootstrap Token", "cluster", "v1/acl/bootstrap"));
    return ok(aclToken(row, secret));
  }

  #insert(secret: string, name: string, family: TokenRow["family"], path: string): TokenRow {
    const accessor = newAccessor(family);
    this.state.set("bootstrapped", "1");
    return this.tokens.insert(secret, {
      accessor,
      secret: family === "cluster" ? this.secrets.seal(accessor, secret) : null,
      policies: '["root"]',
      name,
      path,
      family,
      global: 1,
      created: Date.now(),
      expires: null,
      ttl: 0,
      // Upstream sends no event for a bootstrap, so the indexes are set here.
      create_index: 1,
      modify_index: 1,
    });
  }
}

const sameText = (a: string, b: string): boolean =>
  Buffer.byteLength(a) === Buffer.byteLength(b) && timingSafeEqual(Buffer.from(a), Buffer.from(b));
