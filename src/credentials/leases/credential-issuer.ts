import { createHash } from "node:crypto";
import type { IssueRequest, IssueStarted } from "../../contracts/credential-engine.ts";
import { randomText } from "../../lib/random-text.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import type { EngineStores } from "../engine-stores.ts";
import { plainName } from "../engines/description.ts";
import { HAND_OVER_MS } from "../jobs/job.ts";
import type { JobOutcomes } from "../jobs/job-outcome.ts";
import type { Job } from "../jobs/job-store.ts";
import type { EngineAccounts } from "../mount/engine-accounts.ts";
import { REQUEST_MS, type SagaRunner } from "../runner/saga-runner.ts";
import { leaseTtlOf, passwordLife } from "./lease-ttl.ts";

/** The place of the role's name in a path. */
const NAME = ":name";

/** Starts credentials for requests, and abandons unfinished ones. Owns no state; one issue is one job in `jobs`. */
export class CredentialIssuer {
  readonly #stores: EngineStores;
  readonly #runner: SagaRunner;
  readonly #outcomes: JobOutcomes;
  readonly #accounts: EngineAccounts;
  readonly #commit: <T>(change: () => T) => T;

  constructor(
    stores: EngineStores,
    runner: SagaRunner,
    outcomes: JobOutcomes,
    accounts: EngineAccounts,
    commit: <T>(change: () => T) => T,
  ) {
    this.#stores = stores;
    this.#runner = runner;
    this.#outcomes = outcomes;
    this.#accounts = accounts;
    this.#commit = commit;
  }

  /** Starts new credentials, or finds the job or lease of an earlier request with the same key. */
  begin(ask: IssueRequest, now: number): Result<IssueStarted> {
    const { type, config, roles, leases, jobs } = this.#stores;
    const repeat = ask.key === null ? null : digest([ask.key, ask.role, ask.token]);
    const known = repeat === null ? null : (leases.ofRepeat(repeat)?.id ?? jobs.ofRepeat(repeat));
    const role = roles.find(ask.role);
    const metadata = (role && type.roles.metadata?.(role)) ?? null;
    if (known !== null) return ok({ wanted: { job: known, kind: "issue" }, polled: null, metadata });
    const refusal = config.refusesNew(now);
    if (refusal) return refusal;
    const engine = this.#accounts.account();
    if (!engine.ok) return engine;
    if (!role)
      return refuse("invalid", type.roles.missing?.(ask.role) ?? `role '${plainName(ask.role)}' does not exist`);
    const ttls = type.roles.ttls(role, () => config.find());
    const lifeMs = passwordLife(ttls, ask.mount) * 1000;
    const leaseTtls = leaseTtlOf(ttls, ask.mount);
    const { at = "creds", role: name, displayName = "", request = {} } = ask;
    const begun = type.issue.begin(role, {
      account: engine.value,
      lifeMs,
      ttlMs: leaseTtls.ttl * 1000,
      maxTtlMs: leaseTtls.maxTtl * 1000,
      name,
      at,
      displayName,
      request,
    });
    if (!begun.ok) return begun;
    const issue = begun.value;
    const handOverMs = HAND_OVER_MS + (ask.verified ? REQUEST_MS : 0);
    const { token, until } = ask;
    const terms = { role: name, token, until, repeat, handOverMs, ...leaseTtls };
    const plain = plainName(name);
    const path = at.includes(NAME) ? at.replace(NAME, plain) : `${at}/${plain}`;
    const id = `${path}/${randomText(24)}`;
    const lock = type.issue.lock?.(issue) ?? null;
    const job = { id, work: { kind: "issue", issue, terms } as const, lock, deadline: now + REQUEST_MS };
    const started = this.#commit(() => (job.lock ? this.#runner.start(job, now) : this.#runner.startNew(job, now)));
    return ok({ ...started, metadata });
  }

  /** Deletes a job before its first call; nothing has been created for it. */
  cancel(job: string): void {
    this.#commit(() => this.#stores.jobs.delete(job));
  }

  /**
   * Marks the response of a lease as sent, before it is sent. @returns false if the lease has ended: no response with
   * secrets
   */
  handOver(lease: string): boolean {
    const { leases } = this.#stores;
    const row = leases.find(lease);
    if (row?.state !== "live" || row.expires <= Date.now()) return false;
    if (row.hand_over_by !== null) this.#commit(() => leases.handOver(lease));
    return true;
  }

  /** Abandons the unfinished credentials of a token. Runs inside a transaction. */
  abandonForToken(token: string, now: number): void {
    for (const job of this.#stores.jobs.issuesOf(token)) this.#abandon(job, now);
  }

  /** Abandons all unfinished credentials. Runs inside a transaction. */
  abandonAll(now: number): void {
    for (const job of this.#stores.jobs.ofKind("issue")) this.#abandon(job, now);
  }

  /** A call may be in flight, so the removal starts after the longest call. */
  #abandon({ id, work }: Job, now: number): void {
    if (work.kind !== "issue") return;
    const { type, config } = this.#stores;
    const engine = config.isDeleted() ? this.#accounts.account() : null;
    const keptAccount = engine?.ok ? engine.value : null;
    this.#outcomes.abandon(id, type.issue.undo(work.issue, now), "unfinished credentials", keptAccount, now);
  }
}

const digest = (value: unknown): string => createHash("sha256").update(JSON.stringify(value)).digest("base64url");
