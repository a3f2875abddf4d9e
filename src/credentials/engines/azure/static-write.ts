import { ok, type Result, refuse } from "../../../lib/result.ts";
import { isTransient, isWorthRetrying, mapDecision, retry } from "../../runner/saga.ts";
import { type CloudSaga, resultOf, step } from "./calls.ts";
import type { Application, CloudAccount } from "./directory.ts";
import type { ClientSecret } from "./issue.ts";
import { type KeyAdd, keySaga, newKeyAdd, passwordSearch, undoOfKey } from "./key-add.ts";
import { isNotYetThere } from "./lag.ts";
import { nothing, type Removal } from "./removal.ts";
import {
  draftStatic,
  dueOf,
  graceOf,
  type Import,
  importOf,
  rotationOf,
  type StaticBody,
  type StaticRole,
} from "./static-role.ts";

/** A static role being written, or its password being replaced. Persisted in the job. */
export interface StaticWrite {
  readonly name: string;
  /** Without the password that is dropped. */
  readonly role: StaticRole;
  /** The engine's own client id: its application cannot be that of a role. */
  readonly ownClientId: string;
  /** Whether the application was looked up. */
  readonly known: boolean;
  readonly adopts: Import | null;
  /** Whether a password is made. */
  readonly makes: boolean;
  /** A password that is removed first: the one before the current, which never outlives a rotation. */
  readonly drop: string | null;
  /** Such a password that the directory does not show, which lag may cause: its removal is checked again. */
  readonly unlisted?: string | null;
  readonly add: KeyAdd | null;
  /** The text of the new password. */
  readonly secret: string | null;
  /** Time of its creation, ms since 1970. */
  readonly madeAt: number;
  /** Whether the application has a principal here, so that its password can log in; null: not looked up yet. */
  readonly logsIn: boolean | null;
  readonly logins: number;
  readonly nextLogin: number;
  readonly problem: string | null;
}

/** Required consecutive logins: the provider's servers receive a secret at different times. */
const LOGINS = 2;
const LOGIN_EVERY_MS = 1_000;
const LOGIN_AGAIN_MS = 2_000;
const OWN = "is the application that the engine itself acts as";

/**
 * Looks an application up, and replaces its password.
 *
 *     getApplication ──► drop the password before ──► key-add ──► findServicePrincipals ──► login ×2 ──► done
 *        └──the engine's own, or an unknown import──► refused                    └──none──► done
 */
export const staticSaga: CloudSaga<StaticWrite> = {
  next(state, now) {
    const { role, known, drop, add, problem, logsIn, secret } = state;
    if (problem !== null) return null;
    if (!known) return step("getApplication", role.application_object_id);
    if (drop !== null) return step("removeApplicationPassword", role.application_object_id, drop);
    if (!add) return null;
    if (!add.key || secret === null) return keySaga.next(add, now);
    if (logsIn === null) return step("findServicePrincipals", role.application_id);
    if (!logsIn || state.logins >= LOGINS) return null;
    if (state.nextLogin > now) return { wait: state.nextLogin - now };
    return step("login", role.application_id, secret);
  },

  beforeCall: (state, each) =>
    state.add ? { ...state, add: keySaga.beforeCall?.(state.add, each) ?? state.add } : state,

  onSuccess(state, each, value, now) {
    if (!state.known && each.call === "getApplication") return looked(state, resultOf(each.call, value), now);
    if (state.drop !== null && each.call === "removeApplicationPassword") return { ...state, drop: null };
    if (each.call === "findServicePrincipals") return { ...state, logsIn: resultOf(each.call, value).length > 0 };
    if (each.call === "login") return { ...state, logins: state.logins + 1, nextLogin: now + LOGIN_EVERY_MS };
    if (!state.add) return state;
    const add = keySaga.onSuccess(state.add, each, value, now);
    if (each.call !== "addApplicationPassword") return { ...state, add };
    return { ...state, add, secret: resultOf(each.call, value).secretText, madeAt: now };
  },

  onError(state, each, failure, now, tries) {
    if (!state.known) {
      if (failure.code === "not_found") {
        const none = `there is none with the object id '${state.role.application_object_id}'`;
        return { kind: "done", state: { ...state, problem: `error loading Application: ${none}` } };
      }
      return isWorthRetrying(failure, tries) ? retry(failure) : { kind: "failed" };
    }
    if (state.drop !== null) {
      if (failure.code === "not_found") return { kind: "done", state: { ...state, drop: null, unlisted: state.drop } };
      return isTransient(failure) ? retry(failure) : { kind: "failed" };
    }
    if (each.call === "login") {
      const none = { ...state, logins: 0 };
      if (isNotYetThere("login", failure, now - state.madeAt)) {
        return retry({ ...failure, retryAfterMs: LOGIN_AGAIN_MS }, none);
      }
      return isTransient(failure) ? retry(failure, none) : { kind: "failed" };
    }
    if (each.call === "findServicePrincipals" || !state.add) {
      return isTransient(failure) ? retry(failure) : { kind: "failed" };
    }
    return mapDecision(keySaga.onError(state.add, each, failure, now, tries), (add) => ({ ...state, add }));
  },
};

