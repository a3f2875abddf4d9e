import {
  DEFAULTS,
  type MayRun,
  type QuotaGrant,
  type QuotaRequest,
  type SyncConfig,
  type SyncControlApi,
} from "../contracts/sync-control.ts";
import { mapLimit } from "../lib/map-limit.ts";
import { dataKeyMigrations } from "../platform/crypto/data-keys.ts";
import { knownPage } from "../platform/durable/object-inventory.ts";
import type { KnownPage } from "../platform/durable/object-kinds.ts";
import { composedOf } from "../platform/durable/rpc-methods.ts";
import { textOf, warn } from "../platform/observability/log.ts";
import { type Series, series } from "../platform/observability/metrics/series.ts";
import { accessControl, syncDestination } from "../rpc/stubs.ts";
import { ControlStore } from "../sync/configuration/control-store.ts";
import { appMethods, type ControlParts, controlParts } from "../sync/control-methods.ts";
import { controlMigrations } from "../sync/control-schema.ts";
import { DESTINATIONS_WITH_QUOTA } from "../sync/scheduler/queue-capacity.ts";

/**
 * Default lifetime of a gate lease (permission to call providers). A pause takes effect when all leases have expired.
 */
const LEASE_MS = 100;
/** Maximum lifetime of a gate lease. */
const MAX_LEASE_MS = 1_600;
/** Issued leases are recorded at most once in this time. */
const RECORD_INTERVAL_MS = 10_000;
/** Margin for the time from lease to network call, and for clock drift. */
const LEASE_MARGIN_MS = 70;
const WOKEN_PER_PAGE = 100;
const MAX_CONCURRENT = 6;

const ControlMethods = composedOf<ControlParts>()(appMethods);

/**
 * Owns deployment-wide sync state: the sync gate, the queue capacity (`QueueCapacity`), and custom applications. One
 * instance per deployment. A quota request states the whole need, so a lost one is corrected by the next one.
 *
 *   open ──pause──> closing ──all gate leases expired──> paused ──resume──> open
 */
export class SyncControl extends ControlMethods implements SyncControlApi {
  protected override readonly parts: ControlParts;
  readonly #store: ControlStore;
  /** Counts the times that destinations are to be woken, so that two of them are told apart. */
  #resumes = 0;
  /** End of the last gate lease. */
  #leasedUntil: number;
  /** Stored upper bound of lease ends: a restarted instance derives from it whether leases may exist. */
  #recordedUntil: number;

  protected override get kind() {
    return "sync-control" as const;
  }

  constructor(ctx: DurableObjectState, env: Env) {
    super(
      ctx,
      env,
      { data_keys: dataKeyMigrations, control: controlMigrations },
      {
        "key-holder": async () => this.rekey(await accessControl(this.env).holdsKeys("sync-control", "main", true)),
        repaired: (destination) => syncDestination(this.env, destination).repaired(),
        scarce: (_lane, rows) => this.#announceScarcity(rows.map(({ body }) => JSON.parse(body) as string)),
      },
    );
    this.parts = controlParts(this.context);
    this.#store = new ControlStore(this.sql);
    this.#recordedUntil = this.#store.leasedUntil();
    this.#leasedUntil = Math.min(this.#recordedUntil, Date.now() + MAX_LEASE_MS);
  }

  // ---- configuration ----

  config(): SyncConfig {
    return this.#store.config();
  }

