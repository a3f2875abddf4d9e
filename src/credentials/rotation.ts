import type { CloudAccount, PasswordKey } from "../contracts/cloud-directory.ts";
import { isNotYetThere } from "../providers/cloud-b-azure/lag.ts";
import { addingKey, type KeyAdd, newKeyAdd } from "./key-add.ts";
import { passwordSearch, type Removal, undoOfKey } from "./removal.ts";
import { again, answerOf, lifted, type Program, passes, step } from "./step.ts";

/** The root secret on its way to be replaced. */
export interface Rotation {
  /** As it was at the start: a configuration that changes meanwhile cannot keep us from cleaning up. */
  readonly account: CloudAccount;
  /** The id of the secret in use, where it is known from the rotation that made it. */
  readonly keyId: string | null;
  /** Ms. */
  readonly lifeMs: number;
  readonly name: string;
  readonly add: KeyAdd | null;
  /** The secret to be replaced; null when it cannot be told from others, and is left alone. */
  readonly replaces: string | null;
  readonly secret: string | null;
  /** When it was made, ms since 1970. */
  readonly madeAt: number;
  readonly logins: number;
  readonly nextLogin: number;
  readonly problem: string | null;
}

/** Logins that must succeed one after the other: the provider's servers learn of a secret at different times. */
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

/** Makes a new root secret and sees it work. Taking it into use, and removing the one before, follows its end. */
export const rotating: Program<Rotation> = {
  next(state, now) {
    if (state.problem !== null) return null;
    const { add, account, secret } = state;
    if (!add) return step("findApplicationsByClientId", account.clientId);
    if (!add.key || secret === null) return addingKey.next(add, now);
    if (state.logins >= LOGINS) return null;
    if (state.nextLogin > now) return { wait: state.nextLogin - now };
    return step("login", account.clientId, secret);
  },

  leaving: (state, step) =>
    state.add && !state.add.key ? { ...state, add: addingKey.leaving?.(state.add, step) ?? state.add } : state,

  took(state, step, value, now) {
    if (step.call === "findApplicationsByClientId") {
      const [application, another] = answerOf(step.call, value);
      if (!application) return { ...state, problem: "no application found" };
      if (another) return { ...state, problem: "multiple applications found - double check your client_id" };
      const add = newKeyAdd(application.objectId, state.name, state.lifeMs);
      return { ...state, add, replaces: inUse(application.passwords, state) };
    }
    if (step.call === "login") return { ...state, logins: state.logins + 1, nextLogin: now + LOGIN_EVERY_MS };
    if (!state.add) return state;
    const add = addingKey.took(state.add, step, value, now);
    if (step.call !== "addApplicationPassword") return { ...state, add };
    return { ...state, add, secret: answerOf(step.call, value).secretText, madeAt: now };
  },

  refused(state, step, failure, now, tries) {
    if (step.call === "login") {
      const none = { ...state, logins: 0 };
      if (isNotYetThere("login", failure, now - state.madeAt)) {
        return again({ ...failure, retryAfterMs: LOGIN_AGAIN_MS }, none);
      }
      return passes(failure) ? again(failure, none) : { kind: "failed" };
    }
    if (!state.add) return passes(failure) ? again(failure) : { kind: "failed" };
    return lifted(addingKey.refused(state.add, step, failure, now, tries), (add) => ({ ...state, add }));
  },
};

/** Which of an application's secrets is ours: by the id we know, or as the only one that begins like it. */
function inUse(passwords: readonly PasswordKey[], { keyId, account }: Rotation): string | null {
  if (passwords.some((password) => password.keyId === keyId)) return keyId;
  const alike = passwords.filter(({ hint }) => hint !== "" && account.clientSecret.startsWith(hint));
  return alike.length === 1 ? (alike[0]?.keyId ?? null) : null;
}

/** Takes away the new secret of a rotation that is given up; null when there is none. */
export function undoOfRotation({ add }: Rotation, now: number): Removal | null {
  if (!add) return null;
  const undo = undoOfKey(add, now);
  return undo.items.length > 0 || undo.search ? undo : null;
}

/** Takes away what unanswered additions have left beside the new secret; null when every addition was answered. */
export const straysOfRotation = ({ add }: Rotation, now: number): Removal | null =>
  add?.strays ? passwordSearch(add.application, add.name, add.key?.keyId ?? null, now) : null;
