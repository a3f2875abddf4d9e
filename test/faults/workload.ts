import { setTimeout as sleep } from "node:timers/promises";

export type Random = () => number;
/** A random generator per name, so that choices do not depend on the order of the callers. */
export type RandomFor = (name: string) => Random;
export const pick = <T>(random: Random, items: readonly T[]): T => items[Math.floor(random() * items.length)] as T;

/** Whatever an area has to do, and what must be true of it. */
export interface Workload {
  readonly name: string;
  /** Before any fault. */
  begin(): Promise<void>;
  /** Sends requests until it is stopped, then waits for the running ones. */
  run(going: () => boolean): Promise<void>;
  /** Permanent faults found during the run; reported at once. */
  readonly wrong: readonly string[];
  /** Conditions that do not hold yet after the last disturbance. Empty when settled. */
  unsettled(): Promise<string[]>;
  /** Checks the invariants once everything is settled; resolves with the violations. */
  verify(): Promise<string[]>;
  /** One line of figures. */
  told(): string;
}

/** Acts one after the other, with pauses. */
export async function repeatedly(
  going: () => boolean,
  random: Random,
  pauseMs: number,
  act: () => Promise<void>,
): Promise<void> {
  while (going()) {
    await act();
    await sleep(random() * 2 * pauseMs);
  }
}

/** The differences between two lists of ids. */
export function compared(what: string, known: readonly string[], there: readonly string[]): string[] {
  const twice = there.filter((id, at) => there.indexOf(id) !== at);
  return [
    ...known.filter((id) => !there.includes(id)).map((id) => `${what}: ${id} is known and not there`),
    ...there.filter((id) => !known.includes(id)).map((id) => `${what}: ${id} is there and not known`),
    ...twice.map((id) => `${what}: ${id} is there twice`),
  ];
}

/** Maps all of them, few at a time. */
export async function mapFew<T, R>(items: readonly T[], atOnce: number, map: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  let next = 0;
  const worker = async () => {
    for (let at = next++; at < items.length; at = next++) results[at] = await map(items[at] as T);
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
  return results;
}

/**
 * The possible states of an object whose requests may lose their answers. An answered change sets the
 * state; an unanswered one may take effect at any later time.
 */
export class Doubt<State> {
  #is: Set<State>;
  readonly #late = new Set<State>();

  constructor(state: State) {
    this.#is = new Set([state]);
  }

  answered(state: State): void {
    this.#is = new Set([state, ...this.#late]);
  }

  unanswered(state: State): void {
    this.#is.add(state);
    this.#late.add(state);
  }

  may(state: State): boolean {
    return this.#is.has(state);
  }

  /** The only thing that may be true; undefined when that is not known. */
  get certain(): State | undefined {
    return this.#is.size === 1 ? [...this.#is][0] : undefined;
  }
}
