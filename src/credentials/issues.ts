import { createHash } from "node:crypto";
import type { IssueAsk, Started } from "../contracts/credential-engine.ts";
import { randomText } from "../lib/random-text.ts";
import { ok, type Result, refuse } from "../lib/result.ts";
import { type Issue, lockOf, undoOfIssue } from "./issue.ts";
import { HAND_OVER_MS } from "./job.ts";
import type { Job } from "./jobs.ts";
import { newKeyAdd } from "./key-add.ts";
import { passwordLife, termsOf } from "./lease-ttl.ts";
import type { EngineParts } from "./parts.ts";
import { newProvision } from "./provision.ts";
import type { Role } from "./role.ts";
import { applicationOf, wantedGrants, wantedMemberships } from "./role-write.ts";
import { REQUEST_MS } from "./saga-runner.ts";

/** Credentials that are being made for requests. */
export class Issues {
  readonly #parts: EngineParts;

  constructor(parts: EngineParts) {
    this.#parts = parts;
  }

  /** Begins to make credentials, or finds those that the same request has begun or got before. */
  begin(ask: IssueAsk, now: number): Result<Started> {
    const { config, roles, leases, jobs, desk, account, commit } = this.#parts;
    const repeat = ask.key === null ? null : digest([ask.key, ask.role, ask.token]);
    const known = repeat === null ? null : (leases.ofRepeat(repeat)?.id ?? jobs.ofRepeat(repeat));
    if (known !== null) return ok({ wanted: { job: known, kind: "issue" }, turn: null });
    const refused = config.refusesNew(now);
    if (refused) return refused;
    const engine = account();
    if (!engine.ok) return engine;
    const role = roles.find(ask.role);
    if (!role) return refuse("invalid", `role '${ask.role}' does not exist`);
    if (role.application_id.toLowerCase() === engine.value.clientId.toLowerCase()) {
      return refuse("invalid", "the role is for the application that the engine itself acts as");
    }
    const handOverMs = HAND_OVER_MS + (ask.verified ? REQUEST_MS : 0);
    const terms = { role: ask.role, token: ask.token, repeat, handOverMs, ...termsOf(role, ask.mount) };
    const issue = issueOf(role, passwordLife(role, ask.mount) * 1000);
    const id = `creds/${ask.role}/${randomText(24)}`;
    const job = { id, work: { kind: "issue", issue, terms } as const, lock: lockOf(issue), deadline: now + REQUEST_MS };
    return ok(commit(() => desk.start(job, now)));
  }

  /** Nothing of it has been made: no call has left. */
  takeBack(job: string): void {
    this.#parts.commit(() => this.#parts.jobs.delete(job));
  }

  /** The answer is about to leave. @returns false when the lease has ended, and the credentials must not be answered */
  handOver(lease: string): boolean {
    const { leases, commit } = this.#parts;
    const row = leases.find(lease);
    if (row?.state !== "live") return false;
    if (row.hand_over_by !== null) commit(() => leases.handOver(lease));
    return true;
  }

  /** Gives up what a token's requests have begun. Inside a transaction. */
  abandonOf(token: string, now: number): void {
    for (const job of this.#parts.jobs.issuesOf(token)) this.#abandon(job, now);
  }

  /** Inside a transaction. */
  abandonAll(now: number): void {
    for (const job of this.#parts.jobs.ofKind("issue")) this.#abandon(job, now);
  }

  /** A call of it may be out, so what it has made is removed when that is over. */
  #abandon({ id, work }: Job, now: number): void {
    if (work.kind !== "issue") return;
    const { config, endings, account } = this.#parts;
    const engine = config.isGone() ? account() : null;
    const whoever = engine?.ok ? engine.value : null;
    endings.giveUp(id, undoOfIssue(work.issue, now), "unfinished credentials", whoever, now);
  }
}

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
