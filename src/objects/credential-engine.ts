import { createHash } from "node:crypto";
import { randomText } from "../access/token-store.ts";
import { note } from "../audit/actions.ts";
import type { Dialect } from "../compat/dialect.ts";
import type { CloudAccount } from "../engine/cloud.ts";
import {
  accountOf,
  type CloudSettings,
  type ConfigBody,
  changeConfig,
  changesIdentity,
  configView,
} from "../engine/config.ts";
import { ConfigStore } from "../engine/config-store.ts";
import { CALL_MS, Desk } from "../engine/desk.ts";
import { Endings } from "../engine/endings.ts";
import { endOf, type Issue, lockOf, undoOfIssue } from "../engine/issue.ts";
import type { Work } from "../engine/job.ts";
import { Jobs, type NewJob } from "../engine/jobs.ts";
import { newKeyAdd } from "../engine/key-add.ts";
import { holdingIn, type LeaseRow, Leases, type LeaseView, leaseView, secondsLeft } from "../engine/leases.ts";
import { newProvision } from "../engine/provision.ts";
import { undoOf } from "../engine/removal.ts";
import { draftRole, type Role, type RoleBody, roleView } from "../engine/role.ts";
import { applicationOf, newRoleWrite, wantedGrants, wantedMemberships } from "../engine/role-write.ts";
import { Roles } from "../engine/roles.ts";
import { newRotation, undoOfRotation } from "../engine/rotation.ts";
import { engineMigrations } from "../engine/schema.ts";
import { type MountTtls, passwordLife, renewed, termsOf } from "../engine/terms.ts";
import { claimOf, type Report, type Turn, type Wanted } from "../engine/turn.ts";
import { settings } from "../env.ts";
import type { Home } from "../identity/token.ts";
import { warn } from "../log.ts";
import { countedSeries, countHere } from "../metrics/counted.ts";
import { engineMeasures } from "../metrics/measures.ts";
import type { Series } from "../metrics/series.ts";
import { ok, type Refusal, type Result, refuse } from "../result.ts";
import { DataKeys, dataKeyMigrations } from "../sealing/data-keys.ts";
import { guarded } from "../sealing/guarded.ts";
import { Doorbell } from "../work/doorbell.ts";
import { WorkList, workMigrations } from "../work/work-list.ts";
import { StoredObject } from "./stored-object.ts";
import { accessControl } from "./stubs.ts";

/** A job that a request has begun and waits for. `turn`: what its own Worker is to do first; null: another performs it. */
export interface Started {
  readonly wanted: Wanted;
  readonly turn: Turn | null;
}

/** Who asks for credentials of which role. */
export interface IssueAsk {
  readonly role: string;
  /** The accessor of the caller's token. */
  readonly token: string;
  /** What the caller calls this request, so that repeating it gives the same lease; null: nothing. */
  readonly key: string | null;
  readonly mount: MountTtls;
}

export interface Renewed {
  readonly ttl: number;
  readonly renewable: boolean;
  readonly warnings: readonly string[];
}

/** How long making something for a request may take, all its steps together. */
const REQUEST_MS = 85_000;
const ROTATION_MS = 10 * 60_000;
const EXPIRED_PER_ALARM = 100;
/** While a mount is being disabled it gives out nothing new; should that come to nothing, it does again after this. */
const CLOSING_MS = 2 * 60_000;
const PAGE = 1_000;

/**
 * Owner of one cloud-b mount: configuration, roles, leases, and all that is being made or removed at the cloud. Named by the
 * mount's uuid. It never calls the cloud: it hands out one step of a job at a time, and a Worker takes it.
 */
export class CredentialEngine extends StoredObject {
  readonly #self: string;
  readonly #scope: string;
  readonly #keys: DataKeys;
  readonly #work: WorkList;
  readonly #jobs: Jobs;
  readonly #leases: Leases;
  readonly #roles: Roles;
  readonly #config: ConfigStore;
  readonly #endings: Endings;
  readonly #desk: Desk;
  readonly #bell: Doorbell;

