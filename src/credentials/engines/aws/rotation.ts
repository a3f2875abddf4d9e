import { ok, type Result, refuse } from "../../../lib/result.ts";
import { CALL_MS, mapDecision } from "../../runner/saga.ts";
import type { CloudSaga } from "./calls.ts";
import type { CloudAccount, EngineConfig } from "./config.ts";
import { type KeyChange, keySaga, NO_KEY, orphansOfKey, undoOfKey } from "./key-change.ts";
import { keyRemoval, type Removal } from "./removal.ts";

/** A replacement of the root key in progress. Persisted in the job. */
export interface Rotation extends KeyChange {
  /** The account at the start, so that clean-up works after a change of the configuration. */
  readonly account: CloudAccount;
}

/**
 * Creates a new root key and uses it (`keySaga`). Completion then stores it, and deletes the one before when no call with
 * that is under way.
 */
export const rotationSaga: CloudSaga<Rotation> = {
  next: keySaga.next,
  beforeCall: (state, each) => ({ ...state, ...keySaga.beforeCall?.(state, each) }),
  onSuccess: (state, each, value, now) => ({ ...state, ...keySaga.onSuccess(state, each, value, now) }),
  onError: (state, each, failure, now, tries) =>
    mapDecision(keySaga.onError(state, each, failure, now, tries), (key) => ({ ...state, ...key })),
};

/** Removes the new key, and those of unanswered calls; null without. The key of the next configuration stays. */
export function undoOfRotation(rotation: Rotation, now: number, next?: EngineConfig | null): Removal | null {
  const { user, lost } = rotation;
  const kept = next?.access_key;
  if (!user || !kept) return undoOfKey(rotation, now);
  const known = { ...user, keys: [...user.keys, kept] };
  return undoOfKey({ ...rotation, user: known, lost: lost.filter((id) => id !== kept) }, now);
}

/** Begins a rotation; refused for an account without a stored key. */
export function beginRotation(config: EngineConfig | null, account: Result<CloudAccount>): Result<Rotation> {
  if (!config?.written) return refuse("invalid", "no configuration found for config/root");
  if (config.access_key === "" || config.secret_key === "") {
    return refuse("invalid", "Cannot call config/rotate-root when either access_key or secret_key is empty");
  }
  if (!account.ok) return account;
  return ok({ ...NO_KEY, account: account.value });
}

/** The new key, and the removal of the one that it replaces, when calls with that have ended. */
export function outcomeOfRotation(rotation: Rotation, now: number) {
  const { account, user, key } = rotation;
  if (!user || !key) return { problem: "no key was made" };
  const { accessKey, secretKey } = key;
  const old = account.accessKey;
  return {
    promote: (config: EngineConfig) => ({ ...config, access_key: accessKey, secret_key: secretKey }),
    keyId: accessKey,
    replaced: old,
    removal: keyRemoval(user.name, old, now, now + CALL_MS),
    orphans: orphansOfKey(rotation, now),
    warnings: [],
    data: { access_key: accessKey },
  };
}
