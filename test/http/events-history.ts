import {
  mayOpen,
  mayRead,
  type RightsState,
  type Rules,
  type SeenEvent,
  type SeenLine,
  type Wish,
} from "../events-reference.ts";

/** Prefix sums of a property over the states of rights: answers for any range of the sequence in constant time. */
class Verdict {
  readonly #before: number[] = [0];

  constructor(holds: readonly boolean[]) {
    for (const [at, each] of holds.entries()) this.#before.push((this.#before[at] ?? 0) + Number(each));
  }

  some(from: number, to: number): boolean {
    return this.#count(from, to) > 0;
  }

  every(from: number, to: number): boolean {
    return this.#count(from, to) === to - from + 1;
  }

  #count(from: number, to: number): number {
    return (this.#before[to + 1] ?? 0) - (this.#before[from] ?? 0);
  }
}

/** The complete sequence of a management reader, and the rights of each token at each point of it. */
export class History {
  /** The lines with events; other lines have indexes, too. */
  readonly lines: readonly SeenLine[];
  readonly #byIndex: ReadonlyMap<number, SeenLine>;
  readonly #existing: readonly string[];
  readonly #states: RightsState[] = [{ index: 0, policies: new Map(), tokens: new Map() }];
  readonly #verdicts = new Map<string, Verdict>();

  /** @param rulesOf the rules of a policy by its text */
  constructor(lines: readonly SeenLine[], existing: readonly string[], rulesOf: (text: string) => Rules) {
    this.lines = lines;
    this.#byIndex = new Map(lines.map((line) => [line.Index, line]));
    this.#existing = existing;
    for (const line of lines) this.#take(line, rulesOf);
  }

  get newest(): number {
    return this.lines.at(-1)?.Index ?? 0;
  }

  line(index: number): SeenLine | undefined {
    return this.#byIndex.get(index);
  }

  mayOpen(accessor: string | null, wish: Wish): Stretches {
    return this.#stretches(JSON.stringify([accessor, wish]), (state) => mayOpen(state, accessor, wish, this.#existing));
  }

  /** Whether the stream may be open and show such an event. */
  mayRead(accessor: string | null, wish: Wish, { Topic, Namespace }: SeenEvent): Stretches {
    return this.#stretches(
      JSON.stringify([accessor, wish, Topic, Namespace]),
      (state) => mayOpen(state, accessor, wish, this.#existing) && mayRead(state, accessor, { Topic, Namespace }),
    );
  }

  #stretches(key: string, holds: (state: RightsState) => boolean): Stretches {
    let verdict = this.#verdicts.get(key);
    if (!verdict) {
      verdict = new Verdict(this.#states.map(holds));
      this.#verdicts.set(key, verdict);
    }
    const known = verdict;
    return {
      some: (from, to) => known.some(this.#at(from), this.#at(Math.max(from, to))),
      every: (from, to) => known.every(this.#at(from), this.#at(Math.max(from, to))),
    };
  }

  /** The state after a line. */
  #at(index: number): number {
    let [low, high] = [0, this.#states.length - 1];
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if ((this.#states[middle]?.index ?? 0) <= index) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  #take({ Index, Events }: SeenLine, rulesOf: (text: string) => Rules): void {
    const told = Events.filter(({ Topic }) => Topic === "ACLPolicy" || Topic === "ACLToken");
    const last = this.#states.at(-1);
    if (told.length === 0 || !last) return;
    const policies = new Map(last.policies);
    const tokens = new Map(last.tokens);
    for (const { Type, Key, Payload } of told) {
      if (Type === "ACLPolicyUpserted") policies.set(Key, rulesOf(Payload.ACLPolicy.Rules));
      else if (Type === "ACLPolicyDeleted") policies.delete(Key);
      else if (Type === "ACLTokenDeleted") tokens.delete(Key);
      else {
        const { Type: type, Policies } = Payload.ACLToken;
        tokens.set(Key, { management: type === "management", policies: Policies ?? [] });
      }
    }
    this.#states.push({ index: Index, policies, tokens });
  }
}

/** Whether a property was true at some point, or at all points, of a range of indexes. */
export interface Stretches {
  some(from: number, to: number): boolean;
  every(from: number, to: number): boolean;
}
