import { ok, type Result, refuse } from "../../../lib/result.ts";
import { nameOf } from "../../name-template.ts";
import { isTransient, isWorthRetrying, retry, retryUnanswered } from "../../runner/saga.ts";
import type { IssueContext } from "../engine-type.ts";
import { type CloudSaga, resultOf, step } from "./calls.ts";
import type { NewUser } from "./cloud.ts";
import type { CloudAccount } from "./config.ts";
import { FRESH_MS, isOurs, keySearch, MARKER, nothing, type Removal, userRemoval, userSearch } from "./removal.ts";
import type { Role } from "./role.ts";
import { sanitized } from "./session.ts";

/** A user with a key being created. Persisted in the job. */
export interface UserIssue {
  readonly kind: "user";
  /** The name, the tag with our marker, path and boundary; chosen before the first call. */
  readonly user: NewUser;
  /** Value of our tag. A user of the name without it is not ours. */
  readonly marker: string;
  /** The create call was sent; its outcome is unknown. */
  readonly creating: boolean;
  /** Time of the creation, ms since 1970; null before it. */
  readonly createdAt: number | null;
  /** Rights that are still to be given to the user. */
  readonly attach: readonly string[];
  readonly put: { readonly name: string; readonly document: string } | null;
  readonly join: readonly string[];
  /** The call that makes the key was sent; its outcome is unknown. */
  readonly adding: boolean;
  /** That call left in an earlier batch, whose answer was lost: a later refusal of another call is no proof against it. */
  readonly unsure?: boolean;
  /** Keys whose text was lost, to be removed. */
  readonly lost: readonly string[];
  /** A lost call may have made a key that is not listed yet. */
  readonly strays: boolean;
  readonly unanswered?: number;
  readonly key: string | null;
  /** End of all renewals of the lease, ms since 1970. */
  readonly endsAt: number;
}

/**
 * Creates a user with its rights, and a key of it last.
 *
 *     createUser ──► attachPolicy, putPolicy, addToGroup … ──► createKey ──► done
 *      │ unknown, or the name exists                            │ unknown
 *      ▼                                                        ▼
 *     getUser ──with our tag──► goes on                        listKeys ──► deleteKey each ──► createKey
 *      ├──not found──► createUser                                 └──none: orphan possible
 *      └──of others──► createUser ──the name exists──► refused
 */
export const userSaga: CloudSaga<UserIssue> = {
  next({ key, user, creating, createdAt, attach, put, join, lost, adding }) {
    if (key !== null) return null;
    if (createdAt === null) return creating ? step("getUser", user.name) : step("createUser", user);
    if (attach[0] !== undefined) return step("attachPolicy", user.name, attach[0]);
    if (put) return step("putPolicy", user.name, put.name, put.document);
    if (join[0] !== undefined) return step("addToGroup", user.name, join[0]);
    if (lost[0] !== undefined) return step("deleteKey", user.name, lost[0]);
    return adding ? step("listKeys", user.name) : step("createKey", user.name);
  },

  beforeCall(before, { call }) {
    // The key is made by the last call of a batch.
    const state = before.adding ? { ...before, unsure: true } : before;
    if (call === "createUser") return { ...state, creating: true };
    return call === "createKey" ? { ...state, adding: true } : state;
  },

  onSuccess(state, { call, args }, value, now) {
    switch (call) {
      case "createUser":
        return { ...state, creating: false, createdAt: now };
      case "getUser":
        // A user of others: the next attempt is refused for it, and is not taken for ours.
        return isOurs(state, resultOf(call, value).tags)
          ? { ...state, creating: false, createdAt: now }
          : { ...state, creating: false, unanswered: 0 };
      case "attachPolicy":
        return { ...state, attach: state.attach.filter((arn) => arn !== args[1]) };
      case "putPolicy":
        return { ...state, put: null };
      case "addToGroup":
        return { ...state, join: state.join.filter((group) => group !== args[1]) };
      case "createKey":
        return { ...state, adding: false, key: resultOf(call, value).accessKey };
      case "listKeys": {
        const lost = resultOf(call, value).map(({ id }) => id);
        const mayHave = (state.unanswered ?? 0) > 0 || state.unsure === true;
        const strays = state.strays || (lost.length === 0 && mayHave);
        return { ...state, adding: false, unsure: false, lost, strays };
      }
      case "deleteKey":
        return { ...state, lost: state.lost.filter((id) => id !== args[1]) };
      default:
        return state;
    }
  },

  onError(state, step, failure, now, tries) {
    const { call } = step;
    if (call === "createUser" || call === "createKey") {
      if (failure.outcome === "unknown") return retryUnanswered(state, failure);
    }
    if (call === "createUser") {
      // The name is random: a user of it may be ours, by a call whose answer was lost.
      if (failure.code === "already_exists" && (state.unanswered ?? 0) > 0) return { kind: "done", state };
      const free = { ...withoutKey(state), creating: false };
      return isTransient(failure) && isWorthRetrying(failure, tries)
        ? retry(failure, free)
        : { kind: "failed", state: free };
    }
    if (call === "getUser" && isMissing(failure.code)) return { kind: "done", state: { ...state, creating: false } };
    if (call === "deleteKey" && failure.code === "not_found") {
      return { kind: "done", state: userSaga.onSuccess({ ...state, strays: true }, step, null, now) };
    }
    const free = call === "listKeys" ? state : withoutKey(state);
    const isNew = isMissing(failure.code) && now - (state.createdAt ?? 0) < FRESH_MS;
    const isWorthIt =
      isTransient(failure) || (failure.code === "not_replicated" && isNew) || (call === "listKeys" && isNew);
    return isWorthIt ? retry(failure, free) : { kind: "failed", state: free };
  },
};

