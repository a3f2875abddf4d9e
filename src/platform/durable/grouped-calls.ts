/**
 * Runs calls of one object that arrive together as one transaction, in their order. Owns the calls that have arrived and
 * not run, in memory alone: none of them has an answer. A commit is the most expensive part of a small write.
 *
 * A call waits for others for one turn of the event loop. While no others come, all but one in `ALONE` calls run at once.
 *
 *   call ──others are expected──> waiting ──group committed──> answered
 *     │                              └──a call of the group throws: rolled back──> each runs alone, in order
 *     └──none are expected──> runs alone
 */
export class GroupedCalls {
  #waiting: Waiting[] = [];
  /** Groups of one, one after the other. */
  #singles = 0;
  /** Calls that do not wait for others. */
  #alone = 0;

  /** @param commit runs a change as one transaction, and throws after it was rolled back */
  constructor(private readonly commit: (run: () => void) => void) {}

  /**
   * Runs a call whose changes are transactions of the object, without a wait.
   * @param answered runs after the commit, in the order of the calls; returns the answer of the call
   */
  run<T>(call: () => T, answered: (result: T) => T): T | Promise<T> {
    // While it is not 0, no call waits.
    if (this.#alone > 0) {
      this.#alone -= 1;
      return answered(call());
    }
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    this.#waiting.push(waiting(call, answered, resolve, reject));
    if (this.#waiting.length === 1) void scheduler.wait(0).then(() => this.#due());
    return promise;
  }

  /** Runs the calls that wait, before a later one that is not grouped. */
  flush(): void {
    while (this.#waiting.length > 0) this.#runGroup(this.#waiting.splice(0, MAX_GROUP));
  }

  #due(): void {
    this.#singles = this.#waiting.length > 1 ? 0 : this.#singles + 1;
    if (this.#singles >= SINGLES) this.#alone = ALONE;
    this.flush();
  }

  #runGroup(group: readonly Waiting[]): void {
    const isTogether = group.length > 1 && this.#isCommitted(group);
    for (const call of group) {
      if (isTogether) call.answer();
      else call.runAlone();
    }
  }

  /** Whether all calls ran and are committed. Otherwise none of them has an effect. */
  #isCommitted(group: readonly Waiting[]): boolean {
    try {
      this.commit(() => {
        for (const call of group) call.run();
      });
      return true;
    } catch {
      return false;
    }
  }
}

/** A call that has arrived. */
interface Waiting {
  run(): void;
  /** Answers with the result of `run`. */
  answer(): void;
  runAlone(): void;
}

function waiting<T>(
  call: () => T,
  answered: (result: T) => T,
  resolve: (answer: T) => void,
  reject: (failure: unknown) => void,
): Waiting {
  let result: T;
  const run = () => {
    result = call();
  };
  const answer = () => {
    try {
      resolve(answered(result));
    } catch (failure) {
      reject(failure);
    }
  };
  const runAlone = () => {
    try {
      run();
    } catch (failure) {
      return reject(failure);
    }
    answer();
  };
  return { run, answer, runAlone };
}

/** Also bounds the memory of a transaction. */
const MAX_GROUP = 32;
/** Groups of one after which calls run alone. */
const SINGLES = 3;
const ALONE = 15;
