import { ok, type Result } from "../../../lib/result.ts";
import { isTransient, isWorthRetrying, mapDecision, retry } from "../../runner/saga.ts";
import { plainName } from "../description.ts";
import { type CloudSaga, resultOf, step } from "./calls.ts";
import type { KeyView, NewKey } from "./cloud.ts";
import type { CloudAccount } from "./config.ts";
import { type KeyChange, keySaga, NO_KEY, orphansOfKey, undoOfKey } from "./key-change.ts";
import { nothing, type Removal } from "./removal.ts";
import { assumedBy, draftStatic, dueOf, type StaticBody, type StaticRole, subjectOf } from "./static-role.ts";

/** A static role being written, or its key being replaced. Persisted in the job. */
export interface StaticWrite {
  readonly name: string;
  readonly role: StaticRole;
  /** The engine's own key: its user cannot be that of a role. */
  readonly own: string;
  /** Whether the user was looked up. */
  readonly known: boolean;
  /** The key to make; null: the role keeps the one that it has. */
  readonly change: KeyChange | null;
  /** A key that is deleted first, because a user has two at most. */
  readonly surplus: string | null;
  /** Refuses the role after the lookup. */
  readonly problem: string | null;
}

/** Keys of a user that the provider allows. */
const MAX_KEYS = 2;

/**
 * Looks a user up, and makes a key of it.
 *
 *     keyHolder ──two keys──► makeRoom ──► keySaga ──► done
 *        └──another user, or the engine's own──► refused
 */
export const staticSaga: CloudSaga<StaticWrite> = {
  next({ role, known, change, surplus, problem }, now) {
    if (problem !== null) return null;
    const as = assumedBy(role);
    if (!known) return step("keyHolder", role.username, ...(as ? [as] : []));
    if (!change) return null;
    if (surplus !== null) return step("makeRoom", role.username, surplus, ...(as ? [as] : []));
    return keySaga.next(change, now);
  },

  beforeCall: (state, each) =>
    withChange(state, (change) => (state.known ? (keySaga.beforeCall?.(change, each) ?? change) : change)),

  onSuccess(state, each, value, now) {
    if (each.call === "keyHolder") return looked(state, resultOf(each.call, value));
    if (each.call === "makeRoom") return { ...state, surplus: null };
    return withChange(state, (change) => keySaga.onSuccess(change, each, value, now));
  },

  onError(state, each, failure, now, tries) {
    if (each.call === "keyHolder") {
      return isTransient(failure) && isWorthRetrying(failure, tries) ? retry(failure) : { kind: "failed" };
    }
    if (each.call === "makeRoom" && failure.code === "not_found") {
      return { kind: "done", state: { ...state, surplus: null } };
    }
    if (!state.change || each.call === "makeRoom") return isTransient(failure) ? retry(failure) : { kind: "failed" };
    return mapDecision(keySaga.onError(state.change, each, failure, now, tries), (change) => ({ ...state, change }));
  },
};

const withChange = (state: StaticWrite, next: (change: KeyChange) => KeyChange): StaticWrite =>
  state.change ? { ...state, change: next(state.change) } : state;

/** The write after the lookup of its user. */
function looked(
  state: StaticWrite,
  { id, keys }: { readonly id: string; readonly keys: readonly KeyView[] },
): StaticWrite {
  const { role, change, own } = state;
  const found: StaticWrite = { ...state, known: true, role: { ...role, id } };
  const refused = `unable to validate username ${JSON.stringify(role.username)}`;
  if (keys.some((key) => key.id === own)) {
    return { ...found, problem: `${refused}: it is the user that the engine itself acts as` };
  }
  if (role.id !== "" && role.id !== id) {
    return { ...found, problem: `${refused}: AWS GetUser returned a user, but the ID did not match` };
  }
  if (!change) return found;
  const surplus = keys.length < MAX_KEYS ? null : surplusOf(role, keys);
  if (surplus === undefined) {
    const others = foreignTo(role, keys).map((key) => key.id);
    const problem = `${refused}: it has two access keys, and the static role did not make ${others.join(" and ")}: delete one, or set adopt_oldest_key`;
    return { ...found, problem };
  }
  const rest = keys.map((key) => key.id).filter((each) => each !== surplus);
  const as = assumedBy(role);
  return { ...found, surplus, change: { ...change, user: { name: role.username, keys: rest }, ...(as && { as }) } };
}

