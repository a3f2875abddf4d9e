import { waitUntil } from "cloudflare:workers";
import type { CloudFailure } from "../../contracts/cloud-calls.ts";
import type {
  CredentialEngineApi,
  JobEnd,
  JobRef,
  PollResult,
  Report,
  Started,
  Step,
  StepOutcome,
} from "../../contracts/credential-engine.ts";
import type { Mount } from "../../contracts/mount.ts";
import { mapLimit } from "../../lib/map-limit.ts";
import { memo } from "../../lib/memo.ts";
import { ok, type Refusal, type Result, refuse } from "../../lib/result.ts";
import type { Remote } from "../../platform/durable/rpc.ts";
import { isFrozen, retryWhileFrozen } from "../../platform/durable/snapshot/frozen.ts";
import { textOf, warn } from "../../platform/observability/log.ts";
import { tracedWork } from "../../platform/observability/otlp/spans.ts";
import { settings } from "../../platform/settings.ts";
import { tenantSender } from "../../providers/outbound-url.ts";
import { type Send, sender } from "../../providers/outcome.ts";
import {
  type FormerCredentialEngineApi,
  firstTaskOf,
  isMethodMissing,
  polledOfFormerEngine,
} from "../../rpc/renamed-methods.ts";
import { credentialEngine } from "../../rpc/stubs.ts";
import { assertionFor } from "../assertion.ts";
import type { ClientContext, EngineType, Perform } from "../engines/engine-type.ts";
import { engineType, FIRST_TYPE } from "../engines/index.ts";
import { groupsOf, LATE_CALL_MS, MIN_CALL_MS } from "./saga.ts";
import type { LeavingReport } from "./saga-runner.ts";

/** Jobs that one Worker performs concurrently for one engine after a wake-up. */
const MAX_CONCURRENT = 6;
/** Calls under way at once for a request. A Worker after a wake-up has several jobs instead. */
const CALLS_OF_A_REQUEST = 4;
const REPEAT_AFTER_MS = 200;
/** A job that waits for a lock without a request is continued after this time, so that Workers do not follow without a gap. */
const LINE_AGAIN_MS = 5_000;
/** Minimum interval between checks for resources that the provider does not list yet. */
const RECHECK_MS = 100;
/** Steps not started within this time are left for the next poll, so that each call has its full timeout. */
const STEPS_MS = 5_000;
/** Consecutive logins before new credentials count as usable: the provider replicates them step by step. */
const LOGINS = 3;
const LOGIN_EVERY_MS = 500;

/** Returns a new stub on each call, because a stub stays broken after a restart of its object. */
type Engine = () => Remote<CredentialEngineApi>;

/**
 * A provider client for an account; its calls share `deadlineMs`. An exception is a failure of the call: a job whose Worker
 * rejects would never count a failed round.
 */
function clientOf(env: Env, type: EngineType, account: object, deadlineMs: number): Perform {
  let hasSent = false;
  const noting =
    (send: Send): Send =>
    (request) => {
      hasSent = true;
      return send(request);
    };
  const sends = { send: noting(sender({ deadlineMs })), sendTo: noting(tenantSender({ deadlineMs })) };
  const client = memo(() => newClient(env, type, account, sends));
  return async (step) => {
    let perform: Perform | null = null;
    try {
      perform = await client();
      return await perform(step);
    } catch (failure) {
      const name = failure instanceof Error ? failure.name : typeof failure;
      warn("call-threw", { type: type.type, call: step.call, because: name });
      return { ok: false, failure: thrown(name, perform === null ? "external" : hasSent ? "unknown" : "client") };
    }
  };
}

async function newClient(
  env: Env,
  type: EngineType,
  account: object,
  sends: Pick<ClientContext, "send" | "sendTo">,
): Promise<Perform> {
  const federation = type.config.federationOf(account);
  const assertion = federation ? await assertionFor(env, federation, type.description.upstream) : undefined;
  return type.client(account, { settings: settings(env), ...sends, assertion });
}

/** @param name of the exception, whose message may quote a secret */
const thrown = (name: string, outcome: CloudFailure["outcome"]): CloudFailure => ({
  outcome,
  code: outcome === "client" ? "misconfigured" : "provider_unavailable",
  message: `The call ended with an exception of the service (${name}).`,
  status: null,
  providerCode: "",
});

/**
 * Performs the job of a request to completion. Null after the budget: then a Worker continues it after a wake-up,
 * except unfinished credentials, which are removed.
 * @param caller aborts on hang-up of the caller; unfinished credentials are then removed at once
 */
export async function performJob(
  env: Env,
  engine: string,
  started: Started,
  budgetMs: number,
  caller: AbortSignal | null = null,
): Promise<JobEnd | null> {
  const object = () => credentialEngine(env, engine);
  return performPolls(env, object, started.wanted, firstTaskOf(started), Date.now() + budgetMs, caller);
}

/**
 * Performs a removal, and waits until `verifyUntil` for resources that the provider does not list yet.
 * @returns as `performJob`; `goesOnAt` is set while resources may remain
 */
