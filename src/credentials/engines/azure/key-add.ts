import { isTransient, isWorthRetrying, retry, retryUnanswered } from "../../runner/saga.ts";
import { type CloudSaga, resultOf, step } from "./calls.ts";
import { isNew } from "./provision.ts";
import { nothing, type Removal, searchFor } from "./removal.ts";

/** A password being added to an existing application. */
export interface KeyAdd {
  readonly application: string;
  /** Creation time of the application if this engine created it, ms since 1970; otherwise 0. */
  readonly madeAt: number;
  /** Unique display name, by which an unanswered addition is found. */
  readonly name: string;
  /** Lifetime in ms. */
  readonly lifeMs: number;
  /** The add call was sent; its outcome is unknown. */
  readonly adding: boolean;
  /** Keys of unanswered additions, to be removed because their text is lost. */
  readonly lost: readonly string[];
  /** An unanswered addition may have created a key that the provider does not list yet. */
  readonly strays: boolean;
  /** Number of unanswered additions; older rows lack it. */
  readonly unanswered?: number;
  readonly key: { readonly keyId: string; readonly endsAt: number } | null;
}

export const newKeyAdd = (application: string, name: string, lifeMs: number, madeAt = 0): KeyAdd => ({
  application,
  madeAt,
  name,
  lifeMs,
  adding: false,
  lost: [],
  strays: false,
  key: null,
});

/**
 * Adds one password. The key of an unanswered addition is removed first, because its text is lost.
 *
 *     add ──answered──► done
 *      │ outcome unknown
 *      ▼
 *     getApplication ──listed──► remove the lost key ──► add
 *            └──not listed: orphan possible──► add
 */
export const keySaga: CloudSaga<KeyAdd> = {
  next(state, now) {
    if (state.key) return null;
    const [lost] = state.lost;
    if (lost !== undefined) return step("removeApplicationPassword", state.application, lost);
    if (state.adding) return step("getApplication", state.application);
    const password = { displayName: state.name, endsAt: now + state.lifeMs };
    return step("addApplicationPassword", state.application, password);
  },

  beforeCall: (state, { call }) => (call === "addApplicationPassword" ? { ...state, adding: true } : state),

  onSuccess(state, { call, args }, value) {
    switch (call) {
      case "addApplicationPassword": {
        const { keyId, endsAt } = resultOf(call, value);
        return { ...state, adding: false, key: { keyId, endsAt } };
      }
      case "getApplication": {
        const ours = resultOf(call, value).passwords.filter(({ displayName }) => displayName === state.name);
        const strays = state.strays || ours.length === 0;
        return { ...state, adding: false, strays, lost: ours.map(({ keyId }) => keyId) };
      }
      case "removeApplicationPassword":
        return { ...state, lost: state.lost.filter((keyId) => keyId !== args[1]) };
      default:
        return state;
    }
  },

  onError(state, step, failure, now, tries) {
    if (isTransient(failure) && !isWorthRetrying(failure, tries)) return { kind: "failed" };
    if (step.call === "addApplicationPassword" && failure.outcome === "unknown") return retryUnanswered(state, failure);
    if (step.call === "addApplicationPassword") {
      const free = { ...state, adding: false };
      const isWorthIt = isTransient(failure) || isNew(state.madeAt, step, failure, now);
      return isWorthIt ? retry(failure, free) : { kind: "failed" };
    }
    if (step.call === "removeApplicationPassword" && failure.code === "not_found") {
      // The provider listed it a moment ago, so "not found" is not reliable yet.
      return { kind: "done", state: keySaga.onSuccess({ ...state, strays: true }, step, null, now) };
    }
    return isTransient(failure) ? retry(failure) : { kind: "failed" };
  },
};

/** Undoes `keySaga`: removes everything that an addition created or may have created. */
export const undoOfKey = ({ application, name, key, adding, lost, strays }: KeyAdd, now: number): Removal => ({
  ...nothing,
  madeAt: now,
  items: [...(key ? [key.keyId] : []), ...lost].map((keyId) => ({ kind: "password", application, keyId }) as const),
  search: adding || strays ? searchFor(name, application, null, now) : null,
});

/** Removes other passwords of a name: orphans of unanswered additions. */
export const passwordSearch = (application: string, name: string, except: string | null, now: number): Removal => ({
  ...nothing,
  search: searchFor(name, application, except, now),
  madeAt: now,
});

/** Removes one password of an application. */
export const passwordRemoval = (application: string, keyId: string, madeAt: number): Removal => ({
  ...nothing,
  madeAt,
  items: [{ kind: "password", application, keyId }],
});
