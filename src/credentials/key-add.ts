import { isNew } from "./provision.ts";
import { again, againUnanswered, answerOf, isWorthRepeating, type Program, passes, step } from "./step.ts";

/** A password to be added to an application that exists. */
export interface KeyAdd {
  readonly application: string;
  /** When it was made, ms since 1970, if that was here; else 0. */
  readonly madeAt: number;
  /** Of the password alone, so that it can be found. */
  readonly name: string;
  /** Ms. */
  readonly lifeMs: number;
  /** The addition has left, and no answer has come. */
  readonly adding: boolean;
  /** Keys that an unanswered addition has left, to be removed: their text is lost. */
  readonly lost: readonly string[];
  /** An unanswered addition has left a key that the provider does not show yet, or none. */
  readonly strays: boolean;
  /** How many additions went unanswered; missing in work stored by older versions. */
  readonly unanswered?: number;
  readonly key: { readonly keyId: string; readonly endsAt: number } | null;
}

export const newKeyAdd = (application: string, name: string, lifeMs: number, madeAt = 0): KeyAdd => ({
  application,
  madeAt,
  name,
  lifeMs,
  adding: false,
  lost: [],
  strays: false,
  key: null,
});

/** Adds a password once: one whose addition was never answered is removed first, because its text is lost. */
export const addingKey: Program<KeyAdd> = {
  next(state, now) {
    if (state.key) return null;
    const [lost] = state.lost;
    if (lost !== undefined) return step("removeApplicationPassword", state.application, lost);
    if (state.adding) return step("getApplication", state.application);
    const password = { displayName: state.name, endsAt: now + state.lifeMs };
    return step("addApplicationPassword", state.application, password);
  },

  leaving: (state, { call }) => (call === "addApplicationPassword" ? { ...state, adding: true } : state),

  took(state, { call, args }, value) {
    switch (call) {
      case "addApplicationPassword": {
        const { keyId, endsAt } = answerOf(call, value);
        return { ...state, adding: false, key: { keyId, endsAt } };
      }
      case "getApplication": {
        const ours = answerOf(call, value).passwords.filter(({ displayName }) => displayName === state.name);
        const strays = state.strays || ours.length === 0;
        return { ...state, adding: false, strays, lost: ours.map(({ keyId }) => keyId) };
      }
      case "removeApplicationPassword":
        return { ...state, lost: state.lost.filter((keyId) => keyId !== args[1]) };
      default:
        return state;
    }
  },

  refused(state, step, failure, now, tries) {
    if (passes(failure) && !isWorthRepeating(failure, tries)) return { kind: "failed" };
    if (step.call === "addApplicationPassword" && failure.outcome === "unknown") return againUnanswered(state, failure);
    if (step.call === "addApplicationPassword") {
      const free = { ...state, adding: false };
      const isWorthIt = passes(failure) || isNew(state.madeAt, step, failure, now);
      return isWorthIt ? again(failure, free) : { kind: "failed" };
    }
    if (step.call === "removeApplicationPassword" && failure.code === "not_found") {
      // It was shown a moment ago, so this may be too early to believe.
      return { kind: "took", state: addingKey.took({ ...state, strays: true }, step, null, now) };
    }
    return passes(failure) ? again(failure) : { kind: "failed" };
  },
};
