import type { DestinationKey } from "../contracts/destination.ts";
import { accessControl, syncControl } from "../contracts/stubs.ts";
import { ok, type Result, refuse } from "../lib/result.ts";
import { guarded } from "../platform/crypto/refuse-if-sealed.ts";
import { settings } from "../platform/settings.ts";
import { announceDestination } from "./announcements.ts";
import type { Definition } from "./definition.ts";
import type { DestinationView } from "./destination-record.ts";
import type { DestinationType } from "./destinations/index.ts";
import type { DestinationParts } from "./parts.ts";

/** A destination as a read shows it, with what goes on there. */
export interface DestinationState extends DestinationView {
  readonly purge_initiated_at?: string;
  readonly purge_error?: string;
  /** While failures in a row keep it from being tried at full speed. */
  readonly circuit_breaker?: { readonly failures: number; readonly next_attempt_at: string };
}

export interface Configured {
  readonly state: DestinationState;
  readonly warnings: readonly string[];
}

/** How a destination is created, changed and shown, and which custom application it uses. */
export class Configuration {
  readonly #parts: DestinationParts;
  /** Applications that writes on their way are about to use. */
  readonly #claimed: string[] = [];

  constructor(parts: DestinationParts) {
    this.#parts = parts;
  }

  /**
   * Creates the destination, or changes what the body names.
   * @param word what the caller calls the type
   * @param mode `patch`: a JSON merge patch, which creates nothing
   */
  async write(
    key: DestinationKey,
    body: Readonly<Record<string, unknown>>,
    { word, mode = "write" }: { word?: string; mode?: "write" | "patch" } = {},
  ): Promise<Result<Configured>> {
    const { env, self, record, outbox } = this.#parts;
    const defined = guarded(() => record.define(key, body, mode, settings(env)));
    if (!defined.ok) return defined;
    const app = appIn(defined.value);
    if (app !== null) {
      this.#claimed.push(app);
      const claimed = await syncControl(env)
        .claimApp(key.namespace, self, app)
        .finally(() => this.#claimed.splice(this.#claimed.indexOf(app), 1));
      if (!claimed.ok) return claimed;
    }
    const known = record.row() ? ok(null) : await this.#becomeKnown();
    if (!known.ok) return known;
    const written = guarded((): Result<Configured> => {
      // Once more: another write may have come in between.
      const again = record.define(key, body, mode, settings(env));
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
    return guarded(() => {
      const { record, purge, breaker } = this.#parts;
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

  /** What it calls the provider with has been repaired elsewhere. */
  repaired(): void {
    if (this.#parts.record.row()) this.#parts.commit(() => this.#tryAgain(Date.now()));
  }

  /** Whether the destination uses a custom application, or is about to. @throws Sealed */
  needsApp(name: string): boolean {
    return this.#claimed.includes(name) || this.usedApp() === name;
  }

  /** The custom application in use, or null. @throws Sealed */
  usedApp(): string | null {
    const { record } = this.#parts;
    const found = record.find();
    return found && appIn({ type: found.type, definition: record.definition(found.row) });
  }

  /** Has `AccessControl` know of the destination before there is one: what it does not know of is in no snapshot. */
  async #becomeKnown(): Promise<Result<null>> {
    const { env, self, outbox, commit } = this.#parts;
    // That one of this name has ended must not be told after the new one.
    await outbox.drain("key-holder", "");
    if (outbox.holds("key-holder", "")) return STILL_ENDING;
    // Tells later what has become of it, whatever keeps it from being stored: nothing else would, and its namespace would stay.
    commit(() => outbox.enlistLatest("key-holder", "new", null));
    return accessControl(env).admitDestination(self);
  }

  #store(key: DestinationKey, definition: Definition, word = key.type): Result<null> {
    const { record, purge, outbox, commit } = this.#parts;
    if (!record.row() && purge.find()) return STILL_ENDING;
    const now = Date.now();
    commit(() => {
      announceDestination(outbox, !record.row());
      record.store(key, word, definition, now);
      this.#tryAgain(now);
    });
    return ok(null);
  }

  /** What was repaired gets its chance at once. */
  #tryAgain(now: number): void {
    const { breaker, work, associations, resync } = this.#parts;
    breaker.close();
    work.unpause();
    if (associations.any()) resync.restart(now);
  }
}

const STILL_ENDING = refuse("conflict", "a destination of this name is still being deleted; try again in a moment");
const isoOf = (at: number): string => new Date(at).toISOString();
const appIn = ({ type, definition }: { type: DestinationType<unknown>; definition: Definition }): string | null =>
  type.appOf?.(definition.connection) ?? null;
