import type { DestinationKey } from "../../contracts/destination.ts";
import type { DestinationState, SyncDestinationApi } from "../../contracts/sync-destination.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import { refuseIfSealed } from "../../platform/crypto/refuse-if-sealed.ts";
import type { ObjectContext } from "../../platform/durable/object-context.ts";
import { settings } from "../../platform/settings.ts";
import { announceDestination } from "../associations/announcements.ts";
import type { Purge } from "../associations/purge.ts";
import type { Breaker } from "../scheduler/breaker.ts";
import type { Resync } from "../scheduler/resync.ts";
import { appIn, type CustomApp } from "./custom-app.ts";
import type { Defined } from "./definition.ts";
import type { DestinationRecord } from "./destination-record.ts";
import type { Registration } from "./registration.ts";

type Options = NonNullable<Parameters<SyncDestinationApi["configure"]>[2]>;

/**
 * Creates and changes the configuration of one destination. Owned by `SyncDestination`. A write costs one RPC to
 * `SyncControl` when an application is named, one to `AccessControl` when the destination is new.
 */
export class Configuration {
  constructor(
    private readonly object: ObjectContext,
    private readonly record: DestinationRecord,
    private readonly app: CustomApp,
    private readonly registration: Registration,
    private readonly resync: Resync,
  ) {}

  /**
   * Creates the destination, or changes the fields in the body. The caller delivers its announcements.
   * @param options `word` is the type as the caller spells it. `patch` is a JSON merge patch, which creates nothing. A
   *   Worker of the version before does not say the caller's rights
   * @returns the warnings
   */
  async write(
    key: DestinationKey,
    body: Readonly<Record<string, unknown>>,
    options: Options = {},
  ): Promise<Result<Defined["warnings"]>> {
    const defined = refuseIfSealed(() => this.#define(key, body, options));
    if (!defined.ok) return defined;
    const app = appIn(defined.value);
    const claimed = app === null ? ok(null) : await this.app.claim(key, app);
    if (!claimed.ok) return claimed;
    const registered = await this.registration.ensure();
    if (!registered.ok) return registered;
    return refuseIfSealed(() => {
      // Defined again, because another write may have happened during the calls above.
      const again = this.#define(key, body, options);
      if (!again.ok) return again;
      if (appIn(again.value) !== app) return refuse("conflict", "another write came in between; try again");
      const free = this.registration.check();
      if (!free.ok) return free;
      this.#store(key, again.value, options.word);
      return ok(again.value.warnings);
    });
  }

  /** Retries failed associations after the custom application's key was replaced. */
  repaired(): void {
    if (!this.record.row()) return;
    const now = Date.now();
    this.object.commit(() => {
      this.record.renewRights(now);
      this.resync.restart(now);
    });
  }

  #define(key: DestinationKey, body: Readonly<Record<string, unknown>>, { mode = "write", origin, rights }: Options) {
    if (rights && mode === "write" && !(this.record.row() ? rights.update : rights.create))
      return refuse("denied", "permission denied");
    return this.record.define(key, body, mode, settings(this.object.env), origin);
  }

  #store(key: DestinationKey, { definition }: Defined, word = key.type): void {
    const now = Date.now();
    this.object.commit(() => {
      announceDestination(this.object.outbox, !this.record.row());
      this.record.store(key, word, definition, now);
      this.resync.restart(now);
    });
  }
}

/** A destination as readers see it, with its running purge and open breaker. @throws Sealed */
export function destinationState(record: DestinationRecord, purge: Purge, breaker: Breaker): Result<DestinationState> {
  const found = record.find();
  if (!found) return refuse("missing");
  const ending = purge.find();
  const open = breaker.view();
  return ok({
    ...record.view(found),
    ...(ending && { purge_initiated_at: isoOf(ending.initiated), purge_error: ending.error ?? "" }),
    ...(open && { circuit_breaker: { failures: open.failures, next_attempt_at: isoOf(open.openUntil) } }),
  });
}

const isoOf = (at: number): string => new Date(at).toISOString();
