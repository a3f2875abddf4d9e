import { ok, type Result } from "../../../lib/result.ts";
import { isTransient, isWorthRetrying, retry, retryUnanswered } from "../../runner/saga.ts";
import type { IssueContext } from "../engine-type.ts";
import { type ProducerSaga, resultOf, step } from "./calls.ts";
import type { Account, Captured, Held, Made, Marked, Vars } from "./cloud.ts";
import { type LeaseResources, type Removal, removalOf } from "./removal.ts";
import { newMarker, type Role, varsOf } from "./role.ts";

/** Credentials being created. Persisted in the job. */
export interface Issue {
  /** By which an unanswered creation is found. */
  readonly marker: string;
  readonly vars: Vars;
  /** New secrets of the engine. */
  readonly root?: true;
  /** First end of the object at the provider, which renewals move, and the end of all renewals, ms since 1970. */
  readonly expires: number;
  readonly endsAt: number;
  /** Whether objects of lost answers are searched for; otherwise they end by themselves. */
  readonly finds: boolean;
  readonly lag: number;
  /** The call that creates was sent; its outcome is unknown. */
  readonly sent: boolean;
  /** Objects of lost answers, which are removed because their secret is lost. */
  readonly lost: readonly Captured[];
  /** An unanswered creation may have made an object that is not listed yet. */
  readonly strays: boolean;
  readonly unanswered?: number;
  readonly made: Captured | null;
}

const markedOf = ({ marker, vars, root }: Issue): Marked => ({ marker, vars, ...(root && { root }) });

export const heldOf = (issue: Issue, ids: Captured): Held => ({ ids, ...markedOf(issue), lag: issue.lag });

/**
 * Creates one object. Those of unanswered calls are removed first, because their secrets are lost.
 *
 *     create ──answered──► done
 *       │ outcome unknown
 *       ▼
 *     find ──► revoke each ──► create
 *       └──none: orphan possible──► create
 */
export const issueSaga: ProducerSaga<Issue> = {
  next(state) {
    const { made, lost, sent, expires } = state;
    if (made) return null;
    if (lost[0] !== undefined) return step("revoke", JSON.stringify(heldOf(state, lost[0])));
    return sent ? step("find", markedOf(state)) : step("create", { ...markedOf(state), expires });
  },

  beforeCall: (state, { call }) => (call === "create" ? { ...state, sent: true } : state),

  onSuccess(state, { call, args }, value) {
    switch (call) {
      case "create":
        return { ...state, sent: false, made: resultOf(call, value).ids };
      case "find": {
        const lost = resultOf(call, value);
        return { ...state, sent: false, lost, strays: state.strays || lost.length === 0 };
      }
      case "revoke":
        return without(state, args);
      default:
        return state;
    }
  },

  onError(state, { call, args }, failure, _now, tries) {
    if (call === "create" && failure.outcome === "unknown") {
      return state.finds ? retryUnanswered(state, failure) : { kind: "failed" };
    }
    if (call === "create") {
      const free = { ...state, sent: false };
      const isWorthIt = isTransient(failure) && (state.unanswered !== undefined || isWorthRetrying(failure, tries));
      return isWorthIt ? retry(failure, free) : { kind: "failed", state: free };
    }
    if (call === "revoke" && failure.code === "not_found") {
      // The provider listed it a moment ago, so "not found" is not reliable yet.
      return { kind: "done", state: { ...without(state, args), strays: true } };
    }
    return isTransient(failure) ? retry(failure) : { kind: "failed" };
  },
};

/** Without the object of a removal. Those of a batch may be answered in any order. */
function without(state: Issue, [held]: readonly unknown[]): Issue {
  const at = state.lost.findIndex((ids) => JSON.stringify(heldOf(state, ids)) === held);
  return { ...state, lost: state.lost.filter((_, nth) => nth !== at) };
}

type Context = Pick<IssueContext<never>, "lifeMs" | "ttlMs" | "maxTtlMs"> & {
  readonly account: Account & { readonly vars: Vars };
};

/** A first end that outlives its lease: the answer and a renewal take a moment. */
const MARGIN_MS = 60_000;

export function newIssue(role: Role, { account, lifeMs, ttlMs, maxTtlMs }: Context): Result<Issue> {
  const vars = varsOf(role, account);
  if (!vars.ok) return vars;
  const now = Date.now();
  const { find, renew, lag } = account.definition;
  const endsAt = now + (find ? lifeMs : Math.min(ttlMs, maxTtlMs));
  const expires = find && renew ? Math.min(now + ttlMs + MARGIN_MS, endsAt) : endsAt;
  const start = { marker: newMarker(), vars: vars.value, expires, endsAt, finds: find !== undefined, lag };
  return ok({ ...start, sent: false, lost: [], strays: false, made: null });
}

/** The answer's `data`. */
export interface Secret {
  readonly data: Vars;
}

/** The lease of finished credentials. @param value the answer of the creation, which has the secret */
export function outcomeOfIssue(issue: Issue, value: unknown) {
  const { data } = value as Made;
  const { made, endsAt, finds } = issue;
  if (!made) throw new Error("nothing was made");
  const secret: Secret = { data };
  const resources: LeaseResources = { held: finds ? heldOf(issue, made) : null };
  return { resources, secret, endsAt, ...(!finds && { renewable: false, lease: "secret" as const }) };
}

const searchOf = (issue: Issue, except: Captured | null) => ({ ...markedOf(issue), lag: issue.lag, except });

/** Undoes `issueSaga`: removes everything that it created or may have created. */
export function undoOfIssue(issue: Issue, now: number): Removal {
  const { made, lost, sent, strays, finds } = issue;
  const held = [...(made && finds ? [made] : []), ...lost].map((ids) => heldOf(issue, ids));
  return removalOf(held, finds && (sent || strays) ? searchOf(issue, null) : null, now);
}

/** Removes what unanswered calls may have left beside finished credentials; null when every call was answered. */
export function orphansOfIssue(issue: Issue, now: number): Removal | null {
  const { made, strays, finds } = issue;
  return finds && strays && made ? removalOf([], searchOf(issue, made), now) : null;
}
