import type { CloudAccount, CloudFailure, NewPassword } from "../contracts/cloud-directory.ts";
import type { JobEnd, Wanted } from "../contracts/credential-engine.ts";
import { type Refusal, refuse } from "../lib/result.ts";
import type { DataKeys } from "../platform/crypto/data-keys.ts";
import type { WorkLease } from "../platform/durable/lease.ts";
import type { WorkQueue } from "../platform/durable/work-queue.ts";
import { recordAction } from "../platform/observability/audit/actions.ts";
import { warn } from "../platform/observability/log.ts";
import type { ConfigStore } from "./config-store.ts";
import { holdingOf, straysOfIssue, undoOfIssue } from "./issue.ts";
import { HAND_OVER_MS, type Work, type WorkOf } from "./job.ts";
import type { Job, Jobs } from "./jobs.ts";
import { type Leases, secondsLeft } from "./leases.ts";
import { passwordRemoval, type Removal, retried, straysOf, undoOf } from "./removal.ts";
import type { Roles } from "./roles.ts";
import { straysOfRotation, undoOfRotation } from "./rotation.ts";
import { CALL_MS } from "./step.ts";
import { ended, goesOn } from "./turn.ts";

interface Parts {
  readonly jobs: Jobs;
  readonly work: WorkQueue;
  readonly leases: Leases;
  readonly roles: Roles;
  readonly config: ConfigStore;
  readonly keys: DataKeys;
  readonly scope: string;
  /** Counts an end. @param outcome `ok`, or the reason why not */
  readonly count: (kind: Work["kind"], outcome: string) => void;
}

/** After so many failed rounds a lease is irrevocable: it is tried once a day, and whenever a person asks. */
const LEASE_ROUNDS = 6;
const DAY_MS = 86_400_000;
const MOST_MS = 3_600_000;
const FAILURE_LENGTH = 600;

/** How jobs end: what becomes of what they have made. Methods are called inside the object's transaction. */
export class Endings {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** Nothing is left to do. @param value what the last step has answered */
  finished(job: Job, claim: WorkLease, value: unknown, now: number): JobEnd {
    return this.#counted(job.work.kind, this.#finished(job, claim, value, now));
  }

  /** It cannot go on: what it has made is taken away again, or kept on record. @returns why, for whoever waits */
  failed(job: Job, work: Work, claim: WorkLease, because: Refusal, failure: CloudFailure | null, now: number): JobEnd {
    return this.#counted(work.kind, this.#failed(job, work, claim, because, failure, now));
  }

