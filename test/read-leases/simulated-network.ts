/** Time and messages of a simulated deployment. Everything is decided by one seeded generator, so a run can be repeated. */
import { randomFrom } from "../crash/random.ts";

export class World {
  readonly random: () => number;
  /** True time, in ms; no machine sees it. */
  now = 0;
  /** By time; those of one moment in the order in which they were set. */
  readonly #events: { readonly at: number; readonly run: () => void }[] = [];
  readonly #cutOff = new Map<string, number>();

  constructor(seed: number) {
    this.random = randomFrom(seed);
  }

  between(low: number, high: number): number {
    return low + this.random() * (high - low);
  }

  chance(share: number): boolean {
    return this.random() < share;
  }

  pick<T>(items: readonly T[]): T {
    return items[Math.floor(this.random() * items.length)] as T;
  }

  after(ms: number, run: () => void): void {
    const at = this.now + ms;
    let [low, high] = [0, this.#events.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#events[middle]?.at ?? 0) <= at) low = middle + 1;
      else high = middle;
    }
    this.#events.splice(low, 0, { at, run });
  }

  /** No message from or to a place arrives that is sent in the meantime. */
  cutOff(place: string, ms: number): void {
    this.#cutOff.set(place, this.now + ms);
  }

  /** A message between two places: late, lost or doubled, and never in order. */
  send(from: string, to: string, deliver: () => void): void {
    if ([from, to].some((place) => (this.#cutOff.get(place) ?? 0) > this.now) || this.chance(0.04)) return;
    this.after(this.#delay(), deliver);
    if (this.chance(0.04)) this.after(this.#delay(), deliver);
  }

  run(): void {
    for (let event = this.#events.shift(); event; event = this.#events.shift()) {
      this.now = event.at;
      event.run();
    }
  }

  /** Mostly a round trip within or between continents; now and then much longer than a lease. */
  #delay(): number {
    const kind = this.random();
    if (kind < 0.8) return this.between(1, 150);
    return kind < 0.92 ? this.between(150, 1_500) : this.between(1_500, 7_000);
  }
}

/** The clock of a machine: off by any amount, and up to 2 % fast or slow. */
export class Clock {
  readonly #world: World;
  readonly #offset: number;
  readonly #rate: number;

  constructor(world: World) {
    this.#world = world;
    this.#offset = world.between(10_000, 10_000_000);
    this.#rate = world.between(0.98, 1.02);
  }

  now(): number {
    return this.#offset + this.#world.now * this.#rate;
  }
}
