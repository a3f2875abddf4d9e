import { setTimeout as sleep } from "node:timers/promises";
import { Tally } from "./counts.ts";
import { withoutAlarm } from "./pending-rows.ts";
import type { Fault, Provider } from "./providers.ts";
import type { Line } from "./proxy-line.ts";
import { PARTS, type Service } from "./service.ts";
import { pick, type Random } from "./workload.ts";

/** A process beside the service that dies and comes back. */
export interface Mortal {
  readonly name: string;
  kill(): Promise<void>;
  start(): Promise<void>;
}

export interface Targets {
  readonly service: Service;
  readonly providers: readonly Provider[];
  readonly mortals: readonly Mortal[];
  /** Between the service and its clients. */
  readonly lines: Readonly<Record<string, Line>>;
  /** How many requests the service has answered. */
  answered(): number;
  /** The longest that the runtime is left alone in a storm. In a breeze it always is. */
  readonly peaceMs: number;
  /** Whether the runtime is killed as often as possible, and all else rarely. */
  readonly isAtService: boolean;
}

/** After one of this many kills of the runtime, its files are read before the restart. */
const LOOK_INTO = 2;
/** Of the deaths of the runtime, those of one of its processes, and of these the ones that are frozen. */
const ALONE = 0.35;
const FROZEN = 0.3;
/** Storm and breeze in turns: what takes several calls has to come to its end, too. */
const STORM_MS = 25_000;
const BREEZE_MS = 20_000;
const BREEZE = 4;
/** Of faults at the service: a shorter breeze, and how much longer the other processes are left alone. */
const BREEZE_AT_SERVICE_MS = 5_000;
const ASIDE = 5;

/** Kills and disturbs all processes at random times, with one random sequence per kind; ends with all of them healthy. */
export class Chaos {
  readonly kills = new Tally();
  readonly cuts = new Tally();
  readonly faults = new Tally();
  readonly wrong: string[] = [];
  readonly #targets: Targets;
  readonly #began = Date.now();
  #serviceKills = 0;

  constructor(targets: Targets) {
    this.#targets = targets;
  }

  get serviceKills(): number {
    return this.#serviceKills;
  }

  async run(randomFor: (name: string) => Random, going: () => boolean): Promise<void> {
    await Promise.all([
      this.#killRuntime(randomFor("runtime"), going),
      this.#killMortals(randomFor("mortals"), going),
      ...this.#targets.providers
        .filter(({ lines }) => lines.length > 0)
        .map((provider) => this.#killProvider(provider, randomFor(provider.name), going)),
      this.#misbehave(randomFor("providers"), going),
      this.#disturb(randomFor("network"), going),
    ]);
    for (const { lines } of this.#targets.providers) for (const line of lines) line.heal();
    for (const line of Object.values(this.#targets.lines)) line.heal();
    for (const provider of this.#targets.providers) provider.clearFaults();
  }

  /** How much longer pauses are now than in a storm. */
  get #pause(): number {
    const breezeMs = this.#targets.isAtService ? BREEZE_AT_SERVICE_MS : BREEZE_MS;
    return (Date.now() - this.#began) % (STORM_MS + breezeMs) < STORM_MS ? 1 : BREEZE;
  }

  /** The same for kills of the processes beside the service. */
  get #pauseAside(): number {
    return this.#pause * (this.#targets.isAtService ? ASIDE : 1);
  }

  /** Often shortly after its restart, sometimes later: by the number of its answers, for any speed. */
  async #killRuntime(random: Random, going: () => boolean): Promise<void> {
    const { service } = this.#targets;
    for (let kills = 0; going(); kills++) {
      const [kind, part, moment] = [random(), random(), random() * 50];
      await this.#peace(Math.round(kind < 0.3 ? part * 3 : kind < 0.75 ? part * 40 : 40 + part * 300), going);
      await sleep(moment);
      if (!going()) return;
      this.#serviceKills += 1;
      const [how, which] = [random(), random()];
      if (how < ALONE) {
        const part = pick(random, PARTS);
        const signal = which < FROZEN ? "SIGSTOP" : "SIGKILL";
        await service.lose(part, signal);
        this.kills.add(`${part} alone${signal === "SIGSTOP" ? ", frozen" : ""}`);
        continue;
      }
      if (how < 0.95) {
        await service.kill();
        this.kills.add("runtime");
        if (kills % LOOK_INTO === 0) this.wrong.push(...withoutAlarm(service.dataDir));
      } else {
        await service.stop();
        this.faults.add("runtime ended in order");
      }
      await service.start();
    }
  }

  /** Until the runtime has sent this many answers, or a time-out, or the end of the faults. */
  async #peace(answers: number, going: () => boolean): Promise<void> {
    const before = this.#targets.answered();
    const until = Date.now() + this.#targets.peaceMs;
    const isOver = () => this.#targets.answered() - before >= answers || Date.now() > until;
    while (going() && !(isOver() && this.#pause === 1)) await sleep(2);
  }

  async #killMortals(random: Random, going: () => boolean): Promise<void> {
    const { mortals } = this.#targets;
    if (mortals.length === 0) return;
    while (going()) {
      const [mortal, before, away] = [pick(random, mortals), random() * 2_500, random() * 800];
      await sleep(before * this.#pauseAside);
      if (!going()) return;
      await mortal.kill();
      this.kills.add(mortal.name);
      await sleep(away);
      await mortal.start();
    }
  }

  async #killProvider(provider: Provider, random: Random, going: () => boolean): Promise<void> {
    while (going()) {
      const [before, away] = [random() * 6_000, random() * 1_200];
      await sleep(before * this.#pauseAside);
      if (!going()) return;
      for (const line of provider.lines) line.close();
      this.kills.add(provider.name);
      await sleep(away);
      for (const line of provider.lines) await line.open();
    }
  }

  async #misbehave(random: Random, going: () => boolean): Promise<void> {
    while (going()) {
      const [provider, fault, before] = [pick(random, this.#targets.providers), faultOf(random), random() * 1_200];
      await sleep(before * this.#pause);
      provider.fault({ ...fault });
      this.faults.add(fault.fault === "raw" ? `answers ${fault.status}` : fault.fault);
    }
  }

  async #disturb(random: Random, going: () => boolean): Promise<void> {
    while (going()) {
      const lines = [...Object.values(this.#targets.lines), ...this.#targets.providers.flatMap(({ lines }) => lines)];
      const [line, kind, before, lasts] = [pick(random, lines), random(), random() * 2_000, random() * 3_000];
      const delay = 10 + random() * 250;
      await sleep(before * this.#pause);
      if (!line.isOpen) continue;
      if (kind < 0.35) {
        line.cut(false);
        this.cuts.add("cut");
      } else if (kind < 0.7) {
        line.cut(true);
        this.cuts.add("reset");
      } else {
        if (kind < 0.85) line.halfOpen();
        else line.slow(delay);
        this.cuts.add(kind < 0.85 ? "half-open" : "slow");
        await sleep(lasts);
        line.heal();
      }
    }
  }
}

function faultOf(random: Random): Fault {
  const [kind, count, part] = [random(), 1 + Math.floor(random() * 6), random()];
  if (kind < 0.3) return { fault: "apply-then-drop", count: Math.ceil(count / 2) };
  if (kind < 0.4) return { fault: "drop", count: Math.ceil(count / 2) };
  if (kind < 0.6) return { fault: "delay", ms: Math.round(part * 1_500), count };
  if (kind < 0.8) return { fault: "raw", status: 429, body: "{}", headers: { "retry-after": "1" }, count };
  return { fault: "raw", status: pick(random, [500, 502, 503]), body: "{}", count };
}
