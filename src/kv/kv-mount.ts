import type { MetadataSettings, WatchedVersion } from "../contracts/kv-store.ts";
import { NOTHING } from "../platform/durable/object-context.ts";
import { recordAction } from "../platform/observability/audit/actions.ts";
import type { KvRecords } from "./kv-records.ts";
import { changeConfig } from "./settings.ts";

const EXPIRED_PER_ALARM = 500;

/** The mount as a whole: its settings, its path, its end, and the destinations that watch it. */
export class KvMount {
  constructor(private readonly records: KvRecords) {}

  enableVersioning(): void {
    const { object, state } = this.records;
    object.commit(() => state.set("engine", "versioned"));
  }

  setConfig(changes: Omit<MetadataSettings, "custom_metadata">): void {
    const { object, state, events } = this.records;
    const config = JSON.stringify(changeConfig(state.get().config, changes));
    object.commit(() => {
      state.markVersioned();
      state.set("config", config);
      events.recordConfig();
    });
  }

  rekey(term: number): void {
    const { object, state, keys } = this.records;
    if (!state.get().gone) object.commit(() => keys.rotate(term, Date.now()), NOTHING);
  }

  moved(path: string, seq: number): void {
    const { object, state, watchers, followers, delivery } = this.records;
    if (seq <= (state.get().moved?.seq ?? 0)) return;
    object.commit(() => {
      state.set("moved", JSON.stringify({ path, seq }));
      const concerned = new Set([...watchers.destinations(), ...followers.of(null)]);
      for (const destination of concerned) delivery.enlistMoved(destination);
    }, NOTHING);
    object.waitUntil(object.outbox.drain("moved"));
  }

  /** Destroys every secret of the mount and notifies its watchers. Idempotent. */
  async destroy(): Promise<void> {
    const { object, secrets, state, keys, watchers, delivery, names } = this.records;
    object.commit(() => {
      state.set("gone", "1");
      secrets.clear();
      for (const path of watchers.paths()) delivery.enlist(path);
      delivery.enlistFollowers(null);
      names.compare();
      keys.deleteAll();
    });
    await Promise.all(["changed", "matching"].map((topic) => object.outbox.drain(topic)));
  }

  follow(destination: string, prefixes: readonly string[]): void {
    const { object, followers } = this.records;
    object.commit(() => followers.set(destination, prefixes), NOTHING);
  }

  /** Notifies `destination` of future changes of `path`. Idempotent. @returns the newest live version, or null */
  watch(path: string, destination: string): number | null {
    return this.watchMany(destination, [path], [])[0]?.version ?? null;
  }

  /** Begins and ends watches of many paths, in one transaction. @returns the newest live version of each begun one */
  watchMany(destination: string, begun: readonly string[], ended: readonly string[]): (WatchedVersion | null)[] {
    const { object, secrets, state, watchers, delivery } = this.records;
    const now = Date.now();
    const { moved } = state.get();
    const isTold = moved !== null && begun.length > 0;
    object.commit(() => {
      for (const path of begun) watchers.add(path, destination, now);
      for (const path of ended) watchers.remove(path, destination);
      // The destination may have recorded the path before the move.
      if (isTold) delivery.enlistMoved(destination);
    }, NOTHING);
    if (isTold) object.waitUntil(object.outbox.drain("moved"));
    return begun.map((path) => {
      const newest = secrets.newestLiving(path, now);
      return newest && { version: newest.version, created: newest.created };
    });
  }

  unwatch(path: string, destination: string): void {
    const { object, watchers } = this.records;
    object.commit(() => watchers.remove(path, destination), NOTHING);
  }

  /** Notifies watchers of versions that have expired, a change like any other. */
  async announceExpired(now: number): Promise<void> {
    const { object, watchers, delivery } = this.records;
    const { expired, enlisted } = object.commit(() => {
      const expired = watchers.takeExpired(now, EXPIRED_PER_ALARM);
      return { expired, enlisted: expired.flatMap((path) => delivery.enlist(path)) };
    }, NOTHING);
    for (const secret of expired) recordAction("version-expired", { mount: object.name, secret });
    if (enlisted.length > 0) await object.outbox.drain("changed");
  }
}
