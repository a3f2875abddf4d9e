import type { Dialect } from "../compat/dialect.ts";
import type {
  CredentialEngineApi,
  IssueRequest,
  IssueStarted,
  JobRef,
  LeaseView,
  MountTtls,
  PollResult,
  Renewed,
  Report,
  Started,
} from "../contracts/credential-engine.ts";
import type { Home } from "../contracts/federation.ts";
import type { LeaseCounts } from "../contracts/quotas.ts";
import { EngineEvents } from "../credentials/engine-events.ts";
import { EngineStores } from "../credentials/engine-stores.ts";
import { JobOutcomes } from "../credentials/jobs/job-outcome.ts";
import { CredentialIssuer } from "../credentials/leases/credential-issuer.ts";
import { LeaseLifecycle } from "../credentials/leases/lease-lifecycle.ts";
import { addLease, leaseView } from "../credentials/leases/lease-store.ts";
import { EngineAccounts } from "../credentials/mount/engine-accounts.ts";
import { MountTeardown } from "../credentials/mount/mount-teardown.ts";
import { RoleChanges } from "../credentials/mount/role-changes.ts";
import { RootAccount } from "../credentials/mount/root-account.ts";
import { PoolAdmission } from "../credentials/pool/pool-admission.ts";
import { WarmPool } from "../credentials/pool/warm-pool.ts";
import { SagaRunner } from "../credentials/runner/saga-runner.ts";
import { engineMigrations } from "../credentials/schema.ts";
import { earliest } from "../lib/earliest.ts";
import { Lru } from "../lib/lru.ts";
import { ok, type Refusal, type Result, refuse } from "../lib/result.ts";
import { NameFeed } from "../listings/name-feed.ts";
import { DataKeys, dataKeyMigrations } from "../platform/crypto/data-keys.ts";
import { refuseIfSealed } from "../platform/crypto/refuse-if-sealed.ts";
import { restoredBy } from "../platform/durable/snapshot/snapshot-lock.ts";
import { StoredObject } from "../platform/durable/stored-object.ts";
import { WakeUp } from "../platform/durable/wake-up.ts";
import { workMigrations } from "../platform/durable/work-queue.ts";
import { engineMeasures } from "../platform/observability/metrics/measures.ts";
import { countedSeries } from "../platform/observability/metrics/object-counters.ts";
import type { Series } from "../platform/observability/metrics/series.ts";
import { eventDelivery, ServiceEvents } from "../publishing/service-events.ts";
import {
  dialectOfFormerWorker,
  type FormerCredentialEngineApi,
  type FormerReport,
  polledForFormerWorker,
  reportOfFormerWorker,
  startedForFormerWorker,
} from "../rpc/renamed-methods.ts";
import { accessControl } from "../rpc/stubs.ts";

const PAGE = 1_000;
const MAX_REGISTERED = 1_000;

/**
 * Owns one mount of an engine: configuration, roles, leases, and jobs that create or remove cloud resources. Named by the
 * mount's uuid. It never calls the cloud: a Worker leases one step of a job at a time and performs it. Components in
 * `src/credentials` decide; this class is their RPC surface.
 */
export class CredentialEngine extends StoredObject implements CredentialEngineApi, FormerCredentialEngineApi {
  readonly #self: string;
  readonly #events: ServiceEvents;
  readonly #keys: DataKeys;
  readonly #stores: EngineStores;
  readonly #accounts: EngineAccounts;
  readonly #runner: SagaRunner;
  readonly #root: RootAccount;
  readonly #roleChanges: RoleChanges;
  readonly #issuer: CredentialIssuer;
  readonly #leaseLifecycle: LeaseLifecycle;
  readonly #pool: WarmPool;
  readonly #mountTeardown: MountTeardown;
  readonly #wakeUp: WakeUp;
  readonly #names: NameFeed;
  /** Leases that wait for the answer of quotas. */
  readonly #pending = new Set<string>();
  readonly #admission = new PoolAdmission();
  /** Tokens whose end is reported to this mount, so that only the first of their leases costs a call. */
  readonly #registered = new Lru<string, true>(MAX_REGISTERED);

  protected override get kind() {
    return "credential-engine" as const;
  }