/** Keys of a role's user that others have made, the oldest first. */
const foreignTo = (role: StaticRole, keys: readonly KeyView[]): KeyView[] =>
  keys.filter(({ id }) => id !== role.key && id !== role.previous).sort((a, b) => a.createdAt - b.createdAt);

/**
 * The key that is deleted to make room: the role's former one, else the oldest of others where the role may take it.
 * The role's present key stays, as its readers have it.
 */
const surplusOf = (role: StaticRole, keys: readonly KeyView[]): string | undefined =>
  keys.some(({ id }) => id === role.previous)
    ? role.previous
    : role.adopt_oldest_key
      ? foreignTo(role, keys)[0]?.id
      : undefined;

interface Context {
  readonly account: Result<CloudAccount>;
}

/** Begins a write. A new role gets a key; any other keeps its own. */
export function beginStatic(
  name: string,
  before: StaticRole | null,
  body: StaticBody,
  { account }: Context,
): Result<StaticWrite> {
  if (!account.ok) return account;
  const role = draftStatic(plainName(name), before, body);
  return role.ok ? ok(writeOf(name, role.value, account.value, before ? null : NO_KEY)) : role;
}

/** Begins the replacement of a role's key. */
export const beginStaticRotation = (name: string, role: StaticRole, { account }: Context): Result<StaticWrite> =>
  account.ok ? ok(writeOf(name, role, account.value, NO_KEY)) : account;

const writeOf = (
  name: string,
  role: StaticRole,
  { accessKey }: CloudAccount,
  change: KeyChange | null,
): StaticWrite => ({ name, role, own: accessKey, known: false, change, surplus: null, problem: null });

/** Whether nothing was made, so that another write may replace this one. */
export const isUntouched = ({ change }: StaticWrite): boolean =>
  !change || !(change.adding || change.key || change.strays || change.lost.length > 0);

/** Later writes wait for a search among the user's keys, so that it never takes a key of theirs. */
const locked = (removal: Removal | null, name: string): Removal | null =>
  removal && { ...removal, lock: `role ${name}` };

/** The role of a finished write, and its key. */
export function outcomeOfStatic({ name, role, change, problem }: StaticWrite, now: number) {
  if (problem !== null) return { problem };
  const subject = subjectOf(role);
  if (!change) return { role, removals: [], keeps: { subject, due: dueOf(role) } };
  const { key, user } = change;
  if (!key) return { problem: "no key was made" };
  const previous = user?.keys.includes(role.key) ? role.key : "";
  const next: StaticRole = { ...role, key: key.accessKey, previous, rotatedAt: now };
  const orphans = locked(orphansOfKey(change, now), name);
  return {
    role: next,
    removals: orphans ? [{ of: "strays", removal: orphans, because: "strays" }] : [],
    keeps: { subject, secret: { kind: "static", ...key } as const, due: dueOf(next) },
  };
}

/** Undoes `staticSaga`: removes the new key. Keys that were deleted to make room are gone. */
export function undoOfStatic({ name, change }: StaticWrite, now: number) {
  const removal = change && locked(undoOfKey(change, now), name);
  return removal && { removal };
}

/** Removes the keys of a deleted role; the user stays. */
export function undoOfStaticRole(role: StaticRole): Removal | null {
  const ids = [role.previous, role.key].filter((id) => id !== "");
  const as = assumedBy(role);
  const items = ids.map((id) => ({ kind: "key", user: role.username, id, ...(as && { as }) }) as const);
  return ids.length === 0 ? null : { ...nothing, madeAt: role.rotatedAt, items };
}

/** The answer's `data`; clients that poll read `ttl`, and `last_vault_rotation` to see a change. */
export const staticData = (role: StaticRole, { accessKey, secretKey }: NewKey, now: number) => ({
  access_key: accessKey,
  secret_key: secretKey,
  expiration: new Date(dueOf(role)).toISOString(),
  ttl: Math.max(0, Math.ceil((dueOf(role) - now) / 1000)),
  last_vault_rotation: new Date(role.rotatedAt).toISOString(),
  rotation_period: role.rotation_period,
});
