import { createHash } from "node:crypto";
import { destinationKeyOf } from "../contracts/destination.ts";
import { syncControl, syncDestination } from "../contracts/stubs.ts";
import type { Asker, Contest } from "../contracts/sync-destination.ts";
import type { Setup } from "../contracts/sync-tasks.ts";
import { textOf, warn } from "../platform/observability/log.ts";
import { settings } from "../platform/settings.ts";
import type { Associations } from "./associations.ts";
import type { DestinationRecord, Found } from "./destination-record.ts";
import { NONE_TAKEN, type TakenNames } from "./object-plan.ts";
import type { RemoteObjects } from "./remote-objects.ts";

interface Dependencies {
  readonly env: Env;
  readonly self: string;
  readonly sql: SqlStorage;
  readonly record: DestinationRecord;
  readonly remoteObjects: RemoteObjects;
  readonly associations: Associations;
  readonly commit: <T>(change: () => T) => T;
}

/**
 * Neighbours: other destinations that write to the same targets at the provider. A name there belongs to one
 * destination only. Owned by `SyncDestination`; costs one RPC per neighbour for names used for the first time.
 *
 * A destination registers its targets with `SyncControl`, which returns the destinations with a common target. Before
 * the first use of a name it checks the name with each of them, and each of them records the sender as a neighbour. So
 * of two destinations at least the later one checks with the other. A claim is visible to others before the check is
 * sent. A name that both claim at the same time, or own from before they met, goes to the older destination.
 */
export class Neighbours {
  readonly #dependencies: Dependencies;
  /** Claims in flight, each with the names lost to another destination in the meantime. */
  readonly #claims = new Set<{ readonly names: ReadonlySet<string>; readonly lost: Map<string, string> }>();

  /** Cache of the targets, by setup. */
  #cached: { readonly setup: Setup; readonly targets: string[] } | null = null;
  #statement: Promise<void> = Promise.resolve();

  constructor(dependencies: Dependencies) {
    this.#dependencies = dependencies;
  }

  /** The targets of a destination joined to one text, empty for none. @throws Sealed */
  place(found: Found): string {
    return placeOf(this.#targets(found));
  }

  /**
   * Checks names with all neighbours, then calls `record` with the names they own, in the same turn.
   * @throws when a neighbour does not answer; @throws Sealed
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
        // A change of the targets in the meantime changes the set of neighbours.
        if (this.#asked() === before) return record(new Map([...taken, ...claim.lost]));
        await this.register();
      }
    } finally {
      this.#claims.delete(claim);
    }
  }

  /** The names among these that other destinations own, without claiming them. */
  async takenNames(names: readonly string[]): Promise<TakenNames> {
    if (names.length === 0) return NONE_TAKEN;
    await this.register();
    return this.#ask(names, false);
  }

  /** Handles another destination's check of names. @returns the names that it may not use */
  contest(asker: Asker, names: readonly string[]): Contest {
    const { self, record, commit } = this.#dependencies;
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

  /** Registers changed targets with `SyncControl`. Called once the destination is stored, since `contest` needs its row. */
  register(): Promise<void> {
    return this.#inTurn(() => this.#register());
  }

  /** Removes the targets from `SyncControl` after the destination was deleted. */
  leave(): Promise<void> {
    const { env, self, sql, record, commit } = this.#dependencies;
    return this.#inTurn(async () => {
      await syncControl(env).useTargets(self, []);
      if (!record.row()) commit(() => sql.exec("DELETE FROM neighbours"));
    });
  }

  /** Like `register`, but never rejects. */
  async tryRegister(): Promise<void> {
    await this.register().catch((failure: unknown) => {
      warn("targets-unknown", { destination: this.#dependencies.self, because: textOf(failure) });
    });
  }

  async #register(): Promise<void> {
    const { env, self, sql, record, commit } = this.#dependencies;
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

  /** Sends one statement to `SyncControl` at a time, because the newest replaces the others there. */
  #inTurn(send: () => Promise<void>): Promise<void> {
    const sent = this.#statement.then(send);
    this.#statement = sent.catch(() => undefined);
    return sent;
  }

  #keeps(name: string, place: string, asker: Asker, isOlder: boolean): boolean {
    const { remoteObjects, associations } = this.#dependencies;
    const claims = [...this.#claims].filter((claim) => claim.names.has(name) && !claim.lost.has(name));
    const { associations: holders, surely } = remoteObjects.holdersOf(name, place);
    if (holders.length === 0 && claims.length === 0) return false;
    if (surely || isOlder || !asker.claims) return true;
    for (const claim of claims) claim.lost.set(name, this.#wordsFor(asker.destination));
    remoteObjects.yieldName(name);
    // Their next attempt finds the name taken and reports it.
    for (const row of holders.map((id) => associations.find(id)))
      if (row) associations.setDesired(row, row.wish, Date.now());
    return false;
  }

  async #ask(names: readonly string[], claims: boolean): Promise<TakenNames> {
    const { env, self, sql, record, commit } = this.#dependencies;
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
    for (const other of others) this.#dependencies.sql.exec("INSERT OR IGNORE INTO neighbours VALUES (?)", other);
  }

  /** The targets that the current round of checks covers. */
  #asked(): string {
    const found = this.#dependencies.record.find();
    return found ? this.place(found) : "";
  }

  #others(): string[] {
    return this.#dependencies.sql
      .exec<{ destination: string }>("SELECT destination FROM neighbours")
      .toArray()
      .map(({ destination }) => destination);
  }

  /** Targets as SHA-256 digests, because a target may contain connection details. @throws Sealed */
  #targets(found: Found): string[] {
    const { env, record } = this.#dependencies;
    const setup = record.setup(found);
    if (this.#cached?.setup === setup) return this.#cached.targets;
    const targets = found.type
      .targets(setup.connection, settings(env))
      .map((target) =>
        createHash("sha256")
          .update(JSON.stringify([found.type.type, target]))
          .digest("hex"),
      )
      .sort();
    this.#cached = { setup, targets };
    return targets;
  }

  /** Describes a destination in an error message. Its name is shown in its own namespace and in those above only. */
  #wordsFor(other: string): string {
    const ours = destinationKeyOf(this.#dependencies.self).namespace;
    const { namespace, type, name } = destinationKeyOf(other);
    if (namespace === ours) return `the destination ${type}/${name}`;
    if (namespace.startsWith(ours)) return `the destination ${type}/${name} of the namespace ${namespace}`;
    return "a destination of another namespace";
  }
}

const placeOf = (targets: readonly string[]): string => targets.join(" ");
