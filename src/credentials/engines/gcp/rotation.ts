import { tryParseJson } from "../../../lib/json.ts";
import { ok, type Result, refuse } from "../../../lib/result.ts";
import { serviceAccountKey } from "../../../providers/cloud-c-gcp/key.ts";
import { isTransient, mapDecision, retry } from "../../runner/saga.ts";
import { type CloudSaga, resultOf, step } from "./calls.ts";
import type { CloudAccount } from "./cloud.ts";
import type { EngineConfig } from "./config.ts";
import { type KeyAdd, keySaga, newKeyAdd, orphansOfKey, undoOfKey } from "./key-add.ts";
import { isNotYetThere } from "./lag.ts";
import { keyRemoval, lockOfKeys, type Removal } from "./removal.ts";

/** A replacement of the engine's own key in progress. Persisted in the job. */
export interface Rotation {
  /** The account at the start, so that clean-up works after a change of the configuration. */
  readonly account: CloudAccount;
  /** Id of the current key; null if its file has none. */
  readonly replaces: string | null;
  readonly add: KeyAdd;
  /** The new key's file, base64. */
  readonly secret: string | null;
  /** ms since 1970. */
  readonly madeAt: number;
  readonly logins: number;
  readonly nextLogin: number;
}

/** Required consecutive logins: Google's servers learn of a key at different times. */
const LOGINS = 2;
const LOGIN_EVERY_MS = 1_000;
const LOGIN_AGAIN_MS = 2_000;

/**
 * Creates a new key of the engine's own account and verifies it. Completion then stores it, and deletes the one before.
 *
 *     keySaga ──► login ×2 ──► done
 *                  ▲   │ refused: count restarts
 *                  └───┘
 */
export const rotationSaga: CloudSaga<Rotation> = {
  next({ add, secret, logins, nextLogin }, now) {
    if (!add.key || secret === null) return keySaga.next(add, now);
    if (logins >= LOGINS) return null;
    return nextLogin > now ? { wait: nextLogin - now } : step("login", secret);
  },
  beforeCall: (state, each) => ({ ...state, add: keySaga.beforeCall?.(state.add, each) ?? state.add }),
  onSuccess(state, each, value, now) {
    if (each.call === "login") return { ...state, logins: state.logins + 1, nextLogin: now + LOGIN_EVERY_MS };
    const add = keySaga.onSuccess(state.add, each, value, now);
    if (each.call !== "createKey") return { ...state, add };
    return { ...state, add, secret: resultOf(each.call, value).privateKeyData, madeAt: now };
  },
  onError(state, each, failure, now, tries) {
    if (each.call === "login") {
      const none = { ...state, logins: 0 };
      if (isNotYetThere(each.call, failure, now - state.madeAt)) {
        return retry({ ...failure, retryAfterMs: LOGIN_AGAIN_MS }, none);
      }
      return isTransient(failure) ? retry(failure, none) : { kind: "failed" };
    }
    return mapDecision(keySaga.onError(state.add, each, failure, now, tries), (add) => ({ ...state, add }));
  },
};

/** One job at a time makes keys of the account, which may be that of a static account, too. */
export const lockOfRotation = ({ account }: Rotation): string => lockOfKeys(account.email);

/** Begins a rotation; refused for an account without a key. */
export function beginRotation(config: EngineConfig | null, account: Result<CloudAccount>): Result<Rotation> {
  if (!account.ok) return account;
  if (!config?.credentials) {
    const because = "this endpoint only works with a service account's key";
    return refuse("invalid", `configuration does not have credentials - ${because}`);
  }
  const options = { algorithm: "KEY_ALG_RSA_2048", type: "TYPE_GOOGLE_CREDENTIALS_FILE" };
  return ok({
    account: account.value,
    replaces: config.credentials.private_key_id ?? null,
    add: newKeyAdd(account.value.email, true, options),
    secret: null,
    madeAt: 0,
    logins: 0,
    nextLogin: 0,
  });
}

const OLD_STAYS = "the key before has no private_key_id in its file, and was not deleted; delete it by hand";

/** The new key, and the removal of the one that it replaces. */
export function outcomeOfRotation({ account, add, secret, replaces }: Rotation, now: number) {
  const text = secret === null ? "" : Buffer.from(secret, "base64").toString();
  const file = serviceAccountKey().safeParse(tryParseJson(text) ?? "");
  if (!add.key || !file.success) return { problem: "failed to create new key: its file cannot be read" };
  const { id } = add.key;
  return {
    promote: (config: EngineConfig): EngineConfig => ({ ...config, credentials: { ...file.data, private_key_id: id } }),
    keyId: id,
    replaced: replaces,
    removal: replaces === null ? null : keyRemoval(account.email, replaces, now),
    orphans: orphansOfKey(add, now),
    warnings: replaces === null ? [OLD_STAYS] : [],
    data: { private_key_id: id },
  };
}

/** Removes the new key; null when there is none. */
export function undoOfRotation({ add }: Rotation, now: number, next?: EngineConfig | null): Removal | null {
  const kept = next?.credentials?.private_key_id;
  const known = kept
    ? { ...add, before: [...(add.before ?? []), kept], lost: add.lost.filter((id) => id !== kept) }
    : add;
  const undo = undoOfKey(known, now);
  return undo.items.length > 0 || undo.search ? undo : null;
}
