import { ok, type Result, refuse } from "../../../lib/result.ts";
import { CALL_MS, isTransient, retry, retryUnanswered } from "../../runner/saga.ts";
import { type CloudSaga, resultOf, step } from "./calls.ts";
import type { NewKey } from "./cloud.ts";
import type { CloudAccount, EngineConfig } from "./config.ts";
import { keyRemoval, keySearch, nothing, type Removal } from "./removal.ts";

/** A replacement of the root key in progress. Persisted in the job. */
export interface Rotation {
  /** The account at the start, so that clean-up works after a change of the configuration. */
  readonly account: CloudAccount;
  /** The user of the key, with its keys before the new one; null before they are known. */
  readonly user: { readonly name: string; readonly keys: readonly string[] } | null;
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

/** Required consecutive calls: the provider's servers receive a key at different times. */
const USES = 3;
const USE_EVERY_MS = 500;
const USE_AGAIN_MS = 2_000;
/** A key is unknown for some seconds, and rarely for minutes. */
const FRESH_KEY_MS = 3 * 60_000;

/**
 * Creates a new root key and uses it. Completion then stores it, and deletes the one before when no call with that is
 * under way.
 *
 *     self ──► createKey ──► identify ×3 ──► done
 *                │ unknown      ▲   │ refused: the count restarts
 *                ▼              └───┘
 *              listKeys ──► deleteKey each that is new ──► createKey
 */
export const rotationSaga: CloudSaga<Rotation> = {
  next({ user, key, lost, adding, uses, nextUse }, now) {
    if (!user) return step("self");
    if (lost[0] !== undefined) return step("deleteKey", user.name, lost[0]);
    if (!key) return adding ? step("listKeys", user.name) : step("createKey", user.name);
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
      return { kind: "done", state: rotationSaga.onSuccess({ ...state, strays: true }, step, null, now) };
    }
    return isTransient(failure) ? retry(failure) : { kind: "failed" };
  },
};

/** Undoes `rotationSaga`: removes the new key, and searches for one of an unanswered call; null if there is none. */
export function undoOfRotation({ user, key, adding, lost, strays }: Rotation, now: number): Removal | null {
  if (!user) return null;
  const ids = [...(key ? [key.accessKey] : []), ...lost];
  const search = adding || strays ? keySearch(user.name, user.keys, now) : null;
  if (ids.length === 0 && !search) return null;
  const items = ids.map((id) => ({ kind: "key", user: user.name, id }) as const);
  return { ...nothing, items, search, madeAt: now };
}

/** Begins a rotation; refused for an account without a stored key. */
export function beginRotation(config: EngineConfig | null, account: Result<CloudAccount>): Result<Rotation> {
  if (!config?.written) return refuse("invalid", "no configuration found for config/root");
  if (config.access_key === "" || config.secret_key === "") {
    return refuse("invalid", "Cannot call config/rotate-root when either access_key or secret_key is empty");
  }
  if (!account.ok) return account;
  return ok({
    account: account.value,
    user: null,
    adding: false,
    lost: [],
    strays: false,
    key: null,
    madeAt: 0,
    uses: 0,
    nextUse: 0,
  });
}

/** The new key, and the removal of the one that it replaces, when calls with that have ended. */
export function outcomeOfRotation({ account, user, key, strays }: Rotation, now: number) {
  if (!user || !key) return { problem: "no key was made" };
  const { accessKey, secretKey } = key;
  const old = account.accessKey;
  const orphans = strays
    ? { ...nothing, search: keySearch(user.name, [...user.keys, accessKey], now), madeAt: now }
    : null;
  return {
    promote: (config: EngineConfig) => ({ ...config, access_key: accessKey, secret_key: secretKey }),
    keyId: accessKey,
    replaced: old,
    removal: keyRemoval(user.name, old, now + CALL_MS),
    orphans,
    warnings: [],
    data: { access_key: accessKey },
  };
}