  #counted(kind: Work["kind"], end: JobEnd): JobEnd {
    this.#parts.count(kind, end.ok ? "ok" : end.reason);
    return end;
  }

  #finished(job: Job, claim: WorkLease, value: unknown, now: number): JobEnd {
    const { work } = job;
    switch (work.kind) {
      case "issue":
        return this.#issued(job.id, work, (value as NewPassword).secretText, now);
      case "role":
        return this.#written(job.id, work, now);
      case "rotation":
        return this.#rotated(job.id, work, now);
      case "removal":
        return this.#removed(job, work, claim, now);
    }
  }

  #failed(job: Job, work: Work, claim: WorkLease, because: Refusal, failure: CloudFailure | null, now: number): JobEnd {
    if (work.kind === "removal") return this.#stuck(job, work, claim, because, failure, now);
    warn("job-failed", { engine: this.#parts.scope, job: job.id, kind: work.kind, because: because.message });
    const { jobs, roles, config } = this.#parts;
    if (work.kind === "issue") {
      this.remove(job.id, undoOfIssue(work.issue, now), "unfinished credentials", null, now, because.message);
      return because;
    }
    if (work.kind === "rotation") {
      config.rotationFailed(now);
      const undo = undoOfRotation(work.rotation, now);
      if (undo) this.remove(job.id, undo, "unfinished rotation", work.rotation.account, now, because.message);
      else jobs.delete(job.id);
      return because;
    }
    const { name, provision } = work.write;
    const stored = roles.find(name);
    if (!provision) jobs.delete(job.id);
    else if (stored?.managed) {
      roles.put(name, { ...stored, managed: provision });
      jobs.delete(job.id);
    } else this.remove(job.id, undoOf(provision, now), "unfinished role", null, now, because.message);
    return because;
  }

  /** How a job ended that is over, or was replaced, or waits for its next round. */
  past(wanted: Wanted, now: number): JobEnd {
    const { jobs, leases, keys, work } = this.#parts;
    if (wanted.kind === "removal") {
      const job = jobs.find(wanted.job);
      if (!job) return ended();
      // A job that only waits for its next look has failed in nothing.
      if (job.failures > 0 && job.failure !== null) return refuse("invalid", job.failure);
      return goesOn(work.find(wanted.job)?.readyAt ?? now);
    }
    const lease = wanted.kind === "issue" ? leases.find(wanted.job) : null;
    if (lease?.state === "live" && lease.sealed) {
      const text = keys.openText(lease.sealed, this.#leaseContext(lease.id));
      const { clientId, clientSecret } = JSON.parse(text) as { clientId: string; clientSecret: string };
      const ttl = Math.max(1, secondsLeft(lease.expires, now));
      return ended([], { leaseId: lease.id, ttl, renewable: lease.renewable === 1, clientId, clientSecret });
    }
    // The answer with the secret was lost on its way to the Worker, and no other copy exists.
    if (lease?.state === "live") leases.expectHandOver(lease.id, now);
    const failure = jobs.find(wanted.job)?.failure;
    return refuse("unavailable", failure ?? "the request was interrupted; try again");
  }

  /** Begins to take something away; the job of this id, if there is one, becomes that. */
  remove(
    id: string,
    removal: Removal,
    because: string,
    account: CloudAccount | null,
    now: number,
    failure: string | null = null,
    readyAt = now,
  ): void {
    const { jobs } = this.#parts;
    if (removal.items.length === 0 && !removal.search) {
      jobs.delete(id);
      return;
    }
    const work: Work = { kind: "removal", removal, because, account, lease: false };
    jobs.put({ id, work }, now, readyAt);
    if (failure !== null) jobs.setFailure(id, failure);
  }

  /** Gives up a job before its end. A call of it may be out: what it has made is taken away when that is over. */
  giveUp(id: string, removal: Removal, because: string, account: CloudAccount | null, now: number): void {
    this.remove(id, removal, because, account, now, GIVEN_UP, now + CALL_MS);
  }

  #issued(id: string, { issue, terms }: WorkOf<"issue">, clientSecret: string, now: number): JobEnd {
    const { jobs, leases, keys, scope } = this.#parts;
    const { holding, clientId, endsAt } = holdingOf(issue);
    const expires = Math.min(now + terms.ttl * 1000, endsAt);
    const kept = terms.repeat === null ? null : JSON.stringify({ clientId, clientSecret });
    leases.insert({
      id,
      role: terms.role,
      token: terms.token,
      holding,
      issued: now,
      expires,
      keyEnds: endsAt,
      handOverBy: terms.repeat === null ? now + (terms.handOverMs ?? HAND_OVER_MS) : null,
      repeat: terms.repeat,
      sealed: kept === null ? null : keys.seal(kept, this.#leaseContext(id)),
    });
    jobs.delete(id);
    const strays = straysOfIssue(issue, now);
    if (strays) this.remove(`strays ${id}`, strays, "strays", null, now);
    recordAction("lease-issued", { engine: scope, lease: id, token: terms.token, role: terms.role, ttl: terms.ttl });
    const ttl = secondsLeft(expires, now);
    return ended(terms.warnings, { leaseId: id, ttl, renewable: true, clientId, clientSecret });
  }

  #written(id: string, { write }: WorkOf<"role">, now: number): JobEnd {
    const { jobs, roles, scope } = this.#parts;
    jobs.delete(id);
    if (write.problem !== null) return refuse("invalid", write.problem);
    const { name, role, provision } = write;
    const before = roles.find(name)?.managed ?? null;
    roles.put(
      name,
      provision
        ? {
            ...role,
            managed: { ...provision, strays: false },
            application_object_id: provision.made?.objectId ?? "",
            application_id: provision.made?.clientId ?? "",
          }
        : { ...role, managed: null },
    );
    if (provision?.strays) {
      const { application, made } = provision;
      this.remove(`strays ${id}`, straysOf(application.displayName, made?.objectId ?? "", now), "strays", null, now);
    }
    // The role makes a principal for each lease from now on.
    if (before && !provision) this.remove(`kept ${id}`, undoOf(before, now), "application of a role", null, now);
    recordAction("role-written", { engine: scope, role: name });
    return ended();
  }

  #rotated(id: string, { rotation }: WorkOf<"rotation">, now: number): JobEnd {
    const { jobs, config, scope } = this.#parts;
    const { add, secret, problem, replaces } = rotation;
    jobs.delete(id);
    if (problem !== null || !add?.key || secret === null) {
      config.rotationFailed(now);
      return refuse("invalid", problem ?? "no secret was made");
    }
    config.promote(secret, add.key.keyId, add.key.endsAt, now);
    const strays = straysOfRotation(rotation, now);
    if (strays) this.remove(`strays ${id}`, strays, "strays", null, now);
    if (replaces !== null)
      this.remove(id, passwordRemoval(add.application, replaces, 0), "replaced root secret", null, now);
    recordAction("root-rotated", { engine: scope, key: add.key.keyId, replaced: replaces });
    return ended(replaces === null ? [OLD_STAYS] : []);
  }

  #removed(job: Job, work: WorkOf<"removal">, claim: WorkLease, now: number): JobEnd {
    if (work.removal.stuck.length > 0) {
      return this.#stuck(job, work, claim, refuse("invalid", job.failure ?? "it could not be removed"), null, now);
    }
    const { jobs, leases, scope } = this.#parts;
    jobs.delete(job.id);
    if (work.lease) leases.delete(job.id);
    recordAction(work.lease ? "lease-revoked" : "removed", { engine: scope, job: job.id, what: work.because });
    return ended();
  }

  /** A round has not removed everything: another follows, later and later. */
  #stuck(
    job: Job,
    work: WorkOf<"removal">,
    claim: WorkLease,
    because: Refusal,
    failure: CloudFailure | null,
    now: number,
  ): JobEnd {
    const { jobs, leases, work: list, scope } = this.#parts;
    const message = because.message.slice(0, FAILURE_LENGTH);
    const rounds = job.failures + 1;
    jobs.keep(job, { work: { ...work, removal: retried(work.removal) }, tries: 0, failure: message });
    jobs.setFailures(job.id, rounds);
    const over = work.lease && rounds >= LEASE_ROUNDS;
    if (work.lease) leases.failed(job.id, message, over ? "irrevocable" : "ending");
    const doubled = Math.min(Math.round(2 ** rounds * 10_000 * (0.5 + Math.random())), MOST_MS);
    const afterMs = Math.max(over ? DAY_MS : doubled, failure?.retryAfterMs ?? 0);
    list.complete(claim, { kind: "retry", afterMs }, now);
    warn("removal-failed", { engine: scope, job: job.id, what: work.because, rounds, because: message });
    return because;
  }

  #leaseContext(id: string): string {
    return `${this.#parts.scope} lease ${id}`;
  }
}

const GIVEN_UP = "it was given up before it was complete";
const OLD_STAYS =
  "the secret before could not be told from the application's other secrets and was not removed; remove it by hand";