/** The write after the lookup of its application. */
function looked(state: StaticWrite, { clientId, passwords }: Application, now: number): StaticWrite {
  const { role, ownClientId, adopts, makes } = state;
  const found: StaticWrite = { ...state, known: true, role: { ...role, application_id: clientId } };
  if (clientId.toLowerCase() === ownClientId.toLowerCase()) {
    return { ...found, problem: `application_object_id: ${OWN}` };
  }
  const listed = (id: string | undefined) => passwords.find(({ keyId }) => keyId.toLowerCase() === id?.toLowerCase());
  const imported = adopts && listed(adopts.id);
  if (adopts && !imported) {
    return { ...found, problem: `secret_id: the application has no password with the id '${adopts.id}'` };
  }
  if (adopts && imported && adopts.text !== "" && !adopts.text.startsWith(imported.hint)) {
    return { ...found, problem: "client_secret: is not the text of the password secret_id" };
  }
  const life = role.rotation_period * 1000;
  const taken: StaticRole = imported
    ? { ...found.role, key: { id: imported.keyId, endsAt: imported.endsAt ?? now + life, imported: true } }
    : found.role;
  const [drop, unlisted] = listed(state.drop ?? undefined) ? [state.drop, null] : [null, state.drop];
  const add = makes ? newKeyAdd(role.application_object_id, `vault-${crypto.randomUUID()}`, life) : null;
  return { ...found, role: taken, drop, unlisted, add };
}

interface Context {
  readonly account: Result<CloudAccount>;
}

const NEW_WRITE = {
  known: false,
  adopts: null,
  makes: false,
  drop: null,
  add: null,
  secret: null,
  madeAt: 0,
  logsIn: null,
  logins: 0,
  nextLogin: 0,
  problem: null,
} as const;

/** Begins a write. A new role gets a password, unless its body imports or defers one; any other keeps its own. */
export function beginStatic(
  name: string,
  before: StaticRole | null,
  body: StaticBody,
  { account }: Context,
): Result<StaticWrite> {
  if (!account.ok) return account;
  const role = draftStatic(before, body, account.value.seamless);
  if (!role.ok) return role;
  const adopts = importOf(body, before);
  if (!adopts.ok) return adopts;
  const later = body.defer_initial_creds === true || body.skip_import_rotation === true;
  const makes = adopts.value ? adopts.value.text === "" && !adopts.value.later : !before && !later;
  const write = { ...NEW_WRITE, name, ownClientId: account.value.clientId, adopts: adopts.value, makes };
  return ok({ ...write, ...dropping(role.value, adopts.value !== null) });
}

/** Begins the work that is due for a role, or by hand the replacement of its password. @param at as in `RoleRules.rotate` */
export function beginStaticRotation(
  name: string,
  role: StaticRole,
  at: string,
  { account }: Context,
): Result<StaticWrite> {
  if (!account.ok) return account;
  const now = Date.now();
  const makes = at !== "" || rotationOf(role) <= now;
  const isOver = role.previous !== null && role.previous.removeAt <= now;
  const write = { ...NEW_WRITE, name, ownClientId: account.value.clientId, makes };
  return ok({ ...write, ...dropping(role, makes || isOver) });
}

/** The password before the current one never outlives another rotation. */
const dropping = (role: StaticRole, drops: boolean) =>
  drops ? { role: { ...role, previous: null }, drop: role.previous?.id ?? null } : { role, drop: null };