export async function performRemoval(
  env: Env,
  engine: string,
  started: Started,
  { end, verifyUntil }: { readonly end: number; readonly verifyUntil: number },
): Promise<JobEnd | null> {
  const { wanted } = started;
  for (let first = firstTaskOf(started); ; first = null) {
    const over = await performJob(env, engine, { wanted, polled: first }, end - Date.now());
    if (!over?.ok || over.goesOnAt === null || over.goesOnAt > verifyUntil) return over;
    await scheduler.wait(Math.max(over.goesOnAt - Date.now(), RECHECK_MS));
  }
}

/**
 * Performs the ready jobs of an engine until none is ready, or the budget for new work is spent. Rejects with the first
 * failure of a poll once all jobs that were begun have ended.
 */
export async function performJobs(env: Env, engine: string, { budgetMs }: { budgetMs: number }): Promise<void> {
  const object = () => credentialEngine(env, engine);
  const end = Date.now() + budgetMs;
  const worker = async (): Promise<void> => {
    while (Date.now() < end) if ((await performPolls(env, object, null, null, end)) === null) return;
  };
  const workers = Array.from({ length: MAX_CONCURRENT }, worker);
  await Promise.allSettled(workers);
  await Promise.all(workers);
}

/** @param first the first poll result, if known @returns the outcome of the job; null without work that is ready now */
async function performPolls(
  env: Env,
  object: Engine,
  wanted: JobRef | null,
  first: PollResult | null,
  end: number,
  caller: AbortSignal | null = null,
): Promise<JobEnd | null> {
  const hasLeft = () => caller?.aborted ?? false;
  const pollWith = (report: Report | null) => poll(object, wanted, report, hasLeft(), !wanted && Date.now() < end);
  for (let polled: PollResult | Refusal = first ?? (await pollWith(null)); ; ) {
    // Sealed: a request receives the refusal; otherwise the next alarm retries.
    if ("ok" in polled) return wanted && polled;
    switch (polled.kind) {
      case "idle":
        return null;
      case "end":
        return polled.end;
      case "wait":
        if (Date.now() + polled.ms >= end) {
          const leftForMs = polled.inLine ? LINE_AGAIN_MS : polled.ms;
          if (polled.lease) await leave(object, wanted, { lease: polled.lease, done: null, leftForMs }, hasLeft());
          return null;
        }
        if (polled.inLine && wanted) await waitForLock(object, wanted.job);
        else await pause(polled.inLine ? REPEAT_AFTER_MS : polled.ms, caller);
        polled = await pollWith(polled.lease && { lease: polled.lease, done: null });
        break;
      case "steps": {
        const { lease, steps, seq, account, deadlineMs } = polled;
        // A caller's last call ends with its wait; the job repeats it afterwards.
        const callMs = wanted ? Math.min(deadlineMs, Math.max(end - Date.now(), MIN_CALL_MS)) : deadlineMs;
        // An engine of version 0.2.0 has one type, and does not say so.
        const type = engineType(polled.type ?? FIRST_TYPE);
        const perform = clientOf(env, type, account, callMs);
        const atOnce = wanted ? CALLS_OF_A_REQUEST : 1;
        const attempt = () => performSteps(perform, steps, { atOnce, concurrent: type.calls.concurrent });
        // The calls of a job that a request waits for are below the request's span.
        const trace = wanted ? null : polled.trace;
        const results = await tracedWork(env, trace, "lease-revocation", attempt, isFailed);
        polled = await pollWith({ lease, done: { seq, results } });
      }
    }
  }
}

const isFailed = (results: readonly StepOutcome[]): boolean => results.some(({ result }) => !result.ok);

/**
 * Makes calls, those of a group at once, until one fails.
 * @returns the results of the calls made: of a group the successes, then one failure. Other failed calls of the group
 *   count as not made, which is safe: each call of a batch may be repeated after an unanswered one
 */
export async function performSteps(
  perform: Perform,
  steps: readonly Step[],
  { atOnce, concurrent }: { readonly atOnce: number; readonly concurrent?: EngineType["calls"]["concurrent"] },
): Promise<StepOutcome[]> {
  const end = Date.now() + STEPS_MS;
  const results: StepOutcome[] = [];
  for (const group of groupsOf(steps, concurrent)) {
    if (results.length > 0 && Date.now() >= end) break;
    const outcomes = await mapLimit(group, atOnce, async (step) => ({ step, result: await perform(step) }));
    const failure = outcomes.find(({ result }) => !result.ok);
    results.push(...outcomes.filter(({ result }) => result.ok), ...(failure ? [failure] : []));
    if (failure) break;
  }
  return results;
}

/**
 * Waits for the job's lock. After a restart the object has no record of the wait, and the next poll asks for the lock.
 */
async function waitForLock(object: Engine, job: string): Promise<void> {
  try {
    await object().waitInLine(job);
  } catch (failure) {
    warn("line-lost", { job, because: textOf(failure) });
    await scheduler.wait(REPEAT_AFTER_MS);
  }
}

/** Waits for `ms`, or until the caller hangs up. */
async function pause(ms: number, caller: AbortSignal | null): Promise<void> {
  if (caller?.aborted) return;
  await scheduler.wait(ms, caller ? { signal: caller } : {}).catch(() => undefined);
}

