import { isTransient, isWorthRetrying, retry, retryUnanswered } from "../../runner/saga.ts";
import { type CloudSaga, resultOf, step } from "./calls.ts";
import type { KeyOptions } from "./cloud.ts";
import { isNotYetThere } from "./lag.ts";
import { keyRemoval, keySearch, lostKeys, type Removal } from "./removal.ts";

/** A key being made. Google chooses its id, so the keys before the first call are listed. */
export interface KeyAdd {
  readonly email: string;
  readonly options: KeyOptions;
  /** The account is not the engine's own: keys of unanswered calls are disabled instead of deleted. */
  readonly foreign: boolean;
  /** Time at which the engine made the account, ms since 1970; 0: it was there. */
  readonly madeAt: number;
  /** Ids of the keys before the first call; null: not listed yet. */
  readonly before: readonly string[] | null;
  /** Time of that list by Google's clock. */
  readonly since: number;
  /** The create call was sent; its outcome is unknown. */
  readonly sent: boolean;
  /** Keys of unanswered calls, removed because their text is lost. */
  readonly lost: readonly string[];
  /** An unanswered call may have made a key that is not listed yet. */
  readonly strays: boolean;
  readonly unanswered?: number;
  readonly key: { readonly id: string; readonly endsAt: number } | null;
}

export const newKeyAdd = (email: string, foreign: boolean, options: KeyOptions, madeAt = 0): KeyAdd => ({
  email,
  options,
  foreign,
  madeAt,
  before: null,
  since: 0,
  sent: false,
  lost: [],
  strays: false,
  key: null,
});

/**
 * Makes one key. A key of an unanswered call is removed first, because its text is lost.
 *
 *     listKeys ──► createKey ──answered──► done
 *                    │ outcome unknown
 *                    ▼
 *                  listKeys ──new one──► delete it (disable it, if the account is not ours) ──► createKey
 *                       └──none: a stray is possible──► createKey
 */
export const keySaga: CloudSaga<KeyAdd> = {
  next({ email, options, foreign, before, sent, lost, key }) {
    if (key) return null;
    if (before === null || sent) return step("listKeys", email);
    const [id] = lost;
    if (id === undefined) return step("createKey", email, options);
    return foreign ? step("disableKey", email, id) : step("deleteKey", email, id);
  },

  beforeCall: (state, { call }) => (call === "createKey" ? { ...state, sent: true } : state),

  onSuccess(state, { call, args }, value) {
    switch (call) {
      case "listKeys": {
        const { at, keys } = resultOf(call, value);
        const { before, since } = state;
        if (before === null) return { ...state, before: keys.map(({ id }) => id), since: at };
        const lost = lostKeys(keys, { before, since, except: null }).map(({ id }) => id);
        // A key that was disabled stays in the list.
        return { ...state, sent: false, lost, before: [...before, ...lost], strays: state.strays || lost.length === 0 };
      }
      case "createKey": {
        const { id, validBefore: endsAt } = resultOf(call, value);
        return { ...state, sent: false, key: { id, endsAt } };
      }
      default:
        return { ...state, lost: state.lost.filter((id) => id !== args[1]) };
    }
  },

  onError(state, step, failure, now, tries) {
    if (step.call === "createKey") {
      if (failure.outcome === "unknown") return retryUnanswered(state, failure);
      const free = { ...state, sent: false };
      const isWorthIt = isWorthRetrying(failure, tries) || isNotYetThere(step.call, failure, now - state.madeAt);
      return isWorthIt ? retry(failure, free) : { kind: "failed", state: free };
    }
    if ((step.call === "deleteKey" || step.call === "disableKey") && failure.code === "not_found") {
      // It was listed a moment ago, so "not found" is not reliable yet.
      return { kind: "done", state: keySaga.onSuccess({ ...state, strays: true }, step, null, now) };
    }
    if (step.call === "listKeys" && isNotYetThere(step.call, failure, now - state.madeAt)) return retry(failure);
    const isWorthIt = state.sent ? isTransient(failure) : isWorthRetrying(failure, tries);
    return isWorthIt ? retry(failure) : { kind: "failed" };
  },
};

/** Undoes `keySaga`: removes every key that it made or may have made. */
export function undoOfKey({ email, foreign, before, since, sent, lost, strays, key }: KeyAdd, now: number): Removal {
  const made = key ? keyRemoval(email, key.id, now).items : [];
  const items = [...made, ...lost.map((id) => ({ kind: "key", email, id, foreign }) as const)];
  if (!sent && !strays) return { items, stuck: [], search: null, madeAt: now };
  const window = { before: before ?? [], since, except: key?.id ?? null };
  return { ...keySearch(email, foreign, window, now), items };
}

/** Removes keys of unanswered calls beside the one that was made; null when every call was answered. */
export const orphansOfKey = ({ email, foreign, before, since, strays, key }: KeyAdd, now: number): Removal | null =>
  strays ? keySearch(email, foreign, { before: before ?? [], since, except: key?.id ?? null }, now) : null;
