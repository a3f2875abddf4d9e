import type { IssueRequest } from "../../contracts/credential-engine.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";

/**
 * Leases that wait for the registration of their token, and for quotas, before they take credentials of a pool. They have no
 * row yet, so a token that ends meanwhile is noted here; a restart of the object ends its requests, too.
 */
export class PoolAdmission {
  /** Tokens by lease. */
  readonly #waiting = new Map<string, string>();

  /**
   * Waits for the admission of a lease. @param holds whether its token may hold it
   * @returns the id of the lease
   */
  async admit(
    id: string,
    { token }: IssueRequest,
    holds: () => Promise<Result<boolean | null>>,
    onRegistered: () => void,
  ): Promise<Result<string>> {
    this.#waiting.set(id, token);
    try {
      const held = await holds();
      if (!held.ok) return held;
      if (!this.#waiting.has(id)) return refuse("denied", "the token has ended");
      if (held.value) onRegistered();
      return ok(id);
    } finally {
      this.#waiting.delete(id);
    }
  }

  /** Refuses the waiting leases of tokens that have ended. */
  tokensEnded(accessors: readonly string[]): void {
    for (const [id, token] of this.#waiting) if (accessors.includes(token)) this.#waiting.delete(id);
  }

  /** Ids of the waiting leases. */
  get waiting(): string[] {
    return [...this.#waiting.keys()];
  }
}
