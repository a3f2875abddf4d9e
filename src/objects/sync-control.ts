import { accessControl, syncDestination } from "../contracts/stubs.ts";
import type { MayRun, QuotaGrant, QuotaRequest, SyncConfig, SyncControlApi } from "../contracts/sync-control.ts";
import { type AppCredentials, type AppView, DEFAULTS } from "../contracts/sync-control.ts";
import { type Result, refuse } from "../lib/result.ts";
import { DataKeys, dataKeyMigrations } from "../platform/crypto/data-keys.ts";
import { refuseIfSealed } from "../platform/crypto/refuse-if-sealed.ts";
import { EndedNamespaces } from "../platform/durable/ended-namespaces.ts";
import { knownPage } from "../platform/durable/object-inventory.ts";
import type { KnownPage } from "../platform/durable/object-kinds.ts";
import { StoredObject } from "../platform/durable/stored-object.ts";
import { textOf, warn } from "../platform/observability/log.ts";
import { type Series, series } from "../platform/observability/metrics/series.ts";
import { APP_CONTENT, Apps } from "../sync/apps.ts";
import { controlMigrations } from "../sync/control-schema.ts";

/** How long a permission to call providers holds, unless longer is asked for. A pause has taken effect once all have run out. */
const LEASE_MS = 100;
/** The longest permission. */
const MAX_LEASE_MS = 1_600;
/** That permissions are given is recorded once in this time, not for each. */
const RECORD_INTERVAL_MS = 10_000;
/** What a call may take from its permission to the wire, and clocks that tick at different speeds may add. */
const LEASE_MARGIN_MS = 70;
const WOKEN_PER_PAGE = 100;
const USERS_ASKED = 50;
/** Room is scarce when less than this, or less than half of the queue, is free. */
const SCARCE_QUOTA = 10_000;
/** While room is plenty, who needs more gets so much beyond it, and does not ask again for each operation. */
const EXTRA_QUOTA = 64;

/**
 * What concerns all destinations: the pause, the queue's capacity, and the custom applications. One for the deployment.
 * Destinations state how much of the queue they need, always as a whole: so what was lost is healed by the next statement.
 */
