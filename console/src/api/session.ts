/**
 * The log-in of this tab. The token is kept in memory, and in the tab's session storage only when the person has chosen
 * so; never in a URL, a cookie or a log.
 */
import { computed, effect, signal } from "../lib/signal.ts";

interface Session {
  readonly token: string;
  /** Namespace in which the token was issued. */
  readonly home: string;
  /** How the person logged in, to be offered again. */
  readonly method: string;
}

/** The caller, from `auth/token/lookup-self` or, for tokens without the right to it, from the log-in. */
export interface Caller {
  readonly name: string;
  readonly accessor: string;
  readonly policies: readonly string[];
  readonly namespace: string;
  readonly isRoot: boolean;
  readonly isRenewable: boolean;
  readonly type: string;
  /** In ms since 1970; null for a token without an end. */
  readonly expires: number | null;
  /** Uses left; 0 for any number. */
  readonly uses: number;
}

const KEY = "sallyport.session";
const IDLE_KEY = "sallyport.idle-minutes";

export const session = signal<Session | null>(restored());
export const caller = signal<Caller | null>(null);
/** Why the last session ended; shown by the log-in screen. */
export const farewell = signal<string | null>(null);
/** Minutes without input after which the tab forgets its token; 0 for never. */
export const idleMinutes = signal(Number(localStorage.getItem(IDLE_KEY) ?? 15));
export const isKept = computed(() => session.value !== null && sessionStorage.getItem(KEY) !== null);

export function beginSession(begun: Session, keep: boolean): void {
  farewell.value = null;
  caller.value = null;
  if (keep) sessionStorage.setItem(KEY, JSON.stringify(begun));
  else sessionStorage.removeItem(KEY);
  session.value = begun;
}

/** Forgets the token in this tab. It stays valid at the service. */
export function endSession(because: string | null): void {
  sessionStorage.removeItem(KEY);
  farewell.value = because;
  session.value = null;
  caller.value = null;
}

function restored(): Session | null {
  try {
    const kept = JSON.parse(sessionStorage.getItem(KEY) ?? "null") as Session | null;
    return typeof kept?.token === "string" ? kept : null;
  } catch {
    return null;
  }
}

const IDLE_CHECK_MS = 5_000;
const INPUT = ["pointerdown", "pointermove", "keydown", "wheel", "touchstart"] as const;

/** Ends the session after the chosen time without input. */
export function startIdleLock(): void {
  let last = Date.now();
  const check = (): void => {
    const limit = idleMinutes.peek();
    if (!session.peek()) last = Date.now();
    else if (limit > 0 && Date.now() - last > limit * 60_000)
      endSession(`Locked after ${limit} minutes without input. Log in again to continue where you were.`);
  };
  // Timers stand still while the machine sleeps: the first input after it must not count as activity.
  const noteInput = (): void => {
    check();
    last = Date.now();
  };
  for (const type of INPUT) addEventListener(type, noteInput, { passive: true, capture: true });
  effect(() => localStorage.setItem(IDLE_KEY, String(idleMinutes.value)));
  setInterval(check, IDLE_CHECK_MS);
}