/**
 * Ends the lease of a job with its wait, for which this Worker has no time left. Without it, another Worker would have the
 * job only once the lease ends by itself, as after a lost call. Never rejects.
 */
async function leave(object: Engine, wanted: JobRef | null, report: LeavingReport, hasLeft: boolean): Promise<void> {
  try {
    await object().poll(wanted, report, hasLeft);
  } catch (failure) {
    warn("lease-not-ended", { job: report.lease.id, because: textOf(failure) });
  }
}

/** Polls the object. A report lost in a restart of the object is sent again; the object applies each report once. */
async function poll(
  object: Engine,
  wanted: JobRef | null,
  report: Report | null,
  hasLeft: boolean,
  goesOn: boolean,
): Promise<PollResult | Refusal> {
  const rest = [hasLeft, goesOn] as const;
  const ask = async () => {
    try {
      return await object().poll(wanted, report, hasLeft, goesOn);
    } catch (failure) {
      if (!isMethodMissing(failure)) throw failure;
      const former = object() as unknown as Remote<FormerCredentialEngineApi>;
      const told = report && { claim: report.lease, done: report.done };
      return polledOfFormerEngine(await former.turn(wanted, told, ...rest));
    }
  };
  try {
    return await ask();
  } catch (failure) {
    if (!report) throw failure;
    // The results describe resources at the provider, so the Worker waits until the snapshot lets the object store
    // them.
    if (isFrozen(failure)) return retryWhileFrozen(ask);
    warn("turn-repeated", { job: report.lease.id, because: textOf(failure) });
    await scheduler.wait(REPEAT_AFTER_MS);
    return ask();
  }
}

/** An account of an engine, and the type that reads it. */
interface TypedAccount {
  readonly type: EngineType;
  readonly account: object;
}

/**
 * Waits until new credentials work.
 * @param data as answered
 * @param until ms since 1970: `replicated`, while the provider only does not know them everywhere; `failing`, otherwise
 * @returns a warning if they do not work yet
 */
export async function probe(
  env: Env,
  { type, account }: TypedAccount,
  data: Readonly<Record<string, unknown>>,
  until: { readonly replicated: number; readonly failing: number },
  caller: AbortSignal | null = null,
): Promise<string[]> {
  const step = type.issue.verify?.(data) ?? null;
  for (let logins = 0; step && logins < LOGINS && !caller?.aborted; ) {
    const callMs = Math.max(until.failing - Date.now(), LATE_CALL_MS);
    const login = await clientOf(env, type, account, callMs)(step);
    if (login.ok) logins++;
    else {
      logins = 0;
      const end = login.failure.outcome === "client" ? until.replicated : until.failing;
      if (Date.now() + LOGIN_EVERY_MS >= end) return [`the credentials cannot be used yet: ${login.failure.message}`];
    }
    if (logins < LOGINS) await pause(LOGIN_EVERY_MS, caller);
  }
  return [];
}

/** Makes one call that changes nothing, outside of jobs; its result is stored nowhere. */
export async function performRead(
  env: Env,
  { type, account }: TypedAccount,
  step: Step,
  budgetMs: number,
): Promise<Result<unknown>> {
  const result = await clientOf(env, type, account, budgetMs)(step);
  if (result.ok) return ok(result.value);
  const { outcome, code, message } = result.failure;
  const reason = outcome === "client" ? "invalid" : code === "deadline_exceeded" ? "timeout" : "faulty";
  return refuse(reason, `${type.calls.describe(step.call, step.args)}: ${message}`);
}

/** The refusal for a request whose job is not finished in time. */
export const unfinished = (what: string): Refusal =>
  refuse("unavailable", `${what} is still under way; it goes on by itself`);

/** Time limit for the revocation of all leases of a mount. */
const EMPTY_MS = 25_000;
const EMPTY_POLL_MS = 200;

/** Revokes all leases of a mount, so that disabling it leaves no resources behind. Refuses while that is incomplete. */
export async function emptyEngine(env: Env, { uuid, path }: Pick<Mount, "uuid" | "path">): Promise<Result<null>> {
  const end = Date.now() + EMPTY_MS;
  const engine = () => credentialEngine(env, uuid);
  const stays = async (because: Refusal): Promise<Refusal> => {
    await engine().reopen();
    return because;
  };
  for (let again = true; ; again = false) {
    const { left, failure } = await engine().close(again);
    if (left === 0) return ok(null);
    if (failure) {
      const force = `revoke it with sys/leases/revoke-force/${path} to disable the mount all the same`;
      return stays(
        refuse("in-use", `failed to revoke ${JSON.stringify(path + failure.id)}: ${failure.failure}; ${force}`),
      );
    }
    if (Date.now() >= end) return stays(unfinished(`the revocation of ${left} leases`));
    const work = performJobs(env, uuid, { budgetMs: end - Date.now() });
    waitUntil(work.catch(() => undefined));
    await Promise.race([work, scheduler.wait(end - Date.now())]);
    await scheduler.wait(EMPTY_POLL_MS);
  }
}