  /** Applies the given changes. A pause is effective on return: no provider call starts afterwards. */
  async setConfig(changes: Partial<SyncConfig>): Promise<SyncConfig> {
    const before = this.config();
    const after = { ...before, ...changes };
    this.commit(() => {
      this.#store.setConfig(after);
      if (after.disabled) this.#store.setResuming(null);
      // Wakes destinations that waited for the end of the pause, or for quota.
      else if (before.disabled || after.queue_capacity > before.queue_capacity) this.#resume();
      if (after.queue_capacity < before.queue_capacity && this.parts.capacity.isScarce(after.queue_capacity))
        this.outbox.enlistLatest("scarce", "", "");
    });
    // Before the answer, so that operations find the room that the new capacity leaves.
    await this.outbox.drain("scarce");
    // Also makes the pause durable before it is confirmed.
    if (after.disabled) await Promise.all([this.#leasesExpired(), this.ctx.storage.sync()]);
    // The alarm wakes destinations missed here.
    else await this.#wakeSome().catch((failure) => warn("wake-failed", { because: textOf(failure) }));
    return after;
  }

  resetConfig(): Promise<SyncConfig> {
    return this.setConfig(DEFAULTS);
  }

  /**
   * Whether provider calls may start: checked before the first call of a batch, and after each lease end.
   * @param forMs lease duration; distant callers ask for more, or the lease has expired on arrival
   */
  mayRun(forMs = LEASE_MS): MayRun {
    const running = !this.config().disabled;
    const permitMs = Math.min(Math.max(forMs, LEASE_MS), MAX_LEASE_MS);
    if (running) this.#permit(Date.now() + permitMs);
    return { running, permitMs };
  }

  // ---- queue capacity ----

  /** Exchanges a destination's quota request for a grant. Idempotent. */
  share(destination: string, request: QuotaRequest): QuotaGrant & MayRun {
    const grant = this.commit(() => this.parts.capacity.grant(destination, request, this.config().queue_capacity));
    return { ...grant, ...this.mayRun() };
  }

  /** Number of queued operations of all destinations. */
  pending(): number {
    return this.parts.capacity.granted();
  }

  // ---- destinations that write to the same place ----

  /**
   * Sets the targets of a destination, none after its deletion. Idempotent.
   * @returns other destinations with a common target
   */
  useTargets(destination: string, targets: readonly string[]): string[] {
    return this.commit(() => this.#store.useTargets(destination, targets));
  }

  /** Destinations with work. */
  override known(after: string): KnownPage {
    return knownPage(this.sql, [{ kind: "sync-destination", from: DESTINATIONS_WITH_QUOTA }], after);
  }

  rekey(term: number): void {
    this.commit(() => this.parts.keys.rotate(term, Date.now()));
  }

  // ---- inside ----

  protected override measured(): Series[] {
    const { disabled, queue_capacity } = this.config();
    return [
      series("sallyport_sync_paused", disabled ? 1 : 0),
      series("sallyport_sync_queue_capacity", queue_capacity),
      series("sallyport_sync_queue_granted", this.parts.capacity.granted()),
    ];
  }

  protected override ownDeadline(): number | null {
    return this.#store.resuming() === null ? null : 0;
  }

  protected override async onAlarm(): Promise<void> {
    await this.#wakeSome();
  }

  #permit(until: number): void {
    this.#leasedUntil = Math.max(this.#leasedUntil, until);
    if (until <= this.#recordedUntil) return;
    this.#recordedUntil = until + RECORD_INTERVAL_MS;
    this.commit(() => this.#store.setLeasedUntil(this.#recordedUntil));
  }

  async #leasesExpired(): Promise<void> {
    const left = this.#leasedUntil - Date.now();
    if (left + LEASE_MARGIN_MS > 0) await scheduler.wait(left + LEASE_MARGIN_MS);
  }

  #resume(): void {
    this.#resumes++;
    this.#store.setResuming("");
  }

  /** Wakes one page of destinations with work; the alarm wakes the next page, so none waits for another to finish. */
  async #wakeSome(): Promise<void> {
    const after = this.#store.resuming();
    if (after === null) return;
    const resumes = this.#resumes;
    const page = this.parts.capacity.destinations(after, WOKEN_PER_PAGE);
    if (page.length > 0) await this.env.SYNC_WORK.sendBatch(page.map((destination) => ({ body: { destination } })));
    const last = page.at(-1);
    this.commit(() => {
      // Paused and resumed meanwhile: these messages may have been answered during the pause.
      if (this.#resumes !== resumes || this.#store.resuming() !== after) return;
      this.#store.setResuming(last && page.length === WOKEN_PER_PAGE ? last : null);
    });
  }

  /**
   * Has one page of destinations give up unused quota, which some keep for as long as they have nothing to do.
   * @param starts the destinations after which a page begins; the first page includes the others
   */
  async #announceScarcity(starts: string[]): Promise<() => void> {
    const [after = ""] = starts.sort();
    const page = this.parts.capacity.destinations(after, WOKEN_PER_PAGE);
    await mapLimit(page, MAX_CONCURRENT, (destination) => syncDestination(this.env, destination).quotaScarce());
    return () => {
      if (page.length === WOKEN_PER_PAGE) this.outbox.enlist("scarce", "", page.at(-1));
    };
  }
}