  constructor(ctx: DurableObjectState, env: Env) {
    super(
      ctx,
      env,
      { data_keys: dataKeyMigrations, work: workMigrations, engine: engineMigrations, measures: engineMeasures },
      { event: eventDelivery(() => this.#events), names: (lane, rows) => this.#names.deliver(lane, rows) },
    );
    const { sql } = this;
    this.#self = ctx.id.name ?? ctx.id.toString();
    this.#events = ServiceEvents.ofMount(env, this.#self, () => this.outbox);
    this.#wakeUp = new WakeUp(env.SYNC_WORK, this.#self, "engine");
    const scope = `credential-engine ${this.#self}`;
    const keys = new DataKeys(sql, scope, () => this.env.MASTER_KEY);
    this.#keys = keys;
    const stores = new EngineStores(sql, keys, scope, new EngineEvents(this.#events), () => restoredBy(ctx.storage));
    this.#names = new NameFeed(this.context, stores.roles);
    stores.roles.watch((role) => this.#names.changed(role));
    const accounts = new EngineAccounts(stores, env);
    const outcomes = new JobOutcomes(stores, sql);
    const runner = new SagaRunner(stores, outcomes, accounts);
    const commit = <T>(change: () => T): T => this.commit(change);
    this.#stores = stores;
    this.#accounts = accounts;
    this.#runner = runner;
    this.#root = new RootAccount(stores, runner, outcomes, accounts, commit);
    this.#roleChanges = new RoleChanges(stores, runner, outcomes, accounts, commit);
    this.#issuer = new CredentialIssuer(stores, runner, outcomes, accounts, commit);
    this.#leaseLifecycle = new LeaseLifecycle(stores, runner, outcomes, commit);
    this.#pool = new WarmPool(stores, outcomes, accounts);
    this.#mountTeardown = new MountTeardown(
      { stores, outcomes, accounts, commit },
      ...([this.#root, this.#issuer, this.#leaseLifecycle, this.#pool] as const),
    );
  }

  // ---- configuration ----

  config(type?: string, document?: string): Result<Record<string, unknown>> {
    this.#settle(type);
    const { config } = this.#stores;
    const { view, documents } = this.#stores.type.config;
    return refuseIfSealed(() => {
      const part = document === undefined ? undefined : documents?.[document];
      const shown = part ? part.view(config.find()) : view(config.find(), config.rotationDue());
      return shown ? ok(shown) : refuse("missing");
    });
  }

  setConfig(
    body: object,
    dialect: Dialect | boolean,
    home: Home | null,
    type?: string,
    document?: string,
  ): Result<null> {
    this.#settle(type);
    const change = () => this.#root.configure(body, dialectOfFormerWorker(dialect), home, document);
    return refuseIfSealed(() => this.commit(() => this.#accounts.change(change)));
  }

  moved(path: string, seq: number): Result<null> {
    return refuseIfSealed(() => {
      this.#root.moved(path, seq);
      return ok(null);
    });
  }

  deleteConfig(): Result<null> {
    const change = () => {
      this.#root.forget();
      return ok(null);
    };
    return refuseIfSealed(() => this.commit(() => this.#accounts.change(change)));
  }

  /** The cloud account of the engine. */
  account(): Result<object> {
    return refuseIfSealed(() => this.#accounts.account());
  }

  rotateRoot(type?: string): Result<Started> {
    this.#settle(type);
    return started(() => this.#root.rotate());
  }

  // ---- roles ----

  /** A page of role names, sorted. @param after last name of the previous page */
  roleNames(after: string, prefix?: string): string[] {
    return this.#stores.roles.names(after, PAGE, prefix);
  }

  relistNames(deadline: number): Promise<boolean> {
    return this.#names.relist(deadline);
  }

  role(name: string): Result<Record<string, unknown>> {
    const { type, roles, pool } = this.#stores;
    const role = roles.find(name);
    if (!role) return refuse("missing");
    const isPooled = (type.pool?.of(role).size ?? 0) > 0;
    return ok({ ...type.roles.view(role), ...(isPooled && { pool_ready: pool.count(name) }) });
  }

  writeRole(name: string, body: object, dialect: Dialect, type?: string, mount?: MountTtls): Result<Started> {
    this.#settle(type);
    return started(() => this.#roleChanges.write(name, body, dialect, mount));
  }

  rotateRole(name: string, at: string, dialect: Dialect): Result<Started> {
    return started(() => this.#roleChanges.rotate(name, at, dialect));
  }

  keptCredentials(name: string): Result<Record<string, unknown>> {
    return refuseIfSealed(() => this.#roleChanges.keptOf(name, Date.now()));
  }

  deleteRole(name: string): Result<Started | null> {
    return started(() =>
      this.commit(() => {
        const deleted = this.#roleChanges.delete(name);
        if (deleted.ok) this.#pool.roleDeleted(name, Date.now());
        return deleted;
      }),
    );
  }

  // ---- credentials ----

  /** Starts issuing credentials, or returns the job of an identical earlier request. */
  async issue(ask: IssueRequest): Promise<Result<IssueStarted>> {
    this.#settle(ask.type);
    const admitted = await this.#admitPooled(ask);
    if (!admitted.ok) return admitted;
    const begun = started(() => this.#issuer.begin(ask, Date.now(), admitted.value));
    if (!begun.ok) return begun;
    const { wanted, polled, shared } = begun.value;
    if (shared?.known) return this.#joined(ask, begun);
    const lease = polled && "lease" in polled ? polled.lease : null;
    const isRegistered = this.#registered.get(ask.token) === true;
    if (!lease || (isRegistered && !ask.counted)) return begun;
    if (ask.counted) this.#pending.add(wanted.job);
    const held = await this.#holds(ask, wanted.job, isRegistered)
      .catch((failure: unknown) => {
        this.#issuer.cancel(wanted.job);
        throw failure;
      })
      .finally(() => this.#pending.delete(wanted.job));
    if (!held.ok) {
      this.#issuer.cancel(wanted.job);
      return held;
    }
    // The job may have been abandoned meanwhile; then nothing is created.
    if (!this.#stores.work.holds(lease, Date.now())) {
      return ok(startedForFormerWorker({ ...begun.value, polled: null }));
    }
    if (held.value) this.#registered.set(ask.token, true);
    return begun;
  }

  /** Admits a lease that may have credentials of a pool, before it takes them. @returns its id; null: they are to be made */
  async #admitPooled(ask: IssueRequest): Promise<Result<string | null>> {
    const id = this.#issuer.offer(ask, Date.now());
    const isRegistered = this.#registered.get(ask.token) === true;
    if (id === null || (isRegistered && !ask.counted)) return ok(id);
    const holds = () => this.#holds(ask, id, isRegistered);
    return this.#admission.admit(id, ask, holds, () => this.#registered.set(ask.token, true));
  }

  /** Registers the token of a further user of a shared lease. */
  async #joined(ask: IssueRequest, begun: Result<IssueStarted> & { ok: true }): Promise<Result<IssueStarted>> {
    if (this.#registered.get(ask.token)) return begun;
    const held = await accessControl(this.env).holdsLeases(ask.token, this.#self);
    if (!held.ok) {
      this.releaseShared(begun.value.wanted.job, ask.token);
      return held;
    }
    if (held.value) this.#registered.set(ask.token, true);
    return begun;
  }

  /**
   * Registers the token of a new lease, and counts the lease, before anything is created for it. Called after the row was
   * written: a token that ends later finds the row, and an ended token is refused.
   * @returns whether later leases of the token need no registration
   */
  async #holds(ask: IssueRequest, job: string, isRegistered: boolean): Promise<Result<boolean | null>> {
    const access = accessControl(this.env);
    const held = isRegistered ? ok(true) : await access.holdsLeases(ask.token, this.#self);
    if (!held.ok || !ask.counted) return held;
    const admitted = await access.admitLease(this.#self, job, ask.token);
    return admitted.ok ? held : admitted;
  }

  /**
   * One poll of a Worker: accepts the result of a step and leases the next one.
   * @param wanted the job of a waiting request; null: any ready job
   * @param hasLeft whether the caller disconnected, so its credentials are not completed
   * @param goesOn whether the Worker takes the next job after the end of one
   */
  poll(wanted: JobRef | null, report: Report | null, hasLeft = false, goesOn = false): PollResult | Refusal {
    if (!wanted) this.#wakeUp.resume();
    return refuseIfSealed(() => this.commit(() => this.#runner.poll(wanted, report, Date.now(), hasLeft, goesOn)));
  }

  /** `poll` for a Worker that knows the former names. */
  turn(wanted: JobRef | null, report: FormerReport | null, hasLeft = false, goesOn = false): PollResult | Refusal {
    return polledForFormerWorker(this.poll(wanted, reportOfFormerWorker(report), hasLeft, goesOn));
  }

  /** Resolves when a job may have the lock it waits for, or after a timeout. */
  waitInLine(job: string): Promise<void> {
    return this.#stores.jobs.waitInLine(job, Date.now());
  }

  /** Called before credentials are returned. @returns false when they must not be returned */
  handOver(lease: string): boolean {
    return this.#issuer.handOver(lease);
  }

  /** Takes a shared lease from a caller that was not given it. */
  releaseShared(lease: string, token: string): void {
    this.commit(() => this.#issuer.removeUser(lease, token, Date.now()));
  }

  // ---- leases ----

  /** A lease by its id relative to the mount. */
  lookup(id: string): Result<LeaseView> {
    const lease = this.#stores.leases.find(id);
    return lease ? ok(leaseView(lease, Date.now())) : refuse("invalid", "invalid lease");
  }

  /** A page of the names directly below a folder of leases, after one of them. */
  leaseNames(folder: string, behind: string): string[] {
    return this.#stores.leases.names(folder, behind, PAGE);
  }

  /** Number of leases, and of those that could not be revoked. */
  leaseCount(): { total: number; irrevocable: number } {
    const { leases } = this.#stores;
    return { total: leases.count(), irrevocable: leases.count("irrevocable") };
  }

  /** Counts leases by path, and requests for one that were admitted. */
  countLeases(): LeaseCounts {
    const { leases, jobs } = this.#stores;
    const counts = new Map(leases.countByPath());
    for (const id of jobs.idsOfKind("issue")) if (!this.#pending.has(id)) addLease(counts, id, 1);
    return { counts: Object.fromEntries(counts), pending: [...this.#pending, ...this.#admission.waiting] };
  }

  /** A page of the leases that could not be revoked. */
  irrevocableLeases(after: string): { id: string; error: string }[] {
    const rows = this.#stores.leases.under("", after, PAGE, "irrevocable");
    return rows.map(({ id, failure }) => ({ id, error: failure ?? "" }));
  }

  /** A page of lease ids under a prefix, sorted. */
  leasesUnder(prefix: string, after: string): string[] {
    return this.#stores.leases.under(prefix, after, PAGE).map(({ id }) => id);
  }

  renew(id: string, increment: number, mount: MountTtls): Result<Renewed | Started> {
    return refuseIfSealed(() => this.#leaseLifecycle.renew(id, increment, mount));
  }

  revoke(id: string, trace?: string | null): Result<Started | null> {
    return started(() => ok(this.#leaseLifecycle.revoke(id, trace)));
  }

  /** Schedules the revocation of leases and returns immediately. */
  revokeSoon(ids: readonly string[], trace?: string | null, prefix?: string): Result<null> {
    return refuseIfSealed(() => {
      this.#leaseLifecycle.revokeSoon(ids, trace);
      if (prefix !== undefined) this.commit(() => this.#pool.revoke(prefix, Date.now()));
      return ok(null);
    });
  }

  forget(ids: readonly string[]): void {
    this.#leaseLifecycle.forget(ids);
  }

  /** Revokes the leases of ended tokens. Idempotent. */
  tokensEnded(accessors: readonly string[]): void {
    const now = Date.now();
    for (const accessor of accessors) this.#registered.delete(accessor);
    this.#admission.tokensEnded(accessors);
    this.commit(() => {
      for (const accessor of accessors) {
        this.#stores.leases.expire(accessor, now);
        this.#issuer.userEnded(accessor, now);
        this.#issuer.abandonForToken(accessor, now);
      }
    });
  }

  // ---- the mount ----

  close(again: boolean): ReturnType<MountTeardown["close"]> {
    return this.#mountTeardown.close(again);
  }

  reopen(): void {
    this.#mountTeardown.reopen();
  }

  destroy(): void {
    this.#mountTeardown.destroy();
  }

  rekey(term: number): void {
    if (!this.#stores.config.isDeleted()) this.commit(() => this.#keys.rotate(term, Date.now()));
  }

  // ---- inside ----

  /** Records the type of the mount with the first call that names it. */
  #settle(type: string | undefined): void {
    if (type !== undefined && this.#stores.isUnsettled(type)) this.commit(() => this.#stores.settle(type));
  }

  protected override onRollback(): void {
    this.#stores.forgetMemos();
    this.#names.forgetRows();
  }

  override swap(restore: string): Result<null> {
    const swapped = super.swap(restore);
    this.#names.reset();
    return swapped;
  }

  protected override measured(): Series[] {
    return [...countedSeries(this.sql), ...this.#pool.measured()];
  }

  protected override ownDeadline(): number | null {
    const { leases, pool, work } = this.#stores;
    return earliest(
      pool.nextDue(),
      leases.nextExpiry(),
      leases.nextHandOver(),
      this.#wakeUp.due(work.nextReady()),
      this.#root.rotationDue(),
      this.#roleChanges.keptDue(),
    );
  }

  protected override async onAlarm(now: number): Promise<void> {
    this.commit(() => {
      this.#leaseLifecycle.revokeExpired(now);
      this.#pool.tick(now);
      // No request performs it: the wake-up brings a Worker.
      const [rotates, replaces] = [this.#root.rotateIfDue(now), this.#roleChanges.replaceDue(now)];
      if (rotates || replaces) this.#wakeUp.resume();
    });
    const ready = this.#wakeUp.due(this.#stores.work.nextReady());
    if (ready !== null && ready <= now && this.#wakeUp.shouldNotify(now)) await this.#wakeUp.notify();
  }
}

/** A job that a request waits for, unless the keys are sealed. */
function started<S extends Started | null>(begin: () => Result<S>): Result<S> {
  return refuseIfSealed(() => {
    const begun = begin();
    return begun.ok && begun.value ? ok(startedForFormerWorker(begun.value)) : begun;
  });
}
