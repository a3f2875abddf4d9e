import { ok, type Result, refuse } from "../../../lib/result.ts";
import { CALL_MS, isTransient, mapDecision, retry } from "../../runner/saga.ts";
import { type ProducerSaga, resultOf, step } from "./calls.ts";
import type { Account, Captured, Held, Vars } from "./cloud.ts";
import type { EngineConfig } from "./config.ts";
import { heldOf, type Issue, issueSaga, orphansOfIssue, undoOfIssue } from "./issue.ts";
import { type Removal, rootRemoval } from "./removal.ts";
import { newMarker } from "./role.ts";

/** A replacement of secrets of the engine in progress. Persisted in the job. */
export interface Rotation {
  /** The account at the start, so that clean-up works after a change of the configuration. */
  readonly account: Account & { readonly vars: Vars };
  /** The object of the present secrets, which is removed when they are replaced; null: unknown. */
  readonly old: Held | null;
  /** Whether that is still to be read. */
  readonly reads: boolean;
  /** A search by the new marker has found nothing. */
  readonly searched: boolean;
  readonly problem: string | null;
  readonly issue: Issue;
  /** The new secrets; null before they are made. */
  readonly secrets: Vars | null;
  /** Time of their creation, ms since 1970. */
  readonly madeAt: number;
  /** Consecutive calls with them. */
  readonly uses: number;
  readonly nextUse: number;
}

/** Required consecutive calls: the provider's servers may receive a secret at different times. */
const USES = 3;
const USE_EVERY_MS = 500;
const USE_AGAIN_MS = 2_000;
const FRESH_MS = 3 * 60_000;

/**
 * Makes new secrets as credentials are made, and uses them until the provider accepts them. Completion then stores them,
 * and removes what those before belong to.
 *
 *     self ──► find ──none──► issueSaga ──► use ×3 ──► done
 *                └──something was found──► problem
 */
export const rotationSaga: ProducerSaga<Rotation> = {
  next({ account, reads, searched, problem, issue, secrets, uses, nextUse }, now) {
    if (problem !== null) return null;
    const object = { marker: issue.marker, vars: issue.vars, root: true } as const;
    if (reads) return step("self", account.vars);
    if (!searched) return step("find", object);
    const making = issueSaga.next(issue, now);
    if (making !== null || !secrets) return making;
    if (uses >= USES) return null;
    return nextUse > now ? { wait: nextUse - now } : step("use", object, secrets);
  },

  beforeCall: (state, each) => ({ ...state, issue: issueSaga.beforeCall?.(state.issue, each) ?? state.issue }),

  onSuccess(state, each, value, now) {
    const { call } = each;
    if (call === "self") {
      const ids = resultOf(call, value);
      return { ...state, reads: false, old: ids ? ofOperator(state, ids) : state.old };
    }
    if (call === "find" && !state.searched) {
      const isEmpty = resultOf(call, value).length === 0;
      return isEmpty
        ? { ...state, searched: true }
        : { ...state, problem: "root.find: finds objects of another marker" };
    }
    if (call === "use") return { ...state, uses: state.uses + 1, nextUse: now + USE_EVERY_MS };
    const issue = issueSaga.onSuccess(state.issue, each, value, now);
    return call === "create"
      ? { ...state, issue, secrets: resultOf(call, value).data, madeAt: now }
      : { ...state, issue };
  },

  onError(state, each, failure, now, tries) {
    if (each.call === "use") {
      const none = { ...state, uses: 0 };
      const isFresh =
        now - state.madeAt < FRESH_MS && ["auth_failed", "not_found", "permission_denied"].includes(failure.code);
      if (isFresh) return retry({ ...failure, retryAfterMs: USE_AGAIN_MS }, none);
      return isTransient(failure) ? retry(failure, none) : { kind: "failed" };
    }
    const decision = issueSaga.onError(state.issue, each, failure, now, tries);
    return mapDecision(decision, (issue) => ({ ...state, issue }));
  },
};

const ofOperator = ({ issue: { vars, lag } }: Rotation, ids: Captured): Held => ({
  ids,
  marker: "",
  vars,
  lag,
  root: true,
});

/** Begins a rotation; refused for a definition without one. */
export function beginRotation(
  config: EngineConfig | null,
  account: Result<Account & { readonly vars: Vars }>,
): Result<Rotation> {
  if (!account.ok) return account;
  const { definition, vars } = account.value;
  if (!definition.root) return refuse("invalid", "producer: has no root, which a rotation needs");
  const expires = Date.now() + (definition.root.ttl ?? 0) * 1000;
  const issue: Issue = {
    marker: newMarker(),
    vars,
    root: true,
    expires,
    endsAt: expires,
    finds: true,
    lag: definition.lag,
    sent: false,
    lost: [],
    strays: false,
    made: null,
  };
  return ok({
    account: account.value,
    old: config?.root ?? null,
    reads: definition.root.self !== undefined && !config?.root,
    searched: false,
    problem: null,
    issue,
    secrets: null,
    madeAt: 0,
    uses: 0,
    nextUse: 0,
  });
}

const textOf = (ids: Captured): string => Object.values(ids).join(" ");

/** The new secrets, and the removal of what those before belong to. */
export function outcomeOfRotation(rotation: Rotation, now: number) {
  const { problem, issue, secrets, old } = rotation;
  if (problem !== null) return { problem };
  if (!issue.made || !secrets) return { problem: "no secrets were made" };
  const root = heldOf(issue, issue.made);
  return {
    promote: (config: EngineConfig): EngineConfig => ({ ...config, secrets: { ...config.secrets, ...secrets }, root }),
    keyId: textOf(issue.made) || issue.marker,
    replaced: old && textOf(old.ids),
    removal: old && rootRemoval(old, now + CALL_MS),
    orphans: orphansOfIssue(issue, now),
    warnings: old ? [] : ["the secrets before stay valid until you remove them at the provider"],
  };
}

/** Undoes `rotationSaga`: removes the new secrets; null when there are none. */
export function undoOfRotation({ issue }: Rotation, now: number): Removal | null {
  const undo = undoOfIssue(issue, now);
  return undo.items.length === 0 && undo.search === null ? null : undo;
}