/** The state after a failure before the key's call: a batch ends at its first failure, so that call was not made. */
const withoutKey = (state: UserIssue): UserIssue => (state.unsure ? state : { ...state, adding: false });

const isMissing = (code: string): boolean => code === "not_found" || code === "not_replicated";

/** Undoes `userSaga`: removes the user and everything it has, or searches for it by its name and our tag. */
export function undoOfUser({ user, marker, creating, createdAt, key, lost }: UserIssue, now: number): Removal {
  const keys = [...(key === null ? [] : [key]), ...lost];
  if (createdAt !== null) return userRemoval(user.name, keys, createdAt);
  return creating ? { ...nothing, search: userSearch(user.name, marker, now), madeAt: now } : nothing;
}

/** Removes keys that unanswered calls may have left beside the finished one; null when every call was answered. */
export const orphansOfUser = ({ user, key, strays }: UserIssue, now: number): Removal | null =>
  strays ? { ...nothing, search: keySearch(user.name, key === null ? [] : [key], now), madeAt: now } : null;

type Asked = Pick<IssueContext<never>, "name" | "displayName" | "lifeMs"> & { readonly account: CloudAccount };

const MAX_NAME = 64;

/** Begins a user for a lease of a role. */
export function newUser(role: Role, { account, name: policyName, displayName, lifeMs }: Asked): Result<UserIssue> {
  const fields = { Type: "IAM", DisplayName: sanitized(displayName), PolicyName: sanitized(policyName) };
  const name = nameOf(account.template, fields);
  if (!name.ok) return name;
  if (name.value.length > MAX_NAME) {
    return refuse(
      "invalid",
      "the username generated by the template exceeds the IAM username length limits of 64 chars",
    );
  }
  if (!/^[\w+=,.@-]+$/.test(name.value)) {
    return refuse("invalid", "the username generated by the template has characters that IAM does not accept");
  }
  const marker = crypto.randomUUID();
  return ok({
    kind: "user",
    user: {
      name: name.value,
      path: role.user_path,
      boundary: role.permissions_boundary_arn,
      tags: { ...role.iam_tags, [MARKER]: marker },
    },
    marker,
    creating: false,
    createdAt: null,
    attach: role.policy_arns ?? [],
    put: role.policy_document === "" ? null : { name: policyName, document: role.policy_document },
    join: role.iam_groups ?? [],
    adding: false,
    lost: [],
    strays: false,
    key: null,
    endsAt: Date.now() + lifeMs,
  });
}
