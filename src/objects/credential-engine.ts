import type {
  CredentialEngineApi,
  IssueRequest,
  IssueStarted,
  JobRef,
  PollResult,
  Report,
} from "../contracts/credential-engine.ts";
import { type EngineParts, engineParts } from "../credentials/engine-parts.ts";
import { engineMeasures } from "../credentials/measures.ts";
import { configMethods, leaseMethods, mountMethods, roleMethods, settleType, started } from "../credentials/rpc.ts";
import { engineMigrations } from "../credentials/schema.ts";
import { earliest } from "../lib/earliest.ts";
import { Lru } from "../lib/lru.ts";
import { ok, type Refusal, type Result } from "../lib/result.ts";
import { dataKeyMigrations } from "../platform/crypto/data-keys.ts";
import { refuseIfSealed } from "../platform/crypto/refuse-if-sealed.ts";
import { composedOf } from "../platform/durable/rpc-methods.ts";
import { restoredBy } from "../platform/durable/snapshot/snapshot-lock.ts";
import { workMigrations } from "../platform/durable/work-queue.ts";
import { countedSeries } from "../platform/observability/metrics/object-counters.ts";
import type { Series } from "../platform/observability/metrics/series.ts";
import { eventDelivery } from "../publishing/service-events.ts";
import {
  type FormerCredentialEngineApi,
  type FormerReport,
  polledForFormerWorker,
  reportOfFormerWorker,
  startedForFormerWorker,
} from "../rpc/renamed-methods.ts";
import { accessControl } from "../rpc/stubs.ts";

const MAX_REGISTERED = 1_000;

const EngineMethods = composedOf<EngineParts>()(configMethods, roleMethods, leaseMethods, mountMethods);

/**
 * Owns one mount of an engine: configuration, roles, leases, and jobs that create or remove cloud resources. Named by the
 * mount's uuid. It never calls the cloud: a Worker leases one step of a job at a time and performs it. Components in
 * `src/credentials` decide; `src/credentials/rpc.ts` has its methods, this class those that call other objects.
 */
