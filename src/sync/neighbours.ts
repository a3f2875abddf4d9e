import { createHash } from "node:crypto";
import { destinationKeyOf } from "../contracts/destination.ts";
import { syncControl, syncDestination } from "../contracts/stubs.ts";
import { textOf, warn } from "../platform/observability/log.ts";
import { settings } from "../platform/settings.ts";
import type { Setup } from "./association.ts";
import type { Associations } from "./associations.ts";
import type { DestinationRecord, Found } from "./destination-record.ts";
import { NONE_TAKEN, type RemoteObjects, type TakenNames } from "./remote-objects.ts";
import type { AssociationRow } from "./schema.ts";

/** A destination that asks another for names. */
export interface Asker {
  readonly destination: string;
  readonly created: number;
  readonly targets: readonly string[];
  /** Whether it is about to use the names, or only looks. */
  readonly claims: boolean;
}

/** An answer to `contest`. */
export interface Contest {
  /** False: the destination does not write to the asker's place (any more). */
  readonly shares: boolean;
  readonly kept: readonly string[];
}

interface Parts {
  readonly env: Env;
  readonly self: string;
  readonly sql: SqlStorage;
  readonly record: DestinationRecord;
  readonly remoteObjects: RemoteObjects;
  readonly associations: Associations;
  readonly commit: <T>(change: () => T) => T;
  readonly setDesired: (row: AssociationRow, wish: "present" | "absent", now: number) => void;
}

/**
 * The other destinations that write to the same place at the provider: a name there belongs to one destination only.
 *
 * A destination registers its targets with `SyncControl`, which answers those that have one in common. It asks each of them
 * before it uses a name for the first time, and whoever is asked learns of the asker: so of two destinations at least the one
 * that claims last asks the other. A claim shows to others before they are asked, and a name that both claim at the same time,
 * or have from a time before they met, goes to the older destination. Without neighbours nothing is asked.
 */
export class Neighbours {
  readonly #parts: Parts;
  /** Claims on their way, each with the names that were given up to another destination meanwhile. */
  readonly #claims = new Set<{ readonly names: ReadonlySet<string>; readonly lost: Map<string, string> }>();

