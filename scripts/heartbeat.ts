/** Detects a process or service that no longer responds: frozen, or out of a resource. */
import type { ChildProcess } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";

/** "gone": it cannot recover. */
export type Response = "well" | "late" | "gone";

export interface Rhythm {
  /** Pause between two pings. */
  readonly everyMs: number;
  /** Time for each answer. */
  readonly answerMs: number;
  /**
   * Consecutive late answers that count as dead: counts instead of times, because this process may have been frozen
   * itself.
   */
  readonly misses: number;
}

/** Half a minute without an answer: a busy machine is slow, and a restart makes it slower. */
const RHYTHM: Rhythm = { everyMs: 1000, answerMs: 5000, misses: 6 };
/** Consecutive answers "gone" that count as dead. */
const GONE = 2;

const PING = "ping";
const PONG = "pong";

/** Answers `pinged` of the parent. */
export function answerPings(): void {
  process.on("message", (message) => {
    if (message === PING) process.send?.(PONG, undefined, {}, () => {});
  });
}

/** The first message from the parent that is no ping. */
export function instructions<Message>(): Promise<Message> {
  return new Promise((resolve) => {
    const listen = (message: unknown) => {
      if (message === PING) return;
      process.off("message", listen);
      resolve(message as Message);
    };
    process.on("message", listen);
  });
}

/** Pings the event loop of a child that calls `answerPings`. */
export function pinged(child: ChildProcess, ms: number): Promise<Response> {
  return new Promise((resolve) => {
    const end = (response: Response) => {
      clearTimeout(timer);
      child.off("message", listen);
      resolve(response);
    };
    const listen = (message: unknown) => {
      if (message === PONG) end("well");
    };
    const timer = setTimeout(() => end("late"), ms);
    child.on("message", listen);
    child.send(PING, (failure) => {
      if (failure) end("gone");
    });
  });
}

/** Resolves when the target counts as dead; never after `signal` has aborted. */
export async function silence(
  ask: (ms: number) => Promise<Response>,
  signal: AbortSignal,
  { everyMs, answerMs, misses }: Rhythm = RHYTHM,
): Promise<void> {
  for (let late = 0, gone = 0; late < misses && gone < GONE; ) {
    await sleep(everyMs, undefined, { signal }).catch(() => {});
    if (signal.aborted) return new Promise(() => {});
    const response = await ask(answerMs);
    late = response === "late" ? late + 1 : 0;
    gone = response === "gone" ? gone + 1 : 0;
  }
  if (signal.aborted) return new Promise(() => {});
}
