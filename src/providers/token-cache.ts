import { createHash } from "node:crypto";
import type { Failure } from "../contracts/failure.ts";

/** A short-lived credential, such as an access token or a session. */
export interface Issued {
  /** Milliseconds since 1970. */
  readonly expiresAt: number;
}

/**
 * The short-lived credentials that this isolate holds, by everything they were obtained with. The secret is part of the key,
 * so nobody gets a token by knowing less than it took to obtain it. The oldest leaves first.
 */
export class TokenCache<T extends Issued> {
  readonly #held = new Map<string, T>();
  readonly #marginMs: number;
  readonly #max: number;

  /** @param marginMs a token is not used any more this long before its end */
  constructor({ marginMs = 5 * 60_000, max = 256 } = {}) {
    this.#marginMs = marginMs;
    this.#max = max;
  }

  /** The token for `key` (anything that JSON can write), obtained with `issue` when none is held that is fresh enough. */
  async get<F extends { ok: false; outcome: Failure }>(
    key: unknown,
    issue: () => Promise<{ ok: true; token: T } | F>,
  ): Promise<{ ok: true; token: T } | F> {
    const id = digest(key);
    const held = this.#held.get(id);
    if (held && held.expiresAt - this.#marginMs > Date.now()) return { ok: true, token: held };
    const issued = await issue();
    if (!issued.ok) return issued;
    this.#held.delete(id);
    this.#held.set(id, issued.token);
    for (const oldest of this.#held.keys()) {
      if (this.#held.size <= this.#max) break;
      this.#held.delete(oldest);
    }
    return issued;
  }

  /** The provider refused it before its time. */
  forget(key: unknown): void {
    this.#held.delete(digest(key));
  }
}

const digest = (key: unknown): string => createHash("sha256").update(JSON.stringify(key)).digest("hex");
