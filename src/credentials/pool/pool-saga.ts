import type { EngineStates, EngineType, IssueOutcome } from "../engines/engine-type.ts";
import { mapDecision, retry, type Saga } from "../runner/saga.ts";

/** Consecutive logins before credentials count as usable: the provider replicates them step by step. */
const LOGINS = 3;
const LOGIN_EVERY_MS = 500;

/** Credentials being made for a pool. Persisted in jobs, as sealed JSON. */
export interface Pooling {
  readonly role: string;
  /** See `contentOf`. */
  readonly content: string;
  readonly issue: EngineStates["issue"];
  /** Null until the credentials are complete. */
  readonly made: IssueOutcome<EngineStates> | null;
  readonly logins: number;
  /** Time of the next login, ms since 1970. */
  readonly next: number;
}

/**
 * Makes credentials without a user: the saga of an issue, then logins until they are usable.
 *
 *     issue ──done──► login ──LOGINS in a row──► done
 *                       └──refused──► from the first login
 */
export const poolSagaOf = ({ issue }: EngineType): Saga<Pooling> => ({
  next(state, now) {
    const { made, logins, next } = state;
    if (!made) return issue.next(state.issue, now);
    const ttl = Math.round((made.endsAt - now) / 1000);
    const login = logins < LOGINS ? (issue.verify?.(issue.data(made.secret, ttl)) ?? null) : null;
    return login && next > now ? { wait: next - now } : login;
  },

  beforeCall: (state, step) =>
    state.made ? state : { ...state, issue: issue.beforeCall?.(state.issue, step) ?? state.issue },

  onSuccess(state, step, value, now) {
    if (state.made) return { ...state, logins: state.logins + 1, next: now + LOGIN_EVERY_MS };
    const next = issue.onSuccess(state.issue, step, value, now);
    // The text of the secret is in this answer only. A batch without its results is none.
    const isMade = value !== undefined && issue.next(next, now) === null;
    return { ...state, issue: next, made: isMade ? issue.outcome(next, value, now) : null };
  },

  onError(state, step, failure, now, tries) {
    // A refused login is one that was not replicated yet, until the deadline of the job.
    if (state.made) return retry(failure, { ...state, logins: 0 });
    const decision = issue.onError(state.issue, step, failure, now, tries);
    return mapDecision(decision, (part) => ({ ...state, issue: part }));
  },
});
