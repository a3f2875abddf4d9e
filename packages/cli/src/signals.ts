import { constants } from "node:os";

/**
 * Runs `cleanUp` when a signal ends this program, which ends with the signal's exit code. Signals that the terminal's
 * keys send are left to `other`, a program that has the terminal now.
 * @returns leaves the signals alone again
 */
export function beforeEnd(cleanUp: (signal: NodeJS.Signals) => void, other: { hasTerminal: boolean }): () => void {
  const end = (signal: NodeJS.Signals) => {
    cleanUp(signal);
    process.exit(128 + constants.signals[signal]);
  };
  const ofKeys = (signal: NodeJS.Signals) => {
    if (!other.hasTerminal) end(signal);
  };
  const handlers = [
    ["SIGTERM", end],
    ["SIGHUP", end],
    ["SIGINT", ofKeys],
    ["SIGQUIT", ofKeys],
  ] as const;
  for (const [signal, handler] of handlers) process.on(signal, handler);
  return () => {
    for (const [signal, handler] of handlers) process.off(signal, handler);
  };
}
