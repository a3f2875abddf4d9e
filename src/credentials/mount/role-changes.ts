import type { Dialect } from "../../compat/dialect.ts";
import type { MountTtls, Started } from "../../contracts/credential-engine.ts";
import type { WriteRights } from "../../contracts/kv-store.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import { recordAction } from "../../platform/observability/audit/actions.ts";
import { warn } from "../../platform/observability/log.ts";
import type { EngineJobs } from "../engine-jobs.ts";
import { ownedBy, plainName, rolePath } from "../engines/description.ts";
import type { EngineStates } from "../engines/engine-type.ts";
import { REQUEST_MS } from "../runner/saga-runner.ts";

/** `rights`: of the caller; null or absent: it holds the one that the write needs. */
interface RoleWrite {
  readonly mount?: MountTtls | undefined;
  readonly rights?: WriteRights | null | undefined;
}

/** Writes and deletes roles. Owns no state; one write is one job in `jobs`, under a lock per role. */
export class RoleChanges {
  constructor(private readonly jobs: EngineJobs) {}

  /**
   * Starts a role write; its references are looked up first.
   * @returns `denied` without the right to create the role, or to update one that exists
   */
  write(name: string, body: object, dialect: Dialect, { mount, rights }: RoleWrite = {}): Result<Started> {
    const { type, config, roles } = this.jobs.stores;
    const now = Date.now();
    const before = roles.find(name);
    if (rights && !(before ? rights.update : rights.create)) return refuse("denied", "permission denied");
    const refusal = config.refusesNew(now);
    if (refusal) return refusal;
    const outOfReach = this.jobs.accounts.refusesRole(name, now);
    if (outOfReach) return outOfReach;
    const context = { dialect, account: this.jobs.accounts.account() };
    return this.#start(name, type.roles.begin(name, before, body, context), now, mount);
  }

  /** Starts the replacement of the credentials that belong to a role. @param at path of the request */
  rotate(name: string, at: string, dialect: Dialect): Result<Started> {
    const { type, config, roles } = this.jobs.stores;
    const now = Date.now();
    const refusal = config.refusesNew(now);
    if (refusal) return refusal;
    const role = roles.find(name);
    if (!role || !type.roles.rotate) return refuse("invalid", type.roles.missing?.(name, at) ?? MISSING(name));
    const outOfReach = this.jobs.accounts.refusesRole(name, now);
    if (outOfReach) return outOfReach;
    const context = { dialect, account: this.jobs.accounts.account() };
    return this.#start(name, type.roles.rotate(name, role, at, context), now);
  }

  /** The credentials that a role keeps. @throws Sealed */
  keptOf(name: string, now: number): Result<Record<string, unknown>> {
    const { type, roles, kept } = this.jobs.stores;
    const [role, found, rules] = [roles.find(name), kept.find(name), type.roles.kept];
    return role && found && rules ? rules.data(role, found, now, this.jobs.accounts.account()) : refuse("missing");
  }

  /** Time of the next replacement of kept credentials, ms since 1970; null without one. */
  keptDue(): number | null {
    return this.jobs.stores.config.isDeleted() ? null : this.jobs.stores.kept.nextDue();
  }

  /**
   * Begins the replacement of kept credentials that are due; a Worker performs it after the wake-up. Runs inside a
   * transaction. @returns whether one began
   */
  replaceDue(now: number): boolean {
    const { kept, config } = this.jobs.stores;
    if (config.isDeleted()) return false;
    return kept.due(now, MAX_AT_ONCE).filter((name) => this.#replace(name, now)).length > 0;
  }

  #replace(name: string, now: number): boolean {
    const { type, config, roles, kept, jobs, scope } = this.jobs.stores;
    const lock = lockOf(name);
    const role = roles.find(name);
    if (config.refusesNew(now) || jobs.holder(lock) !== null) {
      kept.postpone(name, now);
      return false;
    }
    const context = { dialect: "neutral", account: this.jobs.accounts.account() } as const;
    const begun =
      role && type.roles.rotate
        ? (this.jobs.accounts.refusesRole(name, now) ?? type.roles.rotate(name, role, "", context))
        : refuse("missing");
    if (!begun.ok) {
      warn("role-rotation-refused", { engine: scope, role: name, because: begun.message });
      this.jobs.outcomes.keptFailed(name, begun.message, now);
      return false;
    }
    kept.started(name, now);
    this.jobs.accounts.follow();
    const work = { kind: "role", write: begun.value, due: true } as const;
    jobs.put({ id: `${lock} ${crypto.randomUUID()}`, work, lock, deadline: now + REQUEST_MS }, now);
    return true;
  }

  #start(name: string, begun: Result<EngineStates["write"]>, now: number, mount?: MountTtls): Result<Started> {
    const { jobs } = this.jobs.stores;
    if (!begun.ok) return begun;
    const taken = this.jobs.outcomes.taken(begun.value);
    if (taken) return taken;
    const lock = lockOf(name);
    const other = this.#otherWrite(lock);
    if (!other.ok) return other;
    const write = begun.value;
    return ok(
      this.jobs.commit(() => {
        if (other.value !== null) jobs.delete(other.value);
        this.jobs.accounts.follow();
        const job = { id: `${lock} ${crypto.randomUUID()}`, work: { kind: "role", write, mount } as const, lock };
        return this.jobs.runner.start({ ...job, deadline: now + REQUEST_MS }, now);
      }),
    );
  }

  /** Deletes a role. @returns the removal of what it owns, if it owns something */
  delete(name: string): Result<Started | null> {
    const { type, scope, roles, kept, jobs, events } = this.jobs.stores;
    const role = roles.find(name);
    if (!role) return refuse("missing");
    const other = this.#otherWrite(lockOf(name));
    if (!other.ok) return other;
    const now = Date.now();
    return ok(
      this.jobs.commit(() => {
        if (other.value !== null) jobs.delete(other.value);
        const account = roles.account(name);
        roles.delete(name);
        kept.delete(name);
        events.role("RoleDeleted", rolePath(type.description, name));
        recordAction("role-deleted", { engine: scope, role: name });
        const removal = type.roles.undoOfRole(role, now);
        if (!removal) return null;
        const id = `kept ${name} ${crypto.randomUUID()}`;
        this.jobs.outcomes.startRemoval({ id, account, because: ownedBy(type.description, name) }, removal, now);
        return this.jobs.runner.begin({ job: id, kind: "removal" }, now);
      }),
    );
  }

  /** Another write of the role. One that only looks up references may be replaced; any other is a conflict. */
  #otherWrite(lock: string): Result<string | null> {
    const { type, jobs } = this.jobs.stores;
    const id = jobs.holder(lock);
    const job = id === null ? null : jobs.find(id);
    if (job?.work.kind === "removal") return refuse("conflict", "what an earlier write left is being removed");
    if (job?.work.kind !== "role") return ok(null);
    if (type.roles.isReplaceable(job.work.write)) return ok(job.id);
    return refuse("conflict", "the role is being written; try again in a moment");
  }
}

/** Replacements that begin in one wake-up. */
const MAX_AT_ONCE = 50;

const MISSING = (name: string): string => `role '${plainName(name)}' does not exist`;

const lockOf = (name: string): string => `role ${name}`;
