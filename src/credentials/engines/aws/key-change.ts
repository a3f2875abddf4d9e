import { isTransient, retry, retryUnanswered } from "../../runner/saga.ts";
import { type CloudSaga, resultOf, step } from "./calls.ts";
import type { Assumed, NewKey } from "./cloud.ts";
import { keySearch, nothing, type Removal } from "./removal.ts";

/** A new key of a user in progress, beside the keys that it has. Persisted in jobs. */
export interface KeyChange {
  /** The user of the key, with its keys before the new one; null before they are known. */
  readonly user: { readonly name: string; readonly keys: readonly string[] } | null;
  /** The role that calls about the user assume; absent: none. */
  readonly as?: Assumed;
  /** The call that makes the key was sent; its outcome is unknown. */
  readonly adding: boolean;
  readonly lost: readonly string[];
  readonly strays: boolean;
  readonly unanswered?: number;
  readonly key: NewKey | null;
  /** Time of the new key's creation, ms since 1970. */
  readonly madeAt: number;
  /** Consecutive calls with the new key. */
  readonly uses: number;
  readonly nextUse: number;
}

export const NO_KEY: KeyChange = {
  user: null,
  adding: false,
  lost: [],
  strays: false,
  key: null,
  madeAt: 0,
  uses: 0,
  nextUse: 0,
};

/** Required consecutive calls: the provider's servers receive a key at different times. */
const USES = 3;
const USE_EVERY_MS = 500;
const USE_AGAIN_MS = 2_000;
/** A key is unknown for some seconds, and rarely for minutes. */
const FRESH_KEY_MS = 3 * 60_000;

/**
 * Creates a key of a user, and uses it until the provider accepts it.
 *
 *     self ──► createKey ──► identify ×3 ──► done
 *                │ unknown      ▲   │ refused: the count restarts
 *                ▼              └───┘
 *              listKeys ──► deleteKey each that is new ──► createKey
 */
export const keySaga: CloudSaga<KeyChange> = {
  next({ user, as, key, lost, adding, uses, nextUse }, now) {
    if (!user) return step("self");
    if (lost[0] !== undefined) return step("deleteKey", user.name, lost[0], ...given(as));
    if (!key) return step(adding ? "listKeys" : "createKey", user.name, ...given(as));
    if (uses >= USES) return null;
    return nextUse > now ? { wait: nextUse - now } : step("identify", key.accessKey, key.secretKey);
  },

  beforeCall: (state, { call }) => (call === "createKey" ? { ...state, adding: true } : state),

  onSuccess(state, { call, args }, value, now) {
    switch (call) {
      case "self": {
        const { name, keys } = resultOf(call, value);
        return { ...state, user: { name, keys: keys.map(({ id }) => id) } };
      }
      case "createKey":
        return { ...state, adding: false, key: resultOf(call, value), madeAt: now };
      case "listKeys": {
        const lost = resultOf(call, value).flatMap(({ id }) => (state.user?.keys.includes(id) ? [] : [id]));
        return { ...state, adding: false, lost, strays: state.strays || lost.length === 0 };
      }
      case "deleteKey":
        return { ...state, lost: state.lost.filter((id) => id !== args[1]) };
      case "identify":
        return { ...state, uses: state.uses + 1, nextUse: now + USE_EVERY_MS };
      default:
        return state;
    }
  },

  onError(state, step, failure, now) {
    if (step.call === "identify") {
      const none = { ...state, uses: 0 };
      if (failure.code === "auth_failed" && now - state.madeAt < FRESH_KEY_MS) {
        return retry({ ...failure, retryAfterMs: USE_AGAIN_MS }, none);
      }
      return isTransient(failure) ? retry(failure, none) : { kind: "failed" };
    }
    if (step.call === "createKey") {
      if (failure.outcome === "unknown") return retryUnanswered(state, failure);
      const free = { ...state, adding: false };
      return isTransient(failure) ? retry(failure, free) : { kind: "failed", state: free };
    }
    if (step.call === "deleteKey" && failure.code === "not_found") {
      return { kind: "done", state: keySaga.onSuccess({ ...state, strays: true }, step, null, now) };
    }
    return isTransient(failure) ? retry(failure) : { kind: "failed" };
  },
};

/** The last argument of a call about a user in an account of others. */
const given = (as: Assumed | undefined): [] | [Assumed] => (as ? [as] : []);

/** Undoes `keySaga`: removes the new key, and searches for one of an unanswered call; null if there is none. */
export function undoOfKey({ user, as, key, adding, lost, strays }: KeyChange, now: number): Removal | null {
  if (!user) return null;
  const ids = [...(key ? [key.accessKey] : []), ...lost];
  const search = adding || strays ? keySearch(user.name, user.keys, now, as) : null;
  if (ids.length === 0 && !search) return null;
  const items = ids.map((id) => ({ kind: "key", user: user.name, id, ...(as && { as }) }) as const);
  return { ...nothing, items, search, madeAt: now };
}

/** Removes keys that unanswered calls may have left beside the new one; null when every call was answered. */
export function orphansOfKey({ user, as, key, strays }: KeyChange, now: number): Removal | null {
  if (!user || !key || !strays) return null;
  return { ...nothing, search: keySearch(user.name, [...user.keys, key.accessKey], now, as), madeAt: now };
}