export class CredentialEngine extends EngineMethods implements CredentialEngineApi, FormerCredentialEngineApi {
  protected override readonly parts: EngineParts;
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
      {
        event: eventDelivery(() => this.parts.serviceEvents),
        names: (lane, rows) => this.parts.names.deliver(lane, rows),
      },
    );
    this.parts = engineParts(this.context, () => restoredBy(ctx.storage));
  }

  // ---- credentials ----

  /** Starts issuing credentials, or returns the job of an identical earlier request. */
  async issue(ask: IssueRequest): Promise<Result<IssueStarted>> {
    settleType(this.parts, ask.type);
    const admitted = await this.#admitPooled(ask);
    if (!admitted.ok) return admitted;
    const begun = started(() => this.parts.issuer.begin(ask, Date.now(), admitted.value, this.isFrozen));
    if (!begun.ok) return begun;
    const { wanted, polled, shared } = begun.value;
    if (shared?.known) return this.#joined(ask, begun);
    const lease = polled && "lease" in polled ? polled.lease : null;
    const isRegistered = this.#isRegistered(ask);
    if (!lease || (isRegistered && !ask.counted)) return begun;
    if (ask.counted) this.parts.pending.add(wanted.job);
    const held = await this.#holds(ask, wanted.job, isRegistered)
      .catch((failure: unknown) => {
        this.parts.issuer.cancel(wanted.job);
        throw failure;
      })
      .finally(() => this.parts.pending.delete(wanted.job));
    if (!held.ok) {
      this.parts.issuer.cancel(wanted.job);
      return held;
    }
    // The job may have been abandoned meanwhile; then nothing is created.
    if (!this.parts.runner.holds(lease, Date.now())) {
      return ok(startedForFormerWorker({ ...begun.value, polled: null }));
    }
    if (held.value) this.#registered.set(ask.token, true);
    return begun;
  }

  /** Whether the leases of a token need no registration, because it has one, or can have none. */
  #isRegistered({ token, unregistered }: IssueRequest): boolean {
    return unregistered === true || this.#registered.get(token) === true;
  }

  /** Admits a lease that may have credentials of a pool, before it takes them. @returns its id; null: they are to be made */
  async #admitPooled(ask: IssueRequest): Promise<Result<string | null>> {
    const id = this.parts.issuer.offer(ask, Date.now());
    const isRegistered = this.#isRegistered(ask);
    if (id === null || (isRegistered && !ask.counted)) return ok(id);
    const holds = () => this.#holds(ask, id, isRegistered);
    return this.parts.admission.admit(id, ask, holds, () => this.#registered.set(ask.token, true));
  }

  /** Registers the token of a further user of a shared lease. */
  async #joined(ask: IssueRequest, begun: Result<IssueStarted> & { ok: true }): Promise<Result<IssueStarted>> {
    if (this.#isRegistered(ask)) return begun;
    const held = await accessControl(this.env).holdsLeases(ask.token, this.context.name);
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
   * @returns whether later leases of the token need no registration; null when this one needed none
   */
  async #holds(ask: IssueRequest, job: string, isRegistered: boolean): Promise<Result<boolean | null>> {
    const access = accessControl(this.env);
    const held = isRegistered ? ok(null) : await access.holdsLeases(ask.token, this.context.name);
    if (!held.ok || !ask.counted) return held;
    const admitted = await access.admitLease(this.context.name, job, ask.token);
    return admitted.ok ? held : admitted;
  }

  /**
   * One poll of a Worker: accepts the result of a step and leases the next one.
   * @param wanted the job of a waiting request; null: any ready job
   * @param hasLeft whether the caller disconnected, so its credentials are not completed
   * @param goesOn whether the Worker takes the next job after the end of one
   */
  poll(wanted: JobRef | null, report: Report | null, hasLeft = false, goesOn = false): PollResult | Refusal {
    if (!wanted) this.parts.wakeUp.resume();
    const { runner, stores } = this.parts;
    return refuseIfSealed(() => {
      const polled = this.commit(() => runner.poll(wanted, report, Date.now(), hasLeft, goesOn));
      if (report && stores.unstored.find(report.lease)) stores.unstored.settle(report.lease.id);
      return polled;
    });
  }

  /** `poll` for a Worker that knows the former names. */
  turn(wanted: JobRef | null, report: FormerReport | null, hasLeft = false, goesOn = false): PollResult | Refusal {
    return polledForFormerWorker(this.poll(wanted, reportOfFormerWorker(report), hasLeft, goesOn));
  }

  /** Revokes the leases of ended tokens. Idempotent. */
  tokensEnded(accessors: readonly string[]): void {
    const now = Date.now();
    for (const accessor of accessors) this.#registered.delete(accessor);
    this.parts.admission.tokensEnded(accessors);
    this.commit(() => {
      for (const accessor of accessors) {
        this.parts.stores.leases.expire(accessor, now);
        this.parts.issuer.userEnded(accessor, now);
        this.parts.issuer.abandonForToken(accessor, now);
      }
    });
  }

  // ---- inside ----

  protected override onRollback(): void {
    this.parts.stores.forgetMemos();
    this.parts.names.forgetRows();
  }

  override swap(restore: string): Result<null> {
    const swapped = super.swap(restore);
    this.parts.names.reset();
    this.parts.stores.unstored.clear();
    return swapped;
  }

  protected override measured(): Series[] {
    const { pool, stores } = this.parts;
    return [...countedSeries(this.sql), ...pool.measured(), ...stores.config.measured(Date.now())];
  }

  protected override ownDeadline(): number | null {
    const { leases, pool, work } = this.parts.stores;
    return earliest(
      pool.nextDue(),
      leases.nextExpiry(),
      leases.nextHandOver(),
      this.parts.wakeUp.due(work.nextReady()),
      this.parts.root.rotationDue(),
      this.parts.roleChanges.keptDue(),
    );
  }

  protected override async onAlarm(now: number): Promise<void> {
    this.commit(() => {
      this.parts.leaseLifecycle.revokeExpired(now);
      this.parts.pool.tick(now);
      // No request performs it: the wake-up brings a Worker.
      const [rotates, replaces] = [this.parts.root.rotateIfDue(now), this.parts.roleChanges.replaceDue(now)];
      if (rotates || replaces) this.parts.wakeUp.resume();
    });
    const ready = this.parts.wakeUp.due(this.parts.stores.work.nextReady());
    if (ready !== null && ready <= now && this.parts.wakeUp.shouldNotify(now)) await this.parts.wakeUp.notify();
  }
}