export class SyncControl extends StoredObject implements SyncControlApi {
  readonly #keys: DataKeys;
  readonly #apps: Apps;
  readonly #ended: EndedNamespaces;
  /** When the last permission runs out. */
  #leasedUntil: number;
  /** No permission lasts longer than this, says the stored row; so that an instance knows whether one before it gave any. */
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
        "key-holder": () => this.#deliverKeyHolder(),
        repaired: (destination) => syncDestination(this.env, destination).repaired(),
      },
    );
    this.#keys = new DataKeys(this.sql, "sync-control", () => this.env.MASTER_KEY);
    this.#apps = new Apps(this.sql, this.#keys);
    this.#ended = new EndedNamespaces(
      this.sql,
      [APP_CONTENT],
      refuse("missing", "the namespace was deleted meanwhile"),
    );
    this.#recordedUntil = this.sql.exec<{ until: number }>("SELECT until FROM permissions").toArray()[0]?.until ?? 0;
    this.#leasedUntil = Math.min(this.#recordedUntil, Date.now() + MAX_LEASE_MS);
  }

  // ---- configuration ----

  config(): SyncConfig {
    const [row] = this.sql
      .exec<{ disabled: number; queue_capacity: number }>("SELECT disabled, queue_capacity FROM config")
      .toArray();
    return row ? { disabled: row.disabled === 1, queue_capacity: row.queue_capacity } : DEFAULTS;
  }

  /** Changes what is given. A pause has taken effect when this returns: no call to a provider starts after it. */
  async setConfig(changes: Partial<SyncConfig>): Promise<SyncConfig> {
    const before = this.config();
    const after = { ...before, ...changes };
    this.commit(() => {
      this.sql.exec(
        `INSERT INTO config VALUES (1, ?, ?)
         ON CONFLICT (id) DO UPDATE SET disabled = excluded.disabled, queue_capacity = excluded.queue_capacity`,
        after.disabled ? 1 : 0,
        after.queue_capacity,
      );
      if (after.disabled) this.sql.exec("DELETE FROM resuming");
      // There may be something to do for whoever waits: for the end of the pause, or for room.
      else if (before.disabled || after.queue_capacity > before.queue_capacity) this.#resume();
    });
    // This also makes the pause durable before it is promised.
    if (after.disabled) await Promise.all([this.#leasesExpired(), this.ctx.storage.sync()]);
    // The alarm wakes whom this could not.
    else await this.#wakeSome().catch((failure) => warn("wake-failed", { because: textOf(failure) }));
    return after;
  }

  resetConfig(): Promise<SyncConfig> {
    return this.setConfig(DEFAULTS);
  }

  /**
   * Whether calls to providers may start. Asked before the first call of a batch, and again whenever the answer has run out.
   * @param forMs for how long; whoever is far away asks for longer, or the answer has run out when it arrives
   */
  mayRun(forMs = LEASE_MS): MayRun {
    const running = !this.config().disabled;
    const permitMs = Math.min(Math.max(forMs, LEASE_MS), MAX_LEASE_MS);
    if (running) this.#permit(Date.now() + permitMs);
    return { running, permitMs };
  }

  // ---- capacity ----

  /** A destination states what it needs of the queue. Idempotent. */
  share(destination: string, { kept, waiting, asked }: QuotaRequest): QuotaGrant & MayRun {
    const { queue_capacity } = this.config();
    const mine = this.sql
      .exec<{ granted: number; wanted: number }>(
        "SELECT granted, wanted FROM shares WHERE destination = ?",
        destination,
      )
      .toArray()[0] ?? { granted: 0, wanted: 0 };
    const { granted: pending, short } = this.#total();
    const room = queue_capacity - (pending - mine.granted);
    const others = short - (mine.wanted > mine.granted ? 1 : 0);
    // While others wait for room nobody takes more than an equal part.
    const part = Math.max(1, Math.floor(queue_capacity / (others + 1)));
    // What is queued already stays queued, also when the capacity was lowered since.
    const needed = kept + waiting + asked;
    const scarce = Math.max(SCARCE_QUOTA, queue_capacity / 2);
    // Who asks for more will soon ask again.
    const ahead = needed > kept && room - needed - EXTRA_QUOTA >= scarce ? EXTRA_QUOTA : 0;
    const granted = Math.max(kept, Math.min(needed + ahead, room, part));
    const wanted = kept + waiting;
    this.commit(() => {
      if (granted === 0 && wanted === 0) this.sql.exec("DELETE FROM shares WHERE destination = ?", destination);
      else
        this.sql.exec(
          `INSERT INTO shares VALUES (?, ?, ?)
           ON CONFLICT (destination) DO UPDATE SET granted = excluded.granted, wanted = excluded.wanted`,
          destination,
          granted,
          wanted,
        );
    });
    const left = queue_capacity - this.pending();
    return { granted, scarce: left < scarce, ...this.mayRun() };
  }

  /** How many operations all destinations together have queued. */
  pending(): number {
    return this.#total().granted;
  }

  #total(): { granted: number; short: number } {
    return this.sql.exec<{ granted: number; short: number }>("SELECT granted, short FROM total").one();
  }

  // ---- custom applications of the repository host ----

  /**
   * Creates an application, or replaces its key: then the destinations that use it try again what failed.
   * @param namespaceId the identity of the namespace, which must not have ended
   */
  async putApp(
    namespaceId: string,
    namespace: string,
    name: string,
    appId: number,
    privateKey: string,
  ): Promise<Result<AppView>> {
    const written = refuseIfSealed(() =>
      this.commit(() => {
        const admitted = this.#ended.admit([namespaceId]);
        if (!admitted.ok) return admitted;
        if (!this.#apps.any()) this.outbox.enlistLatest("key-holder", "", null);
        for (const user of this.#apps.users(namespace, name)) {
          this.outbox.enlistLatest("repaired", `${namespace}${user}`, null);
        }
        return this.#apps.put(namespaceId, namespace, name, appId, privateKey);
      }),
    );
    await this.outbox.drain();
    return written;
  }

  app(namespace: string, name: string): Result<AppView> {
    return this.#apps.view(namespace, name);
  }

  appNames(namespace: string): string[] {
    return this.#apps.names(namespace);
  }

  appCredentials(namespace: string, name: string): Result<AppCredentials> {
    return refuseIfSealed(() => this.#apps.credentials(namespace, name));
  }

  /** Refused while a destination uses it. One that is gone already counts as deleted. */
  async deleteApp(namespace: string, name: string): Promise<Result<AppView | null>> {
    // A destination that died between saying so and storing so does not use it.
    for (const user of this.#apps.users(namespace, name).slice(0, USERS_ASKED)) {
      const destination = `${namespace}${user}`;
      if (await syncDestination(this.env, destination).needsApp(name)) continue;
      this.commit(() => this.#apps.release(namespace, destination, name));
    }
    return this.commit(() => this.#apps.delete(namespace, name));
  }

  /** A destination is about to use an application. Refused when there is no such application. Idempotent. */
  claimApp(namespace: string, destination: string, app: string): Result<null> {
    return this.commit(() => this.#apps.claim(namespace, destination, app));
  }

  /** A destination says which application it uses, null for none. Refused when there is no such application. Idempotent. */
  useApp(namespace: string, destination: string, app: string | null): Result<null> {
    return this.commit(() => this.#apps.use(namespace, destination, app));
  }

  // ---- destinations that write to the same place ----

  /**
   * A destination states its targets, none once it has ended. Idempotent.
   * @returns the other destinations that have one of them
   */
  useTargets(destination: string, targets: readonly string[]): string[] {
    const others = new Set<string>();
    this.commit(() => {
      this.sql.exec("DELETE FROM targets WHERE destination = ?", destination);
      for (const target of targets) {
        const shared = this.sql.exec<{ destination: string }>(
          "SELECT destination FROM targets WHERE target = ?",
          target,
        );
        for (const other of shared) others.add(other.destination);
        this.sql.exec("INSERT INTO targets VALUES (?, ?)", target, destination);
      }
    });
    return [...others];
  }

  /** Ends a namespace that has no applications: see `EndedNamespaces`. */
  endNamespace(id: string, path: string): Result<null> {
    return this.commit(() => this.#ended.end(id, path, Date.now()));
  }

  /** Clears what earlier releases left at the path of a namespace that is about to be created. Idempotent. */
  clearNamespace(path: string): void {
    this.commit(() => this.#apps.clear(path));
  }

  /** Destinations that have work. */
  override known(after: string): KnownPage {
    return knownPage(this.sql, [{ kind: "sync-destination", from: "SELECT destination AS name FROM shares" }], after);
  }

  rekey(term: number): void {
    this.commit(() => this.#keys.rotate(term, Date.now()));
  }

  // ---- inside ----

  protected override measured(): Series[] {
    const { disabled, queue_capacity } = this.config();
    const { granted } = this.sql.exec<{ granted: number }>("SELECT granted FROM total").one();
    return [
      series("sallyport_sync_paused", disabled ? 1 : 0),
      series("sallyport_sync_queue_capacity", queue_capacity),
      series("sallyport_sync_queue_granted", granted),
    ];
  }

  protected override ownDeadline(): number | null {
    return this.#resuming() === null ? null : 0;
  }

  protected override async onAlarm(): Promise<void> {
    await this.#wakeSome();
  }

  #permit(until: number): void {
    this.#leasedUntil = Math.max(this.#leasedUntil, until);
    if (until <= this.#recordedUntil) return;
    this.#recordedUntil = until + RECORD_INTERVAL_MS;
    this.commit(() =>
      this.sql.exec(
        "INSERT INTO permissions VALUES (1, ?) ON CONFLICT (id) DO UPDATE SET until = excluded.until",
        this.#recordedUntil,
      ),
    );
  }

  async #leasesExpired(): Promise<void> {
    const left = this.#leasedUntil - Date.now();
    if (left + LEASE_MARGIN_MS > 0) await scheduler.wait(left + LEASE_MARGIN_MS);
  }

  #resuming(): string | null {
    return this.sql.exec<{ after: string }>("SELECT after FROM resuming").toArray()[0]?.after ?? null;
  }

  #resume(): void {
    this.sql.exec("INSERT INTO resuming VALUES (1, '') ON CONFLICT (id) DO UPDATE SET after = ''");
  }

  /** Wakes one page of the destinations that have work; the alarm wakes the next, so none waits for another to finish. */
  async #wakeSome(): Promise<void> {
    const after = this.#resuming();
    if (after === null) return;
    const page = this.sql
      .exec<{ destination: string }>(
        "SELECT destination FROM shares WHERE destination > ? ORDER BY destination LIMIT ?",
        after,
        WOKEN_PER_PAGE,
      )
      .toArray();
    if (page.length > 0) await this.env.SYNC_WORK.sendBatch(page.map((body) => ({ body })));
    const last = page.at(-1);
    this.commit(() => {
      // Paused and resumed again meanwhile: then it has begun anew.
      if (this.#resuming() !== after) return;
      if (last && page.length === WOKEN_PER_PAGE) this.sql.exec("UPDATE resuming SET after = ?", last.destination);
      else this.sql.exec("DELETE FROM resuming");
    });
  }

  async #deliverKeyHolder(): Promise<void> {
    const term = await accessControl(this.env).holdsKeys("sync-control", "main", true);
    this.rekey(term);
  }
}
