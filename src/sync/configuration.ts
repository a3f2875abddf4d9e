import type { DestinationKey } from "../contracts/destination.ts";
import { accessControl, syncControl } from "../contracts/stubs.ts";
import type { Configured, DestinationState } from "../contracts/sync-destination.ts";
import { ok, type Result, refuse } from "../lib/result.ts";
import { refuseIfSealed } from "../platform/crypto/refuse-if-sealed.ts";
import { settings } from "../platform/settings.ts";
import { announceDestination } from "./announcements.ts";
import type { Definition } from "./definition.ts";
import type { DestinationDependencies } from "./dependencies.ts";
import type { DestinationType } from "./destinations/index.ts";

/**
 * The configuration of one destination: create, change and read, and the custom application it uses. Owned by
 * `SyncDestination`. A write costs one RPC to `SyncControl` when an application is named, one to `AccessControl` when
 * the destination is new.
 */
export class Configuration {
  readonly #dependencies: DestinationDependencies;
  /** Applications named by writes in flight. */
  readonly #claimed: string[] = [];

  constructor(dependencies: DestinationDependencies) {
    this.#dependencies = dependencies;
  }

  /**
   * Creates the destination, or changes the fields in the body.
   * @param word the type as the caller spells it
   * @param mode `patch`: a JSON merge patch, which creates nothing
   * @param origin of the request
   */
  async write(
    key: DestinationKey,
    body: Readonly<Record<string, unknown>>,
    { word, mode = "write", origin }: { word?: string; mode?: "write" | "patch"; origin?: string } = {},
  ): Promise<Result<Configured>> {
    const { env, self, record, outbox } = this.#dependencies;
    const defined = refuseIfSealed(() => record.define(key, body, mode, settings(env), origin));
    if (!defined.ok) return defined;
    const app = appIn(defined.value);
    if (app !== null) {
      this.#claimed.push(app);
      const claimed = await syncControl(env)
        .claimApp(key.namespace, self, app)
        .finally(() => this.#claimed.splice(this.#claimed.indexOf(app), 1));
      if (!claimed.ok) return claimed;
    }
    const registered = record.row() ? ok(null) : await this.#register();
    if (!registered.ok) return registered;
    const written = refuseIfSealed((): Result<Configured> => {
      // Defined again, because another write may have happened during the calls above.
      const again = record.define(key, body, mode, settings(env), origin);
      if (!again.ok) return again;
      if (appIn(again.value) !== app) return refuse("conflict", "another write came in between; try again");
      const stored = this.#store(key, again.value.definition, word);
      if (!stored.ok) return stored;
      const state = this.read();
      return state.ok ? ok({ state: state.value, warnings: again.value.warnings }) : state;
    });
    await outbox.drain();
    return written;
  }

  read(): Result<DestinationState> {
    return refuseIfSealed(() => {
      const { record, purge, breaker } = this.#dependencies;
      const found = record.find();
      if (!found) return refuse("missing");
      const ending = purge.find();
      const open = breaker.view();
      return ok({
        ...record.view(found),
        ...(ending && { purge_initiated_at: isoOf(ending.initiated), purge_error: ending.error ?? "" }),
        ...(open && { circuit_breaker: { failures: open.failures, next_attempt_at: isoOf(open.openUntil) } }),
      });
    });
  }

  /** Retries failed associations after the custom application's key was replaced. */
  repaired(): void {
    if (this.#dependencies.record.row()) this.#dependencies.commit(() => this.#tryAgain(Date.now()));
  }

  /** Whether the destination uses a custom application, or a write in flight names it. @throws Sealed */
  needsApp(name: string): boolean {
    return this.#claimed.includes(name) || this.usedApp() === name;
  }

  /** The custom application in use, or null. @throws Sealed */
  usedApp(): string | null {
    const { record } = this.#dependencies;
    const found = record.find();
    return found && appIn({ type: found.type, definition: record.definition(found.row) });
  }

  /** Registers the destination with `AccessControl` before it is stored: snapshots cover registered objects only. */
  async #register(): Promise<Result<null>> {
    const { env, self, outbox, commit } = this.#dependencies;
    // The end of a predecessor of this name must be announced before the new destination.
    await outbox.drain("key-holder", "");
    if (outbox.holds("key-holder", "")) return STILL_ENDING;
    // A pending announcement removes the registration if the destination is never stored; it would block its namespace.
    commit(() => outbox.enlistLatest("key-holder", "new", null));
    return accessControl(env).admitDestination(self);
  }

  #store(key: DestinationKey, definition: Definition, word = key.type): Result<null> {
    const { record, purge, outbox, commit } = this.#dependencies;
    if (!record.row() && purge.find()) return STILL_ENDING;
    const now = Date.now();
    commit(() => {
      announceDestination(outbox, !record.row());
      record.store(key, word, definition, now);
      this.#tryAgain(now);
    });
    return ok(null);
  }

  /** Closes the breaker, ends pauses and resyncs now, because the cause of failures may be repaired. */
  #tryAgain(now: number): void {
    const { breaker, work, associations, resync } = this.#dependencies;
    breaker.close();
    work.unpause();
    if (associations.any()) resync.restart(now);
  }
}

const STILL_ENDING = refuse("conflict", "a destination of this name is still being deleted; try again in a moment");
const isoOf = (at: number): string => new Date(at).toISOString();
const appIn = ({ type, definition }: { type: DestinationType<unknown>; definition: Definition }): string | null =>
  type.appOf?.(definition.connection) ?? null;