/** Whether nothing was made, so that another write may replace this one. */
export const isUntouched = ({ add }: Pick<StaticWrite, "add">): boolean =>
  !add || !(add.adding || add.key || add.strays || add.lost.length > 0);

/** The role of a finished write, and its password. */
export function outcomeOfStatic(
  { role, problem, adopts, unlisted, add, secret }: StaticWrite,
  before: StaticRole | null,
  now: number,
) {
  if (problem !== null) return { problem };
  const subject = role.application_object_id.toLowerCase();
  const removalOf = (ids: readonly string[]) =>
    ids.length > 0 ? [{ of: "replaced", removal: passwordsOf(role, ids), ...REPLACED }] : [];
  const late = unlisted ? [unlisted] : [];
  if (!add && !adopts && before) return { role, removals: removalOf(late), keeps: { subject, due: dueOf(role) } };
  if (add && (!add.key || secret === null)) return { problem: "no password was made" };
  const key = add?.key ? { id: add.key.keyId, endsAt: add.key.endsAt, imported: false } : role.key;
  // Of an import that is replaced at once, the role had another password before.
  const [former, older] = [add ? role.key : before?.key, add && adopts ? before?.key : null].map((each) =>
    each && each.id !== key?.id ? each.id : null,
  );
  const graceMs = graceOf(role) * 1000;
  const keeps = former && graceMs > 0;
  const next: StaticRole = {
    ...role,
    key,
    previous: keeps ? { id: former, removeAt: now + graceMs } : null,
    rotatedAt: now,
  };
  const replaced = [keeps ? null : former, older === former ? null : older, ...late].flatMap((id) => id ?? []);
  const strays = add?.strays ? passwordSearch(add.application, add.name, key?.id ?? null, now) : null;
  const kept: ClientSecret = { clientId: role.application_id, clientSecret: secret ?? adopts?.text ?? "" };
  return {
    role: next,
    removals: [...removalOf(replaced), ...(strays ? [{ of: "strays", removal: strays, because: "strays" }] : [])],
    keeps: { subject, secret: kept, due: dueOf(next) },
  };
}

const REPLACED = { because: "replaced password of a role", former: true } as const;

/** Removes passwords of a role before its next one. */
const passwordsOf = (
  { application_object_id: application, rotatedAt }: StaticRole,
  ids: readonly string[],
): Removal => ({
  ...nothing,
  // The newest of them was made by then.
  madeAt: rotatedAt,
  items: ids.map((keyId) => ({ kind: "password", application, keyId }) as const),
});

/** Undoes `staticSaga`: removes the new password; null if there is none. */
export function undoOfStatic({ add }: StaticWrite, now: number) {
  return !add || isUntouched({ add }) ? null : { removal: undoOfKey(add, now) };
}

/** Removes the passwords of a deleted role that the engine has made, or has replaced; the application stays. */
export function undoOfStaticRole(role: StaticRole): Removal | null {
  const { key, previous } = role;
  const ids = [...(previous ? [previous.id] : []), ...(key && !key.imported ? [key.id] : [])];
  return ids.length === 0 ? null : passwordsOf(role, ids);
}

/** The answer's `data`; clients that poll read `ttl`, and `last_vault_rotation` to see a change. */
export function staticData(
  role: StaticRole,
  { clientId, clientSecret }: ClientSecret,
  now: number,
  account: Result<CloudAccount>,
): Result<Record<string, unknown>> {
  if (account.ok && account.value.clientId.toLowerCase() === clientId.toLowerCase()) {
    return refuse("invalid", "the role is for the application that the engine itself acts as");
  }
  const { key } = role;
  if (clientSecret === "" || !key) {
    return refuse("invalid", "the role has no credentials yet: rotate it to make them");
  }
  return ok({
    client_id: clientId,
    client_secret: clientSecret,
    secret_id: key.id,
    expiration: new Date(key.endsAt).toISOString(),
    ttl: Math.max(0, Math.ceil((rotationOf(role) - now) / 1000)),
    last_vault_rotation: new Date(role.rotatedAt).toISOString(),
    rotation_period: role.rotation_period,
    ...(role.metadata && { metadata: role.metadata }),
  });
}
