import { setImmediate as nextTurn, setTimeout as sleep } from "node:timers/promises";

/** The longest time that a report waits for other operations. */
const WAIT_MS = 50;

interface Pending {
  operations: number;
  /** Ends the wait. */
  send: () => void;
  readonly sent: Promise<void>;
}

/**
 * Reports the changes of completed operations. Each report costs the service several writes, so operations in flight at
 * the same time share one; a single operation is reported at once.
 */
export class SharedReport {
  readonly #report: () => Promise<void>;
  readonly #inFlight: () => number;
  #pending: Pending | undefined;

  /** @param inFlight the number of operations that have not sent their results, with those that wait here */
  constructor(report: () => Promise<void>, inFlight: () => number) {
    this.#report = report;
    this.#inFlight = inFlight;
  }

  /** Resolves when the changes of an operation that has completed are reported. */
  ended(): Promise<void> {
    this.#pending ??= this.#next();
    this.#pending.operations++;
    if (this.#pending.operations >= this.#inFlight()) this.#pending.send();
    return this.#pending.sent;
  }

  #next(): Pending {
    let send = () => {};
    const all = new Promise<void>((resolve) => {
      send = resolve;
    });
    const report = async () => {
      await nextTurn();
      await Promise.race([all, sleep(WAIT_MS)]);
      this.#pending = undefined;
      await this.#report();
    };
    return { operations: 0, send, sent: report() };
  }
}
