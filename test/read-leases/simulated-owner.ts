/** An owner as its object would be: state and leases on disk, one transaction for a change, and nothing kept over a restart. */
import {
  type Grant,
  type Keys,
  type LeaseRows,
  LeaseTable,
  type PendingChange,
} from "../../src/read-leases/lease-table.ts";
import { Clock, type World } from "./simulated-network.ts";

/** Deviations from the protocol that a run seeds, to show that the checker finds them. */
export interface OwnerFaults {
  readonly Table: new (rows: LeaseRows, now: number) => LeaseTable;
  /** Answers a change without waiting for acknowledgements. */
  readonly answersEarly: boolean;
  /** Loses pending changes with its memory. */
  readonly forgetsPending: boolean;
}

export const NO_OWNER_FAULTS: OwnerFaults = { Table: LeaseTable, answersEarly: false, forgetsPending: false };

export interface Told {
  readonly value: number;
  readonly grant: Grant;
}

/** An instance of a replica, and the number of a question of it. */
export interface Asked {
  readonly holder: string;
  readonly question: number;
}

/** The path of an invalidation to the replicas, and back. */
export type Deliver = (
  holder: string,
  changes: readonly { seq: number; keys: Keys }[],
  done: (holder: string) => void,
) => void;

const RETRY_MS = 120;
const TIDY_MS = 100;

class Disk implements LeaseRows {
  readonly values = new Map<string, number>();
  readonly #holders = new Set<string>();
  readonly #pending = new Map<number, PendingChange>();
  #seq = 0;

  load() {
    return { seq: this.#seq, holders: [...this.#holders], pending: [...this.#pending.values()] };
  }

  putSeq(seq: number): void {
    this.#seq = seq;
  }

  putHolder(holder: string): void {
    this.#holders.add(holder);
  }

  dropHolder(holder: string): void {
    this.#holders.delete(holder);
  }

  putPending(change: PendingChange): void {
    this.#pending.set(change.seq, change);
  }

  dropPending(seq: number): void {
    this.#pending.delete(seq);
  }

  forgetPending(): void {
    this.#pending.clear();
  }
}

export class SimulatedOwner {
  readonly name: string;
  readonly #world: World;
  readonly #faults: OwnerFaults;
  readonly #deliver: Deliver;
  readonly #disk = new Disk();
  #clock: Clock;
  #table: LeaseTable;
  /** Answers that wait until their key, or their change, is settled. */
  #waiting: (() => boolean)[] = [];
  #life = 0;
  #isTicking = false;

  constructor(name: string, world: World, deliver: Deliver, faults: OwnerFaults) {
    this.name = name;
    this.#world = world;
    this.#faults = faults;
    this.#deliver = deliver;
    this.#clock = new Clock(world);
    this.#table = new faults.Table(this.#disk, this.#clock.now());
  }

  /** A read by a Worker, or by a push. */
  read(key: string, answer: (value: number) => void): void {
    const value = this.#disk.values.get(key) ?? 0;
    this.#whenSettled(key, () => answer(value));
  }

  /** A question of a replica. */
  ask({ holder, question }: Asked, key: string, answer: (told: Told) => void): void {
    const grant = this.#table.grant(holder, key, this.#clock.now(), question);
    const told = { value: this.#disk.values.get(key) ?? 0, grant };
    this.#whenSettled(key, () => answer(told));
  }

  /** @param givenBack by the replica through which the write came */
  write(key: string, value: number, givenBack: Asked | null, answer: () => void): void {
    if (givenBack) this.#table.takeBack(givenBack.holder, key, givenBack.question);
    this.#disk.values.set(key, value);
    // Some changes concern a whole owner, as that of a policy does.
    const seq = this.#table.change(this.#world.chance(0.2) ? null : [key], this.#clock.now());
    if (seq === null || this.#faults.answersEarly) answer();
    else {
      this.#wait(() => {
        if (!this.#table.isSettled(seq)) return false;
        answer();
        return true;
      });
    }
    this.#tick();
  }

  restart(): void {
    this.#life += 1;
    this.#waiting = [];
    this.#isTicking = false;
    if (this.#faults.forgetsPending) this.#disk.forgetPending();
    this.#clock = new Clock(this.#world);
    this.#table = new this.#faults.Table(this.#disk, this.#clock.now());
    this.#tick();
  }

  /** Holds an answer back until the changes that it includes are settled. */
  #whenSettled(key: string, answer: () => void): void {
    const included = this.#table.unsettled(key);
    this.#wait(() => {
      if (!included.every((seq) => this.#table.isSettled(seq))) return false;
      answer();
      return true;
    });
  }

  #wait(attempt: () => boolean): void {
    this.#table.settle(this.#clock.now());
    if (!attempt()) this.#waiting.push(attempt);
  }

  /** Delivers pending invalidations, again and again while there are any. */
  #tick(): void {
    if (this.#isTicking) return;
    this.#isTicking = true;
    const life = this.#life;
    const step = (): void => {
      if (life !== this.#life) return;
      this.#settle();
      const pending = this.#table.unacknowledged();
      for (const [holder, changes] of pending) {
        const seqs = changes.map(({ seq }) => seq);
        this.#deliver(holder, changes, (by) => {
          // An acknowledgement may reach the owner after its restart.
          this.#table.acknowledge(by, seqs);
          this.#settle();
        });
      }
      if (pending.size === 0) this.#isTicking = false;
      else this.#world.after(RETRY_MS, step);
    };
    step();
  }

  #settle(): void {
    this.#table.settle(this.#clock.now());
    const waiting = this.#waiting.splice(0);
    for (const attempt of waiting) if (!attempt()) this.#waiting.push(attempt);
    if (this.#table.isUntidy) this.#tidyLater();
  }

  #tidyLater(): void {
    const life = this.#life;
    this.#world.after(TIDY_MS, () => {
      if (life === this.#life) this.#table.tidy();
    });
  }
}
