import { ok, type Result, refuse } from "../../../lib/result.ts";
import { isTransient, mapDecision, retry } from "../../runner/saga.ts";
import { type CloudSaga, resultOf, step } from "./calls.ts";
import type { AzureSettings, EngineConfig } from "./config.ts";
import type { CloudAccount, PasswordKey } from "./directory.ts";
import { type KeyAdd, keySaga, newKeyAdd, passwordRemoval, passwordSearch, undoOfKey } from "./key-add.ts";
import { isNotYetThere } from "./lag.ts";
import type { Removal } from "./removal.ts";

/** A replacement of the root secret in progress. Persisted in the job. */
export interface Rotation {
  /** The account at the start, so that clean-up works after a change of the configuration. */
  readonly account: CloudAccount;
  /** Id of the current secret, if a rotation created it. */
  readonly keyId: string | null;
  /** Lifetime in ms. */
  readonly lifeMs: number;
  readonly name: string;
  readonly add: KeyAdd | null;
  /** Id of the secret to replace; null if it cannot be identified, and stays. */
  readonly replaces: string | null;
  readonly secret: string | null;
  /** Creation time of the secret, ms since 1970. */
  readonly madeAt: number;
  readonly logins: number;
  readonly nextLogin: number;
  readonly problem: string | null;
}

/** Required consecutive logins: the provider's servers receive a secret at different times. */
const LOGINS = 2;
const LOGIN_EVERY_MS = 1_000;
const LOGIN_AGAIN_MS = 2_000;

export const newRotation = (account: CloudAccount, keyId: string | null, lifeMs: number): Rotation => ({
  account,
  keyId,
  lifeMs,
  name: `vault-${crypto.randomUUID()}`,
  add: null,
  replaces: null,
  secret: null,
  madeAt: 0,
  logins: 0,
  nextLogin: 0,
  problem: null,
});

/**
 * Creates a new root secret and verifies it. Completion then stores it, and removes the previous one.
 *
 *     findApplicationsByClientId ──► key-add ──► login ×2 ──► done
 *               │                                  ▲   │ refused: count restarts
 *               └──none or several──► problem      └───┘
 */
export const rotationSaga: CloudSaga<Rotation> = {
  next(state, now) {
    if (state.problem !== null) return null;
    const { add, account, secret } = state;
    if (!add) return step("findApplicationsByClientId", account.clientId);
    if (!add.key || secret === null) return keySaga.next(add, now);
    if (state.logins >= LOGINS) return null;
    if (state.nextLogin > now) return { wait: state.nextLogin - now };
    return step("login", account.clientId, secret);
  },

  beforeCall: (state, step) =>
    state.add && !state.add.key ? { ...state, add: keySaga.beforeCall?.(state.add, step) ?? state.add } : state,

  onSuccess(state, step, value, now) {
    if (step.call === "findApplicationsByClientId") {
      const [application, another] = resultOf(step.call, value);
      if (!application) return { ...state, problem: "no application found" };
      if (another) return { ...state, problem: "multiple applications found - double check your client_id" };
      const add = newKeyAdd(application.objectId, state.name, state.lifeMs);
      return { ...state, add, replaces: inUse(application.passwords, state) };
    }
    if (step.call === "login") return { ...state, logins: state.logins + 1, nextLogin: now + LOGIN_EVERY_MS };
    if (!state.add) return state;
    const add = keySaga.onSuccess(state.add, step, value, now);
    if (step.call !== "addApplicationPassword") return { ...state, add };
    return { ...state, add, secret: resultOf(step.call, value).secretText, madeAt: now };
  },

  onError(state, step, failure, now, tries) {
    if (step.call === "login") {
      const none = { ...state, logins: 0 };
      if (isNotYetThere("login", failure, now - state.madeAt)) {
        return retry({ ...failure, retryAfterMs: LOGIN_AGAIN_MS }, none);
      }
      return isTransient(failure) ? retry(failure, none) : { kind: "failed" };
    }
    if (!state.add) return isTransient(failure) ? retry(failure) : { kind: "failed" };
    return mapDecision(keySaga.onError(state.add, step, failure, now, tries), (add) => ({ ...state, add }));
  },
};

/** The id of our secret among an application's secrets: by its known id, or by a hint that only one of them matches. */
function inUse(passwords: readonly PasswordKey[], { keyId, account }: Rotation): string | null {
  if (passwords.some((password) => password.keyId === keyId)) return keyId;
  const alike = passwords.filter(({ hint }) => hint !== "" && account.clientSecret.startsWith(hint));
  return alike.length === 1 ? (alike[0]?.keyId ?? null) : null;
}

/** Undoes `rotationSaga`: removes the new secret; null if there is none. */
export function undoOfRotation({ add }: Rotation, now: number): Removal | null {
  if (!add) return null;
  const undo = undoOfKey(add, now);
  return undo.items.length > 0 || undo.search ? undo : null;
}

/** Removes the orphans of unanswered additions beside the new secret; null when every addition was answered. */
export const orphansOfRotation = ({ add }: Rotation, now: number): Removal | null =>
  add?.strays ? passwordSearch(add.application, add.name, add.key?.keyId ?? null, now) : null;

const DEFAULT_ROOT_TTL = 182 * 86_400;
const OLD_STAYS =
  "the secret before could not be told from the application's other secrets and was not removed; remove it by hand";

/** Begins a rotation; refused for an account without a stored secret. */
export function beginRotation(
  config: EngineConfig | null,
  account: Result<CloudAccount>,
  overrides: AzureSettings,
): Result<Rotation> {
  if (overrides.CLOUD_B_CLIENT_ID || overrides.CLOUD_B_CLIENT_SECRET) {
    const because = "a rotated secret would never be used";
    return refuse(
      "invalid",
      `the settings CLOUD_B_CLIENT_ID and CLOUD_B_CLIENT_SECRET override the configuration: ${because}`,
    );
  }
  if (!account.ok) return account;
  if (account.value.federation) {
    return refuse("invalid", "there is no client_secret to rotate: the engine logs in with identity tokens");
  }
  const life = (config?.root_password_ttl || DEFAULT_ROOT_TTL) * 1000;
  return ok(newRotation(account.value, config?.key_id ?? null, life));
}

/** The new secret, and the removal of the one that it replaces. */
export function outcomeOfRotation(rotation: Rotation, now: number) {
  const { add, secret, problem, replaces } = rotation;
  if (problem !== null || !add?.key || secret === null) return { problem: problem ?? "no secret was made" };
  const { keyId, endsAt } = add.key;
  return {
    promote: (config: EngineConfig) => ({ ...config, client_secret: secret, key_id: keyId, key_ends: endsAt }),
    keyId,
    replaced: replaces,
    removal: replaces === null ? null : passwordRemoval(add.application, replaces, now),
    orphans: orphansOfRotation(rotation, now),
    warnings: replaces === null ? [OLD_STAYS] : [],
  };
}