  /** The targets of the setup in force. */
  #kept: { readonly setup: Setup; readonly targets: string[] } | null = null;
  #telling: Promise<void> = Promise.resolve();

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** The targets of a destination as one text, empty for none. @throws Sealed */
  place(found: Found): string {
    return placeOf(this.#targets(found));
  }

  /**
   * Asks for names, and records in one step with the answer what is done with those that are free.
   * @throws when a neighbour cannot be asked; @throws Sealed
   */
  async claimNames<T>(names: readonly string[], record: (taken: TakenNames) => T): Promise<T> {
    if (names.length === 0) return record(NONE_TAKEN);
    await this.register();
    if (this.#others().length === 0) return record(NONE_TAKEN);
    const claim = { names: new Set(names), lost: new Map<string, string>() };
    this.#claims.add(claim);
    try {
      for (;;) {
        const before = this.#asked();
        const taken = await this.#ask(names, true);
        // Its targets may have changed meanwhile, and with them those to be asked.
        if (this.#asked() === before) return record(new Map([...taken, ...claim.lost]));
        await this.register();
      }
    } finally {
      this.#claims.delete(claim);
    }
  }

  /** Which of these names other destinations have now. */
  async takenNames(names: readonly string[]): Promise<TakenNames> {
    if (names.length === 0) return NONE_TAKEN;
    await this.register();
    return this.#ask(names, false);
  }

  /** Another destination asks for names. @returns those that it may not use */
  contest(asker: Asker, names: readonly string[]): Contest {
    const { self, record, commit } = this.#parts;
    const found = record.find();
    const targets = found ? this.#targets(found) : [];
    if (!found || !targets.some((target) => asker.targets.includes(target))) return { shares: false, kept: [] };
    const { created } = found.row;
    const isOlder = created === asker.created ? self < asker.destination : created < asker.created;
    return commit(() => {
      this.#meet([asker.destination]);
      const kept = names.filter((name) => this.#keeps(name, placeOf(targets), asker, isOlder));
      return { shares: true, kept };
    });
  }

  /** Tells `SyncControl` of the targets, unless it knows. Only once the destination is stored: else it denies what it is asked. */
  register(): Promise<void> {
    return this.#inTurn(() => this.#register());
  }

  /** Tells `SyncControl` that the destination has ended. */
  leave(): Promise<void> {
    const { env, self, sql, record, commit } = this.#parts;
    return this.#inTurn(async () => {
      await syncControl(env).useTargets(self, []);
      if (!record.row()) commit(() => sql.exec("DELETE FROM neighbours"));
    });
  }

  /** Like `register`, but never rejects. */
  async tryRegister(): Promise<void> {
    await this.register().catch((failure: unknown) => {
      warn("targets-unknown", { destination: this.#parts.self, because: textOf(failure) });
    });
  }

  async #register(): Promise<void> {
    const { env, self, sql, record, commit } = this.#parts;
    const found = record.find();
    if (!found) return;
    const targets = this.#targets(found);
    const place = placeOf(targets);
    if ((found.row.targets ?? "") === place) return;
    const others = await syncControl(env).useTargets(self, targets);
    commit(() => {
      this.#meet(others);
      sql.exec("UPDATE destination SET targets = ?", place);
      record.forget();
    });
  }

  /** One statement to `SyncControl` at a time: the newest counts there. */
  #inTurn(tell: () => Promise<void>): Promise<void> {
    const told = this.#telling.then(tell);
    this.#telling = told.catch(() => undefined);
    return told;
  }

  #keeps(name: string, place: string, asker: Asker, isOlder: boolean): boolean {
    const { remoteObjects, associations, setDesired } = this.#parts;
    const claims = [...this.#claims].filter((claim) => claim.names.has(name) && !claim.lost.has(name));
    const { associations: holders, surely } = remoteObjects.holdersOf(name, place);
    if (holders.length === 0 && claims.length === 0) return false;
    if (surely || isOlder || !asker.claims) return true;
    for (const claim of claims) claim.lost.set(name, this.#wordsFor(asker.destination));
    remoteObjects.yieldName(name);
    // Their next attempt finds the name taken, and says so.
    for (const row of holders.map((id) => associations.find(id))) if (row) setDesired(row, row.wish, Date.now());
    return false;
  }

  async #ask(names: readonly string[], claims: boolean): Promise<TakenNames> {
    const { env, self, sql, record, commit } = this.#parts;
    const found = record.find();
    if (!found) return NONE_TAKEN;
    const asker = { destination: self, created: found.row.created, targets: this.#targets(found), claims };
    const answers = await Promise.all(
      this.#others().map(async (other) => ({ other, ...(await syncDestination(env, other).contest(asker, names)) })),
    );
    const left = answers.filter(({ shares }) => !shares);
    commit(() => {
      for (const { other } of left) sql.exec("DELETE FROM neighbours WHERE destination = ?", other);
    });
    return new Map(answers.flatMap(({ other, kept }) => kept.map((name) => [name, this.#wordsFor(other)])));
  }

  #meet(others: readonly string[]): void {
    for (const other of others) this.#parts.sql.exec("INSERT OR IGNORE INTO neighbours VALUES (?)", other);
  }

  /** What a round of questions depends on. */
  #asked(): string {
    const found = this.#parts.record.find();
    return found ? this.place(found) : "";
  }

  #others(): string[] {
    return this.#parts.sql
      .exec<{ destination: string }>("SELECT destination FROM neighbours")
      .toArray()
      .map(({ destination }) => destination);
  }

  /** Digests, because a target may hold part of the connection details. @throws Sealed */
  #targets(found: Found): string[] {
    const { env, record } = this.#parts;
    const setup = record.setup(found);
    if (this.#kept?.setup === setup) return this.#kept.targets;
    const targets = found.type
      .targets(setup.connection, settings(env))
      .map((target) =>
        createHash("sha256")
          .update(JSON.stringify([found.type.type, target]))
          .digest("hex"),
      )
      .sort();
    this.#kept = { setup, targets };
    return targets;
  }

  /** A destination in the words of an answer. Its name is told in its own namespace and in those above only. */
  #wordsFor(other: string): string {
    const ours = destinationKeyOf(this.#parts.self).namespace;
    const { namespace, type, name } = destinationKeyOf(other);
    if (namespace === ours) return `the destination ${type}/${name}`;
    if (namespace.startsWith(ours)) return `the destination ${type}/${name} of the namespace ${namespace}`;
    return "a destination of another namespace";
  }
}

const placeOf = (targets: readonly string[]): string => targets.join(" ");
