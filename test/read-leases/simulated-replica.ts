/**
 * A replica as its object would be. One instance serves the place; another one may follow it, with an empty memory, while
 * the first still runs, cut off from all messages to the place, and serves its last readers.
 */
import { LeaseCache, type Question } from "../../src/read-leases/lease-cache.ts";
import type { Keys } from "../../src/read-leases/lease-table.ts";
import { Clock, type World } from "./simulated-network.ts";
import type { Asked, SimulatedOwner, Told } from "./simulated-owner.ts";

export interface ReplicaFaults {
  readonly Cache: new (bounds: { characters: number; absent: number }) => LeaseCache<number>;
  /** Instances of a place are one holder: the second acknowledges for the first. */
  readonly sharesHolder: boolean;
}

export const NO_REPLICA_FAULTS: ReplicaFaults = { Cache: LeaseCache<number>, sharesHolder: false };

/** A read that waits for an answer. */
interface Waiting {
  /** By the replica's clock. */
  readonly since: number;
  readonly key: string;
  readonly owner: SimulatedOwner;
  readonly answer: (value: number) => void;
}

const TIMEOUT_MS = 12_000;
/** Small, so that entries are evicted. */
const BOUNDS = { characters: 60, absent: 2 };
/** How long an instance that was replaced may go on serving. */
const LINGERS_MS = 4_000;

class Instance {
  readonly place: string;
  readonly holder: string;
  isAlive = true;
  readonly served = { fromMemory: 0, asked: 0 };
  readonly #world: World;
  readonly #clock: Clock;
  readonly #cache: LeaseCache<number>;
  readonly #waiting = new Map<Question, Waiting[]>();

  constructor(place: string, holder: string, world: World, { Cache }: ReplicaFaults) {
    this.place = place;
    this.holder = holder;
    this.#world = world;
    this.#clock = new Clock(world);
    this.#cache = new Cache(BOUNDS);
  }

  read(owner: SimulatedOwner, key: string, answer: (value: number) => void): void {
    const now = this.#clock.now();
    const known = this.#cache.read(owner.name, key, now);
    if (known === undefined) this.#await({ since: now, key, owner, answer });
    else {
      this.served.fromMemory += 1;
      answer(known);
    }
  }

  giveBack(owner: string, key: string): Asked {
    return { holder: this.holder, question: this.#cache.giveBack(owner, key) };
  }

  invalidate(owner: string, changes: readonly { seq: number; keys: Keys }[]): void {
    for (const { seq, keys } of changes) this.#cache.invalidate(owner, seq, keys);
  }

  #await(read: Waiting): void {
    const { owner, key } = read;
    const joined = this.#cache.joinable(owner.name, key);
    if (joined) {
      this.#waiting.get(joined)?.push(read);
      return;
    }
    const question = this.#cache.ask(owner.name, key, this.#clock.now());
    this.#waiting.set(question, [read]);
    this.#send(question, read);
  }

  #send(question: Question, { owner, key }: Waiting): void {
    this.served.asked += 1;
    this.#world.send(this.place, owner.name, () =>
      owner.ask({ holder: this.holder, question: question.number }, key, (told) =>
        this.#world.send(owner.name, this.place, () => {
          if (this.isAlive) this.#answer(question, told);
        }),
      ),
    );
    this.#world.after(TIMEOUT_MS, () => {
      if (this.#waiting.delete(question)) this.#cache.fail(question);
    });
  }

  #answer(question: Question, { value, grant }: Told): void {
    const [first, ...others] = this.#waiting.get(question) ?? [];
    if (!first) return;
    this.#waiting.delete(question);
    const answer = { ...grant, value, absent: value === 0, size: 8, reusable: true };
    const until = this.#cache.answer(question, answer, this.#clock.now());
    first.answer(value);
    for (const other of others) {
      if (other.since < until) other.answer(value);
      else this.#await(other);
    }
  }
}

export class SimulatedReplica {
  readonly place: string;
  readonly #world: World;
  readonly #faults: ReplicaFaults;
  readonly #instances: Instance[] = [];

  constructor(place: string, world: World, faults: ReplicaFaults) {
    this.place = place;
    this.#world = world;
    this.#faults = faults;
    this.restart();
  }

  get served(): { readonly fromMemory: number; readonly asked: number } {
    const sum = (name: "fromMemory" | "asked") => this.#instances.reduce((all, { served }) => all + served[name], 0);
    return { fromMemory: sum("fromMemory"), asked: sum("asked") };
  }

  /** Readers that are connected to an earlier instance stay with it for as long as it runs. */
  read(owner: SimulatedOwner, key: string, answer: (value: number) => void): void {
    this.#world.pick(this.#instances.filter(({ isAlive }) => isAlive)).read(owner, key, answer);
  }

  /** Gives a key back before a write that comes through one of the instances. */
  giveBack(owner: string, key: string): Asked {
    return this.#world.pick(this.#instances.filter(({ isAlive }) => isAlive)).giveBack(owner, key);
  }

  /** Reaches the newest instance alone. @returns the holder that acknowledges */
  invalidate(owner: string, changes: readonly { seq: number; keys: Keys }[]): string {
    const newest = this.#instances.at(-1);
    newest?.invalidate(owner, changes);
    return newest?.holder ?? "";
  }

  restart(): void {
    const before = this.#instances.at(-1);
    const holder = `${this.place} ${this.#faults.sharesHolder ? "" : this.#instances.length}`;
    this.#instances.push(new Instance(this.place, holder, this.#world, this.#faults));
    if (!before) return;
    const end = () => {
      before.isAlive = false;
    };
    if (this.#world.chance(0.5)) end();
    else this.#world.after(this.#world.between(0, LINGERS_MS), end);
  }
}
