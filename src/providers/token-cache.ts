import type { Failure } from "../contracts/failure.ts";

/** A short-lived credential, such as an access token or a session. */
export interface Issued {
  /** Milliseconds since 1970. */
  readonly expiresAt: number;
}

/**
 * A cache of short-lived credentials, per isolate. The key is the text of all inputs of the request, the secret included,
 * so a caller without the secret never receives the token: a digest of it costs more than the rest of a call's headers.
 * Evicts the oldest entry beyond `max`.
 */
export class TokenCache<T extends Issued> {
  readonly #held = new Map<string, T>();
  readonly #marginMs: number;
  readonly #max: number;

  /** @param marginMs tokens with less time left are not used */
  constructor({ marginMs = 5 * 60_000, max = 256 } = {}) {
    this.#marginMs = marginMs;
    this.#max = max;
  }

  /** Returns the cached token for `key` (any JSON value), or issues and caches a new one. */
  async get<F extends { ok: false; outcome: Failure }>(
    key: unknown,
    issue: () => Promise<{ ok: true; token: T } | F>,
  ): Promise<{ ok: true; token: T } | F> {
    const id = JSON.stringify(key);
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

  /** Drops a token that the provider refused before its expiry. */
  forget(key: unknown): void {
    this.#held.delete(JSON.stringify(key));
  }
}