  constructor(ctx: DurableObjectState, env: Env) {
    super(
      ctx,
      env,
      { data_keys: dataKeyMigrations, work: workMigrations, engine: engineMigrations, measures: engineMeasures },
      {},
    );
    const { sql } = this;
    this.#self = ctx.id.name ?? ctx.id.toString();
    this.#scope = `credential-engine ${this.#self}`;
    const scope = this.#scope;
    this.#keys = new DataKeys(sql, scope, () => this.env.MASTER_KEY);
    this.#work = new WorkList(sql);
    this.#jobs = new Jobs(sql, this.#keys, this.#work, scope);
    this.#leases = new Leases(sql);
    this.#roles = new Roles(sql);
    this.#config = new ConfigStore(sql, this.#keys, scope);
    const parts = { jobs: this.#jobs, work: this.#work, leases: this.#leases, roles: this.#roles };
    const count = (kind: Work["kind"], outcome: string) =>
      countHere(sql, "sallyport_engine_jobs_ended_total", kind, outcome);
    this.#endings = new Endings({ ...parts, config: this.#config, keys: this.#keys, scope, count });
    const account = () => accountOf(this.#config.find(), this.#settings());
    this.#desk = new Desk({ jobs: this.#jobs, work: this.#work, endings: this.#endings, account });
    this.#bell = new Doorbell(env.SYNC_WORK, this.#self, "engine");
  }

  // ---- configuration ----

  config(): Result<Record<string, unknown>> {
    return guarded(() => ok(configView(this.#config.find())));
  }

  /** Merges a body into the configuration. A rotation under way is given up when it changes who the engine is. */
  setConfig(body: ConfigBody, idsRequired: boolean, home: Home | null): Result<null> {
    return guarded((): Result<null> => {
      const before = this.#config.find();
      const changed = changeConfig(before, body, this.#settings(), idsRequired, home);
      if (!changed.ok) return changed;
      const now = Date.now();
      this.commit(() => {
        if (before && changesIdentity(before, changed.value)) this.#stopRotation(now);
        this.#config.put(changed.value, now);
      });
      return ok(null);
    });
  }

  /** Forgets the configuration; roles and leases stay. */
  deleteConfig(): Result<null> {
    return guarded(() => {
      this.commit(() => {
        this.#stopRotation(Date.now());
        this.#config.delete();
      });
      return ok(null);
    });
  }

  /** Whom the engine acts as. */
  account(): Result<CloudAccount> {
    return guarded(() => accountOf(this.#config.find(), this.#settings()));
  }

  /** Begins to replace the root secret. */
  rotateRoot(): Result<Started> {
    return guarded(() => {
      const now = Date.now();
      return this.commit(() => {
        const begun = this.#rotate(now);
        return begun.ok ? ok(this.#claimed(begun.value, now)) : begun;
      });
    });
  }

  // ---- roles ----

  /** A page of role names, sorted. @param after the last name of the page before */
  roleNames(after: string): string[] {
    return this.#roles.names(after, PAGE);
  }

  role(name: string): Result<Record<string, unknown>> {
    const role = this.#roles.find(name);
    return role ? ok(roleView(role)) : refuse("missing");
  }

  /** Begins to write a role: what it names is looked up first. */
  writeRole(name: string, body: RoleBody, dialect: Dialect): Result<Started> {
    return guarded((): Result<Started> => {
      const now = Date.now();
      const refused = this.#refusesNew(now);
      if (refused) return refused;
      const account = accountOf(this.#config.find(), this.#settings());
      if (!account.ok) return account;
      const before = this.#roles.find(name);
      const draft = draftRole(before, body, dialect);
      if (!draft.ok) return draft;
      const lock = `role ${name}`;
      const other = this.#otherWrite(lock);
      if (!other.ok) return other;
      const role = draft.value;
      const named = role.persist_app ? "" : (body.application_object_id ?? "");
      const asked = {
        application: named !== "" && role.application_object_id !== "" ? named : null,
        roles: body.cloud_roles ?? null,
        groups: body.cloud_groups ?? null,
      };
      const write = newRoleWrite(name, role, asked, account.value.clientId);
      return ok(
        this.commit(() => {
          if (other.value !== null) this.#jobs.delete(other.value);
          const job = { id: `${lock} ${crypto.randomUUID()}`, work: { kind: "role", write } as const, lock };
          return this.#start({ ...job, deadline: now + REQUEST_MS }, now);
        }),
      );
    });
  }

  /** Deletes a role. @returns the removal of the application that it kept, if any */
  deleteRole(name: string): Result<Started | null> {
    return guarded((): Result<Started | null> => {
      const role = this.#roles.find(name);
      if (!role) return refuse("missing");
      const other = this.#otherWrite(`role ${name}`);
      if (!other.ok) return other;
      const now = Date.now();
      return ok(
        this.commit(() => {
          if (other.value !== null) this.#jobs.delete(other.value);
          this.#roles.delete(name);
          note("role-deleted", { engine: this.#scope, role: name });
          if (!role.managed) return null;
          const removal = { ...undoOf(role.managed, now), permanently: role.permanently_delete };
          const id = `kept ${name} ${crypto.randomUUID()}`;
          this.#endings.remove(id, removal, "application of a role", null, now);
          return this.#claimed({ job: id, kind: "removal" }, now);
        }),
      );
    });
  }

  // ---- credentials ----

  /** Begins to make credentials, or finds those that the same request has begun or got before. */
  async issue(ask: IssueAsk): Promise<Result<Started>> {
    const started = guarded(() => this.#begin(ask, Date.now()));
    const claim = started.ok ? claimOf(started.value.turn) : null;
    if (!started.ok || !claim) return started;
    const { wanted } = started.value;
    const { job } = wanted;
    // Behind the row: a token that ends from now on finds it, one that has ended is refused.
    const held = await accessControl(this.env)
      .holdsLeases(ask.token, this.#self)
      .catch((failure: unknown) => {
        this.commit(() => this.#jobs.delete(job));
        throw failure;
      });
    // It may have been given up meanwhile, and then nothing of it is to be made.
    if (held.ok) return this.#work.holds(claim, Date.now()) ? started : ok({ wanted, turn: null });
    this.commit(() => this.#jobs.delete(job));
    return held;
  }

  /**
   * One turn of a Worker: takes the result of a step, and hands out the next.
   * @param wanted the job that a request waits for; null: any that is ready
   */
  turn(wanted: Wanted | null, report: Report | null): Turn | Refusal {
    if (!wanted) this.#bell.answered();
    return guarded(() => this.commit(() => this.#desk.turn(wanted, report, Date.now())));
  }

  // ---- leases ----

  /** A lease, by its id relative to the mount. */
  lookup(id: string): Result<LeaseView> {
    const lease = this.#leases.find(id);
    return lease ? ok(leaseView(lease, Date.now())) : refuse("invalid", "invalid lease");
  }

  /** A page of the names directly below a folder of leases, from behind one of them on. */
  leaseNames(folder: string, behind: string): string[] {
    return this.#leases.names(folder, behind, PAGE);
  }

  /** How many leases there are, and a page of those that could not be revoked. */
  leaseCount(): { total: number; irrevocable: number } {
    return { total: this.#leases.count(), irrevocable: this.#leases.count("irrevocable") };
  }

  /** Extends a lease. @param increment seconds, 0 = what its role says */
  renew(id: string, increment: number, mount: MountTtls): Result<Renewed> {
    const now = Date.now();
    const lease = this.#leases.find(id);
    if (!lease) return refuse("invalid", "lease not found");
    if (lease.state === "irrevocable") {
      return refuse("invalid", "lease is expired and has failed previous revocation attempts");
    }
    if (lease.state !== "live" || lease.expires <= now) return refuse("invalid", "lease expired");
    const role = this.#roles.find(lease.role);
    const ttl = secondsLeft(lease.expires, now);
    if (!role) return ok({ ttl, renewable: false, warnings: ["the role is deleted; the lease was not extended"] });
    if (lease.renewable !== 1) return refuse("invalid", "lease is not renewable");
    const times = { issued: lease.issued, expires: lease.expires, keyEnds: lease.key_ends };
    const next = renewed(times, role, mount, increment, now);
    if (!next.ok) return next;
    const { expires, renewable, warnings } = next.value;
    this.commit(() => this.#leases.extend(id, expires, renewable, now));
    note("lease-renewed", { engine: this.#scope, lease: id, expires });
    return ok({ ttl: secondsLeft(expires, now), renewable, warnings });
  }

  /** Begins to revoke a lease, or tries again. @returns null when there is none of this id */
  revoke(id: string): Result<Started | null> {
    return guarded(() => {
      const lease = this.#leases.find(id);
      if (!lease) return ok(null);
      const now = Date.now();
      return ok(
        this.commit(() => {
          this.#end(lease, now);
          return this.#claimed({ job: id, kind: "removal" }, now);
        }),
      );
    });
  }

  /** The ids of a page of the leases under a prefix, sorted. */
  leasesUnder(prefix: string, after: string): string[] {
    return this.#leases.under(prefix, after, PAGE).map(({ id }) => id);
  }

  /** Has the leases named revoked as soon as may be, and answers without waiting for it. */
  revokeSoon(ids: readonly string[]): Result<null> {
    return guarded(() => {
      const now = Date.now();
      this.commit(() => {
        for (const id of ids) {
          const lease = this.#leases.find(id);
          if (lease) this.#end(lease, now);
        }
      });
      return ok(null);
    });
  }

  /** Forgets leases, whatever is left of them at the cloud. */
  forget(ids: readonly string[]): void {
    this.commit(() => {
      for (const id of ids) {
        if (!this.#leases.find(id)) continue;
        this.#jobs.delete(id);
        this.#leases.delete(id);
        warn("lease-forgotten", { engine: this.#scope, lease: id });
      }
    });
  }

  /** Tokens have ended, and their leases end with them. Idempotent. */
  tokensEnded(accessors: readonly string[]): void {
    const now = Date.now();
    this.commit(() => {
      for (const accessor of accessors) {
        this.#leases.expire(accessor, now);
        for (const job of this.#jobs.issuesOf(accessor)) this.#abandon(job.id, job.work, now);
      }
    });
  }

  // ---- the mount ----

  /**
   * Gives out nothing new for a while, and has all leases revoked.
   * @param again those, too, that could not be revoked before
   * @returns how many are left, and why if one cannot be
   */
  close(again: boolean): { left: number; failure: Pick<LeaseRow, "id" | "failure"> | null } {
    const now = Date.now();
    this.commit(() => {
      this.#config.closeUntil(now + CLOSING_MS);
      this.#leases.expire(null, now);
      for (const job of this.#jobs.ofKind("issue")) this.#abandon(job.id, job.work, now);
      for (const lease of this.#leases.under("", "", EXPIRED_PER_ALARM, "live")) this.#end(lease, now);
      if (again) for (const lease of this.#leases.failures(PAGE)) this.#end(lease, now);
    });
    return { left: this.#leases.count() + this.#jobs.count("issue"), failure: this.#leases.failures(1)[0] ?? null };
  }

  /** The mount stays after all. */
  reopen(): void {
    this.commit(() => this.#config.closeUntil(0));
  }

  /** The mount is gone: takes away what it still has at the cloud, and forgets everything else. Idempotent. */
  destroy(): void {
    if (this.#config.isGone()) return;
    const now = Date.now();
    const account = accountOf(this.#config.find(), this.#settings());
    this.commit(() => {
      this.#config.leave();
      const whoever = account.ok ? account.value : null;
      for (const job of this.#jobs.ofKind("role")) this.#jobs.delete(job.id);
      this.#stopRotation(now);
      for (const job of this.#jobs.ofKind("issue")) this.#abandon(job.id, job.work, now);
      for (let page = this.#leases.under("", "", PAGE); page.length > 0; page = this.#leases.under("", "", PAGE)) {
        for (const lease of page) {
          this.#jobs.delete(lease.id);
          this.#leases.delete(lease.id);
          this.#endings.remove(
            lease.id,
            endOf(holdingIn(lease), lease.issued),
            "lease of a mount that is gone",
            whoever,
            now,
          );
        }
      }
      for (const { name, role } of this.#roles.takeAll()) {
        if (!role.managed) continue;
        const removal = { ...undoOf(role.managed, now), permanently: role.permanently_delete };
        this.#endings.remove(`kept ${name}`, removal, "application of a role", whoever, now);
      }
      // What was under way already needs somebody to act as, too.
      for (const { id, work } of this.#jobs.ofKind("removal")) {
        if (work.kind === "removal" && !work.account) this.#jobs.put({ id, work: { ...work, account: whoever } }, now);
      }
      this.#config.delete();
    });
  }

  rekey(term: number): void {
    if (!this.#config.isGone()) this.commit(() => this.#keys.rotate(term, Date.now()));
  }

  // ---- inside ----

  protected override rolledBack(): void {
    this.#work.forgetKept();
  }

  protected override measured(): Series[] {
    return countedSeries(this.sql);
  }

  protected override ownDeadline(): number | null {
    const due = [this.#leases.nextExpiry(), this.#bell.due(this.#work.nextReady()), this.#rotationDue()];
    const times = due.filter((at) => at !== null);
    return times.length === 0 ? null : Math.min(...times);
  }

  protected override async onAlarm(now: number): Promise<void> {
    this.commit(() => {
      for (const lease of this.#leases.expired(now, EXPIRED_PER_ALARM)) this.#end(lease, now);
      const rotation = this.#rotationDue();
      if (rotation !== null && rotation <= now) this.#rotateByItself(now);
    });
    const ready = this.#bell.due(this.#work.nextReady());
    if (ready !== null && ready <= now && this.#bell.lift(now)) await this.#bell.ring();
  }

  #begin(ask: IssueAsk, now: number): Result<Started> {
    const repeat = ask.key === null ? null : digest([ask.key, ask.role, ask.token]);
    const known = repeat === null ? null : (this.#leases.ofRepeat(repeat)?.id ?? this.#jobs.ofRepeat(repeat));
    if (known !== null) return ok({ wanted: { job: known, kind: "issue" }, turn: null });
    const refused = this.#refusesNew(now);
    if (refused) return refused;
    const account = accountOf(this.#config.find(), this.#settings());
    if (!account.ok) return account;
    const role = this.#roles.find(ask.role);
    if (!role) return refuse("invalid", `role '${ask.role}' does not exist`);
    if (role.application_id.toLowerCase() === account.value.clientId.toLowerCase()) {
      return refuse("invalid", "the role is for the application that the engine itself acts as");
    }
    const terms = { role: ask.role, token: ask.token, repeat, ...termsOf(role, ask.mount) };
    const issue = issueOf(role, passwordLife(role, ask.mount) * 1000);
    const id = `creds/${ask.role}/${randomText(24)}`;
    const job = { id, work: { kind: "issue", issue, terms } as const, lock: lockOf(issue), deadline: now + REQUEST_MS };
    return ok(this.commit(() => this.#start(job, now)));
  }

  /** Begins a job that the caller's Worker performs; inside a transaction. */
  #start(job: NewJob, now: number): Started {
    this.#jobs.put(job, now);
    return this.#claimed({ job: job.id, kind: job.work.kind }, now);
  }

  /** Claimed before the bell could ring for it, which has to go on ringing for everything else. Inside a transaction. */
  #claimed(wanted: Wanted, now: number): Started {
    const claim = this.#jobs.claim(now, wanted.job);
    return { wanted, turn: claim && this.#desk.turn(wanted, { claim, done: null }, now) };
  }

  /** Inside a transaction. */
  #end(lease: LeaseRow, now: number): void {
    this.#leases.end(lease.id);
    if (this.#jobs.kindOf(lease.id) !== null) {
      this.#jobs.retry(lease.id, now);
      return;
    }
    const removal = endOf(holdingIn(lease), lease.issued);
    const work: Work = { kind: "removal", removal, because: "lease", account: null, lease: true };
    this.#jobs.put({ id: lease.id, work }, now);
    note("lease-ends", { engine: this.#scope, lease: lease.id, token: lease.token });
  }

  /** Gives up what a request has begun. A call of it may be out, so what it has made is removed when that is over. */
  #abandon(id: string, work: Work, now: number): void {
    if (work.kind !== "issue") return;
    const account = this.#config.isGone() ? accountOf(this.#config.find(), this.#settings()) : null;
    const whoever = account?.ok ? account.value : null;
    this.#endings.remove(
      id,
      undoOfIssue(work.issue, now),
      "unfinished credentials",
      whoever,
      now,
      GIVEN_UP,
      now + CALL_MS,
    );
  }

  /** Inside a transaction. */
  #rotate(now: number): Result<Wanted> {
    const refused = this.#refusesNew(now);
    if (refused) return refused;
    const known = this.#settings();
    if (known.CLOUD_B_CLIENT_ID || known.CLOUD_B_CLIENT_SECRET) {
      const because = "a rotated secret would never be used";
      return refuse(
        "invalid",
        `the settings CLOUD_B_CLIENT_ID and CLOUD_B_CLIENT_SECRET override the configuration: ${because}`,
      );
    }
    const config = this.#config.find();
    const account = accountOf(config, known);
    if (!account.ok) return account;
    if (account.value.federation) {
      return refuse("invalid", "there is no client_secret to rotate: the engine logs in with identity tokens");
    }
    if (this.#jobs.count("rotation") > 0) return refuse("invalid", "rotation in progress; try again in a moment");
    const life = (config?.root_password_ttl || DEFAULT_ROOT_TTL) * 1000;
    const work = { kind: "rotation", rotation: newRotation(account.value, config?.key_id ?? null, life) } as const;
    this.#config.rotationBegun(now);
    const id = `rotation ${crypto.randomUUID()}`;
    this.#jobs.put({ id, work, deadline: now + ROTATION_MS }, now);
    return ok({ job: id, kind: "rotation" });
  }

  /** When the next rotation is to begin; one that is under way comes first. */
  #rotationDue(): number | null {
    return this.#jobs.count("rotation") > 0 ? null : this.#config.rotationDue();
  }

  #rotateByItself(now: number): void {
    const started = this.#rotate(now);
    if (!started.ok) {
      warn("rotation-refused", { engine: this.#scope, because: started.message });
      this.#config.rotationFailed(now);
      return;
    }
    // No request performs it: the bell brings a Worker.
    this.#bell.answered();
  }

  /** Inside a transaction. What it has made is removed as whoever it has begun as. */
  #stopRotation(now: number): void {
    for (const { id, work } of this.#jobs.ofKind("rotation")) {
      if (work.kind !== "rotation") continue;
      const undo = undoOfRotation(work.rotation, now);
      if (!undo) this.#jobs.delete(id);
      else this.#endings.remove(id, undo, "rotation given up", work.rotation.account, now, GIVEN_UP, now + CALL_MS);
    }
  }

  /** Another write of the role, which only looks things up and may be replaced; a refusal when it does more. */
  #otherWrite(lock: string): Result<string | null> {
    const id = this.#jobs.holder(lock);
    const job = id === null ? null : this.#jobs.find(id);
    if (job?.work.kind !== "role") return ok(null);
    const { provision, role } = job.work.write;
    if (!provision && !role.persist_app) return ok(job.id);
    return refuse("conflict", "the role is being written; try again in a moment");
  }

  #refusesNew(now: number): Refusal | null {
    if (this.#config.isGone()) return refuse("missing");
    return this.#config.closing(now) ? refuse("unavailable", "the mount is being disabled") : null;
  }

  #settings(): CloudSettings {
    return settings(this.env);
  }
}

const GIVEN_UP = "it was given up before it was complete";
const DEFAULT_ROOT_TTL = 182 * 86_400;

const digest = (value: unknown): string => createHash("sha256").update(JSON.stringify(value)).digest("base64url");

/** What there is to make for a lease of a role. */
function issueOf(role: Role, lifeMs: number): Issue {
  const name = `vault-${crypto.randomUUID()}`;
  if (role.application_object_id !== "") {
    const add = newKeyAdd(role.application_object_id, name, lifeMs, role.managed?.made?.at);
    return { kind: "password", clientId: role.application_id, add };
  }
  const rights = { grants: wantedGrants(role), memberships: wantedMemberships(role) };
  const provision = newProvision(applicationOf(name, role), rights);
  return { kind: "principal", provision, lifeMs, permanently: role.permanently_delete, key: null };
}
