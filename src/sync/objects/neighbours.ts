import type { Asker, Contest } from "../../contracts/sync-destination.ts";
import type { ObjectContext } from "../../platform/durable/object-context.ts";
import { textOf, warn } from "../../platform/observability/log.ts";
import { destinationKeyOf } from "../../rpc/destination-name.ts";
import { syncControl, syncDestination } from "../../rpc/stubs.ts";
import type { Associations } from "../associations/associations.ts";
import { type DestinationRecord, placeOf } from "../configuration/destination-record.ts";
import { texts } from "../rows.ts";
import { NONE_TAKEN, type TakenNames } from "./object-plan.ts";
import type { RemoteObjects } from "./remote-objects.ts";

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
  /** Claims in flight, each with the names lost to another destination in the meantime. */
  readonly #claims = new Set<{ readonly names: ReadonlySet<string>; readonly lost: Map<string, string> }>();

  #statement: Promise<void> = Promise.resolve();

  constructor(
    private readonly object: ObjectContext,
    private readonly record: DestinationRecord,
    private readonly remoteObjects: RemoteObjects,
    private readonly associations: Associations,
  ) {}

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
    const self = this.object.name;
    const found = this.record.find();
    const targets = found ? this.record.targets(found) : [];
    if (!found || !targets.some((target) => asker.targets.includes(target))) return { shares: false, kept: [] };
    const { created } = found.row;
    const isOlder = created === asker.created ? self < asker.destination : created < asker.created;
    return this.object.commit(() => {
      this.#meet([asker.destination]);
      const kept = names.filter((name) => this.#keeps(name, placeOf(targets), asker, isOlder));
      return { shares: true, kept };
    });
  }

  /**
   * Registers changed targets with `SyncControl`. Called once the destination is stored, since `contest` needs its row.
   */
  register(): Promise<void> {
    return this.#inTurn(() => this.#register());
  }

  /** Delivers the outbox topic `targets`: the targets of the destination, or none after it was deleted. */
  deliver(): Promise<void> {
    return this.record.row() ? this.register() : this.#inTurn(() => this.#leave());
  }

  /** Like `register`, but never rejects. */
  async tryRegister(): Promise<void> {
    await this.register().catch((failure: unknown) => {
      warn("targets-unknown", { destination: this.object.name, because: textOf(failure) });
    });
  }

  async #register(): Promise<void> {
    const { env, name, sql } = this.object;
    const record = this.record;
    const found = record.find();
    if (!found) return;
    const targets = record.targets(found);
    const place = placeOf(targets);
    if ((found.row.targets ?? "") === place) return;
    const others = await syncControl(env).useTargets(name, targets);
    this.object.commit(() => {
      this.#meet(others);
      sql.exec("UPDATE destination SET targets = ?", place);
      record.forget();
    });
  }

  async #leave(): Promise<void> {
    const { env, name, sql } = this.object;
    await syncControl(env).useTargets(name, []);
    if (!this.record.row()) this.object.commit(() => sql.exec("DELETE FROM neighbours"));
  }

  /** Sends one statement to `SyncControl` at a time, because the newest replaces the others there. */
  #inTurn(send: () => Promise<void>): Promise<void> {
    const sent = this.#statement.then(send);
    this.#statement = sent.catch(() => undefined);
    return sent;
  }

  #keeps(name: string, place: string, asker: Asker, isOlder: boolean): boolean {
    const remoteObjects = this.remoteObjects;
    const claims = [...this.#claims].filter((claim) => claim.names.has(name) && !claim.lost.has(name));
    const { associations: holders, surely } = remoteObjects.holdersOf(name, place);
    if (holders.length === 0 && claims.length === 0) return false;
    if (surely || isOlder || !asker.claims) return true;
    for (const claim of claims) claim.lost.set(name, this.#wordsFor(asker.destination));
    remoteObjects.yieldName(name);
    // Their next attempt finds the name taken and reports it.
    for (const row of holders.map((id) => this.associations.find(id)))
      if (row && row.wish !== "held") this.associations.setDesired(row, row.wish, Date.now());
    return false;
  }

  async #ask(names: readonly string[], claims: boolean): Promise<TakenNames> {
    const { env, name, sql } = this.object;
    const found = this.record.find();
    if (!found) return NONE_TAKEN;
    const asker = { destination: name, created: found.row.created, targets: this.record.targets(found), claims };
    const answers = await Promise.all(
      this.#others().map(async (other) => ({ other, ...(await syncDestination(env, other).contest(asker, names)) })),
    );
    const left = answers.filter(({ shares }) => !shares);
    this.object.commit(() => {
      for (const { other } of left) sql.exec("DELETE FROM neighbours WHERE destination = ?", other);
    });
    return new Map(answers.flatMap(({ other, kept }) => kept.map((name) => [name, this.#wordsFor(other)])));
  }

  #meet(others: readonly string[]): void {
    for (const other of others) this.object.sql.exec("INSERT OR IGNORE INTO neighbours VALUES (?)", other);
  }

  /** The targets that the current round of checks covers. */
  #asked(): string {
    const found = this.record.find();
    return found ? this.record.place(found) : "";
  }

  #others(): string[] {
    return texts(this.object.sql, "SELECT destination FROM neighbours");
  }

  /** Describes a destination in an error message. Its name is shown in its own namespace and in those above only. */
  #wordsFor(other: string): string {
    const ours = destinationKeyOf(this.object.name).namespace;
    const { namespace, type, name } = destinationKeyOf(other);
    if (namespace === ours) return `the destination ${type}/${name}`;
    if (namespace.startsWith(ours)) return `the destination ${type}/${name} of the namespace ${namespace}`;
    return "a destination of another namespace";
  }
}
