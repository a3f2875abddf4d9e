import type { Cloud, CloudCode, CloudFailure } from "../contracts/cloud-directory.ts";
import type { Step, StepResult } from "../contracts/credential-engine.ts";

/** The calls of a turn may take this long; far less than a claim lasts, so that no call outlives the claim it was made under. */
export const CALL_MS = 20_000;

export const step = <K extends keyof Cloud>(call: K, ...args: Parameters<Cloud[K]>): Step =>
  ({ call, args }) as unknown as Step;

/** Calls whose success tells nothing that was not known before them. */
const TELLS_NOTHING: ReadonlySet<keyof Cloud> = new Set([
  "updateApplication",
  "deleteApplication",
  "purgeDeleted",
  "removeApplicationPassword",
  "deleteServicePrincipal",
  "addGroupMember",
  "removeGroupMember",
  "createRoleAssignment",
  "deleteRoleAssignment",
] satisfies (keyof Cloud)[]);

/**
 * Whether `later` may leave as soon as `earlier` has succeeded, with nothing stored in between: the one must tell nothing, and
 * the other, should no answer come, must be harmless to repeat or go with what is known already.
 */
const mayFollow = (earlier: Step, later: Step): boolean =>
  TELLS_NOTHING.has(earlier.call) && (TELLS_NOTHING.has(later.call) || later.call === "addPrincipalPassword");

/** What a call answers when it succeeds. */
export type ValueOf<K extends keyof Cloud> = Extract<Awaited<ReturnType<Cloud[K]>>, { ok: true }>["value"];
/** A step's value with the type that its call has; the only place where the two are brought together. */
export const answerOf = <K extends keyof Cloud>(_call: K, value: unknown): ValueOf<K> => value as ValueOf<K>;

/** Makes the call. */
export function performStep(cloud: Cloud, { call, args }: Step): Promise<StepResult> {
  return (cloud[call] as (...parameters: unknown[]) => Promise<StepResult>).apply(cloud, [...args]);
}

/** Nothing can be done before `wait` ms have passed. */
export interface Pause {
  readonly wait: number;
}

/**
 * What a refused step means for its job. `took`: it is as good as done. `again`: the step is repeated after a back-off, and
 * not before `afterMs`. `failed`: the job cannot go on.
 */
export type Verdict<S> =
  | { readonly kind: "took"; readonly state: S }
  | { readonly kind: "again"; readonly state?: S; readonly afterMs?: number }
  | { readonly kind: "failed" };

/**
 * A piece of work at the cloud, as pure functions of what is known so far. The state is stored before each step leaves and
 * after each answer that tells something, so whoever goes on after a crash knows all that was made, and what may have been.
 */
export interface Program<S> {
  /** The next step, a pause, or null when nothing is left to do. */
  next(state: S, now: number): Step | Pause | null;
  /** The state from the moment at which the step leaves: it may come to pass without an answer. */
  leaving?(state: S, step: Step): S;
  took(state: S, step: Step, value: unknown, now: number): S;
  /** @param tries how often the step was tried before */
  refused(state: S, step: Step, failure: CloudFailure, now: number, tries: number): Verdict<S>;
}

/** Whether the same call may succeed in a moment, whatever it is about. */
export const passes = ({ outcome, code }: CloudFailure): boolean => outcome !== "client" || code === "contended";

/** How often a call is repeated from which no usable answer came: its address is probably wrong. */
const UNREACHED_TRIES: Partial<Record<CloudCode, number>> = {
  network_error: 3,
  unreadable_answer: 3,
  deadline_exceeded: 1,
};

/** Like `passes`, for calls before anything was made: a caller is told soon that no provider answers. */
export const isWorthRepeating = (failure: CloudFailure, tries: number): boolean =>
  passes(failure) && tries < (UNREACHED_TRIES[failure.code] ?? Number.POSITIVE_INFINITY);

/** `again`, no sooner than the provider asked for. */
export const again = <S>(failure: CloudFailure, state?: S): Verdict<S> => ({
  kind: "again",
  ...(state !== undefined && { state }),
  ...(failure.retryAfterMs !== undefined && { afterMs: failure.retryAfterMs }),
});

/** How many unanswered creations of one thing end the work, although the searches between them are answered. */
const UNANSWERED_TRIES = 3;

/** `again` after a creation that went unanswered, or `failed` when it is one too many. */
export function againUnanswered<S extends { readonly unanswered?: number }>(
  state: S,
  failure: CloudFailure,
): Verdict<S> {
  const unanswered = (state.unanswered ?? 0) + 1;
  return unanswered > UNANSWERED_TRIES ? { kind: "failed" } : again(failure, { ...state, unanswered });
}

/** The verdict of a part as one of the whole. */
export function lifted<A, B>(verdict: Verdict<A>, whole: (part: A) => B): Verdict<B> {
  if (verdict.kind === "failed") return verdict;
  if (verdict.kind === "took") return { kind: "took", state: whole(verdict.state) };
  const { state, ...rest } = verdict;
  return { ...rest, ...(state !== undefined && { state: whole(state) }) };
}

/** Of a run: how many steps leave together at most. */
const LONGEST_RUN = 16;

/**
 * The steps that may leave one after the other from `first` on, each if the one before it has succeeded.
 * @returns them, and the state from the moment at which they leave
 */
export function runOf<S>(program: Program<S>, state: S, first: Step, now: number): { steps: Step[]; state: S } {
  const steps: Step[] = [];
  let leaving = state;
  let expected = state;
  for (let next: Step = first; ; ) {
    steps.push(next);
    leaving = program.leaving?.(leaving, next) ?? leaving;
    expected = program.leaving?.(expected, next) ?? expected;
    if (steps.length >= LONGEST_RUN || !TELLS_NOTHING.has(next.call)) break;
    expected = program.took(expected, next, undefined, now);
    const later = program.next(expected, now);
    if (later === null || "wait" in later || !mayFollow(next, later)) break;
    next = later;
  }
  return { steps, state: leaving };
}
