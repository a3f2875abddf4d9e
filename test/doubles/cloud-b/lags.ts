import type { LagKind, Lags } from "./azure-types.ts";

/** Changes that are not visible yet, by kind and id. */
export class Unseen {
  lags: Lags;
  readonly #now: () => number;
  readonly #hidden = new Map<string, { requests: number; until: number }>();

  constructor(lags: Lags, now: () => number) {
    this.lags = lags;
    this.#now = now;
  }

  /** From now on it is hidden as long as its kind lags. */
  hide(kind: LagKind, id: string): void {
    const lag = this.lags[kind];
    if (lag === undefined) return;
    this.#hidden.set(`${kind} ${id}`, { requests: lag.requests ?? 0, until: this.#now() + (lag.ms ?? 0) });
  }

  /** It is seen by all from now on. */
  show(kind: LagKind, id: string): void {
    this.#hidden.delete(`${kind} ${id}`);
  }

  /** Whether a request still does not see it. Asking is a request. */
  hides(kind: LagKind, id: string): boolean {
    const hidden = this.#hidden.get(`${kind} ${id}`);
    if (hidden === undefined) return false;
    if (hidden.requests-- > 0 || this.#now() < hidden.until) return true;
    this.#hidden.delete(`${kind} ${id}`);
    return false;
  }
}
