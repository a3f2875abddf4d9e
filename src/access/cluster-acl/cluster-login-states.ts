import { createHmac, timingSafeEqual } from "node:crypto";
import type { OidcRequest } from "../../contracts/cluster-acl.ts";
import { randomText } from "../../lib/random-text.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import type { TokenHashKey } from "../tokens/token-hash-key.ts";

const LIFE_MS = 10 * 60_000;
/** Bound of the memory. A state that is forgotten early is of no use without an unused code of the issuer. */
const MAX_USED = 10_000;
const STATE = /^([A-Za-z0-9]{24})\.([0-9a-z]{1,12})\.([\w-]{43})$/;

/**
 * The states of logins in a browser. A state is authenticated, not stored, so that requests without a token cost no
 * memory; the secret of PKCE follows from it. Used states are remembered until they expire.
 */
export class ClusterLoginStates {
  readonly #used = new Map<string, number>();

  constructor(private readonly key: TokenHashKey) {}

  /** The state and the PKCE verifier of a new login. @throws Sealed */
  begin(request: OidcRequest, now: number): { state: string; verifier: string } {
    const id = randomText(24);
    const until = (now + LIFE_MS).toString(36);
    return { state: `${id}.${until}.${this.#mac(request, id, until)}`, verifier: this.#verifierOf(id) };
  }

  /** The PKCE verifier of a login, whose state is used up. @throws Sealed */
  complete(request: OidcRequest, state: string, now: number): Result<string> {
    const [, id = "", until = "", mac = ""] = STATE.exec(state) ?? [];
    const isOurs = mac !== "" && timingSafeEqual(Buffer.from(mac), Buffer.from(this.#mac(request, id, until)));
    const expires = Number.parseInt(until, 36);
    if (!isOurs || expires <= now || this.#used.has(id)) return refuse("invalid", "invalid or expired state");
    for (const [used, end] of this.#used) {
      if (end > now && this.#used.size < MAX_USED) break;
      this.#used.delete(used);
    }
    this.#used.set(id, expires);
    return ok(this.#verifierOf(id));
  }

  #mac({ method, version, nonce, redirectUri }: OidcRequest, id: string, until: string): string {
    return this.#derived(["state", method, version, nonce, redirectUri, id, until]);
  }

  #verifierOf(id: string): string {
    return this.#derived(["verifier", id]);
  }

  #derived(parts: readonly string[]): string {
    return createHmac("sha256", this.key.open())
      .update(`oidc ${JSON.stringify(parts)}`)
      .digest("base64url");
  }
}
