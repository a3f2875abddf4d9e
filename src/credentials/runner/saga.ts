import type { CloudCode, CloudFailure } from "../../contracts/cloud-calls.ts";
import type { Step } from "../../contracts/credential-engine.ts";

/** Time limit for the calls of one poll, far below the duration of a lease: no call outlives its lease. */
export const CALL_MS = 20_000;
/** The least time of a call: at the end of its caller's wait. */
export const MIN_CALL_MS = 1_000;
/** The least time of a call that follows successful ones, however long those took. */
export const LATE_CALL_MS = 5_000;

/** The rules of batches; see `CallRules`. */
interface BatchRules {
  readonly withoutResult: ReadonlySet<string>;
  readonly last?: ReadonlySet<string>;
}

/**
 * Whether `later` may leave right after `earlier` succeeds, without a write in between: `earlier` has no result, and an
 * unanswered `later` is safe to repeat, or is undone through ids that are already stored.
 */
const mayFollow = ({ withoutResult, last }: BatchRules, earlier: Step, later: Step): boolean =>
  withoutResult.has(earlier.call) && (withoutResult.has(later.call) || last?.has(later.call) === true);

/**
 * Splits the steps of a batch into groups: the steps of one group may be under way at the same time.
 * @param concurrent sets of calls that change independent things
 */
export function groupsOf(steps: readonly Step[], concurrent: readonly ReadonlySet<string>[] = []): Step[][] {
  const groups: Step[][] = [];
  for (const step of steps) {
    const group = groups.at(-1);
    const first = group?.[0]?.call;
    const isConcurrent = first !== undefined && concurrent.some((calls) => calls.has(step.call) && calls.has(first));
    if (group && isConcurrent) group.push(step);
    else groups.push([step]);
  }
  return groups;
}

/** No step is possible for `wait` ms. */
interface Pause {
  readonly wait: number;
}

/**
 * Consequence of a refused step. `done`: the step counts as successful. `retry`: it is repeated after a back-off, and
 * at the earliest after `afterMs`. `failed`: the job cannot continue; `state`: what its undo begins with.
 */
export type Decision<S> =
  | { readonly kind: "done"; readonly state: S }
  | { readonly kind: "retry"; readonly state?: S; readonly afterMs?: number }
  | { readonly kind: "failed"; readonly state?: S };

/**
 * A sequence of provider calls as pure functions over a stored state. The state is stored before each call and after
 * each result, so after a crash it names all created resources, and all that may exist.
 *
 *     next ──step──► beforeCall ──stored──► call ──ok──► onSuccess ──► next
 *       ├──wait──► next                      └──refused──► onError ──► done, retry or failed
 *       └──null──► outcome
 */
export interface Saga<S, P extends Step = Step> {
  /** The next step, a wait, or null after the last step. */
  next(state: S, now: number): P | Pause | null;
  /** The state to store before a call, which may be applied without an answer. */
  beforeCall?(state: S, step: P): S;
  onSuccess(state: S, step: P, value: unknown, now: number): S;
  /** @param tries earlier attempts of the step */
  onError(state: S, step: P, failure: CloudFailure, now: number, tries: number): Decision<S>;
}

/** Whether the same call may succeed soon, regardless of its arguments. */
export const isTransient = ({ outcome, code }: CloudFailure): boolean => outcome !== "client" || code === "contended";

/** Attempts per code for calls without a usable response: the configured address is probably wrong. */
const UNREACHED_TRIES: Partial<Record<CloudCode, number>> = {
  network_error: 3,
  unreadable_answer: 3,
  deadline_exceeded: 1,
};

/** Like `isTransient`, for calls before anything exists: the caller soon learns that the provider is unreachable. */
export const isWorthRetrying = (failure: CloudFailure, tries: number): boolean =>
  isTransient(failure) && tries < (UNREACHED_TRIES[failure.code] ?? Number.POSITIVE_INFINITY);

/** A retry, at the earliest after the delay that the provider asked for. */
export const retry = <S>(failure: CloudFailure, state?: S): Decision<S> => ({
  kind: "retry",
  ...(state !== undefined && { state }),
  ...(failure.retryAfterMs !== undefined && { afterMs: failure.retryAfterMs }),
});

/** Limit of unanswered create calls for one resource; the searches between them may be answered. */
const UNANSWERED_TRIES = 3;

/** A retry after an unanswered create call, or `failed` above the limit. */
export function retryUnanswered<S extends { readonly unanswered?: number }>(
  state: S,
  failure: CloudFailure,
): Decision<S> {
  const unanswered = (state.unanswered ?? 0) + 1;
  return unanswered > UNANSWERED_TRIES ? { kind: "failed" } : retry(failure, { ...state, unanswered });
}

/** Maps the state of a decision, from a nested saga to its parent. */
export function mapDecision<A, B>(decision: Decision<A>, whole: (part: A) => B): Decision<B> {
  if (decision.kind === "done") return { kind: "done", state: whole(decision.state) };
  const { state, ...rest } = decision;
  return { ...rest, ...(state !== undefined && { state: whole(state) }) };
}

/** Maximum number of steps in one batch. */
const MAX_BATCH = 16;

/**
 * The batch of steps that may leave in sequence from `first` on, each after the success of the one before.
 * @returns the steps, and the state to store before they leave
 */
export function batchOf<S, P extends Step>(
  saga: Saga<S, P>,
  state: S,
  first: P,
  now: number,
  rules: BatchRules,
): { steps: P[]; state: S } {
  const steps: P[] = [];
  let beforeCall = state;
  let expected = state;
  for (let next: P = first; ; ) {
    steps.push(next);
    beforeCall = saga.beforeCall?.(beforeCall, next) ?? beforeCall;
    expected = saga.beforeCall?.(expected, next) ?? expected;
    if (steps.length >= MAX_BATCH || !rules.withoutResult.has(next.call)) break;
    expected = saga.onSuccess(expected, next, undefined, now);
    const later = saga.next(expected, now);
    if (later === null || "wait" in later || !mayFollow(rules, next, later)) break;
    next = later;
  }
  return { steps, state: beforeCall };
}
