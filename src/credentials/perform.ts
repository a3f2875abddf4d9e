import type { Cloud, CloudAccount } from "../contracts/cloud-directory.ts";
import type {
  CredentialEngineApi,
  Done,
  JobEnd,
  Report,
  Started,
  Step,
  Turn,
  Wanted,
} from "../contracts/credential-engine.ts";
import type { Mount } from "../contracts/mount.ts";
import { credentialEngine } from "../contracts/stubs.ts";
import { ok, type Refusal, type Result, refuse } from "../lib/result.ts";
import type { Remote } from "../platform/durable/rpc.ts";
import { isFrozen, retryWhileFrozen } from "../platform/durable/snapshot/frozen.ts";
import { textOf, warn } from "../platform/observability/log.ts";
import { settings } from "../platform/settings.ts";
import { cloudB } from "../providers/cloud-b-azure/client.ts";
import { sender } from "../providers/outcome.ts";
import { assertionFor } from "./assertion.ts";
import { performStep } from "./step.ts";

/** How many jobs one Worker performs at a time for one engine when a bell has called it. */
const AT_ONCE = 4;
const REPEAT_AFTER_MS = 200;
/** Between two looks at what the provider does not show yet, at least. */
const LOOK_AGAIN_MS = 100;
/** A step that would begin later than this in its turn is left for the next, which gives it its full time. */
const TURN_MS = 5_000;
/** Tokens accepted one after the other before new credentials count as usable: the provider learns of them bit by bit. */
const LOGINS = 3;
const LOGIN_EVERY_MS = 500;

/** A fresh stub each time: one whose object was restarted stays broken. */
type Engine = () => Remote<CredentialEngineApi>;

/** The cloud as an account sees it, for calls that take `deadlineMs` together. */
async function cloudAs(env: Env, account: CloudAccount, deadlineMs: number): Promise<Cloud> {
  const assertion = account.federation && (await assertionFor(env, account.federation));
  return cloudB(account, settings(env), sender({ deadlineMs }), assertion);
}

/**
 * Performs the job that a request has begun, step by step, to its end. Null when it has not ended within the budget: then a
 * Worker that the bell calls goes on with it, except with credentials, which are then given up.
 * @param caller aborts when the request's caller hangs up: unfinished credentials are then removed at once
 */
export async function performJob(
  env: Env,
  engine: string,
  { wanted, turn }: Started,
  budgetMs: number,
  caller: AbortSignal | null = null,
): Promise<JobEnd | null> {
  return performTurns(env, () => credentialEngine(env, engine), wanted, turn, Date.now() + budgetMs, caller);
}

/**
 * Performs a removal, and waits for what the provider does not show yet until `lookUntil`.
 * @returns as `performJob`; `goesOnAt` when something may still be there
 */
export async function performRemoval(
  env: Env,
  engine: string,
  { wanted, turn }: Started,
  { end, lookUntil }: { readonly end: number; readonly lookUntil: number },
): Promise<JobEnd | null> {
  for (let first = turn; ; first = null) {
    const over = await performJob(env, engine, { wanted, turn: first }, end - Date.now());
    if (!over?.ok || over.goesOnAt === null || over.goesOnAt > lookUntil) return over;
    await scheduler.wait(Math.max(over.goesOnAt - Date.now(), LOOK_AGAIN_MS));
  }
}

/** Does what an engine wants done, until nothing is ready or the budget for taking up more is spent. */
export async function performJobs(env: Env, engine: string, { budgetMs }: { budgetMs: number }): Promise<void> {
  const object = () => credentialEngine(env, engine);
  const end = Date.now() + budgetMs;
  const worker = async (): Promise<void> => {
    while (Date.now() < end) if ((await performTurns(env, object, null, null, end)) === null) return;
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
}

/** @param first what to begin with, where that is known @returns how the job ended; null when there is nothing (more) to do for now */
async function performTurns(
  env: Env,
  object: Engine,
  wanted: Wanted | null,
  first: Turn | null,
  end: number,
  caller: AbortSignal | null = null,
): Promise<JobEnd | null> {
  const ask = (report: Report | null) => takeTurn(object, wanted, report, caller?.aborted ?? false);
  for (let turn: Turn | Refusal = first ?? (await ask(null)); ; ) {
    // Sealed: a request is told so; without one, the alarm asks again.
    if ("ok" in turn) return wanted && turn;
    switch (turn.kind) {
      case "idle":
        return null;
      case "end":
        return turn.end;
      case "wait":
        if (Date.now() + turn.ms >= end) return null;
        if (turn.inLine && wanted) await inLine(object, wanted.job);
        else await pause(turn.ms, caller);
        turn = await ask(turn.claim && { claim: turn.claim, done: null });
        break;
      case "steps": {
        const { claim, steps, seq, account, deadlineMs } = turn;
        const results = await performSteps(await cloudAs(env, account, deadlineMs), steps);
        turn = await ask({ claim, done: { seq, results } });
      }
    }
  }
}

/** Makes calls until one fails. @returns what became of those that were made */
async function performSteps(cloud: Cloud, steps: readonly Step[]): Promise<Done[]> {
  const end = Date.now() + TURN_MS;
  const results: Done[] = [];
  for (const step of steps) {
    if (results.length > 0 && Date.now() >= end) break;
    const result = await performStep(cloud, step);
    results.push({ step, result });
    if (!result.ok) break;
  }
  return results;
}

/** Waits until the job may have its lock. An object that restarts has forgotten the line, and is asked again. */
async function inLine(object: Engine, job: string): Promise<void> {
  try {
    await object().waitInLine(job);
  } catch (failure) {
    warn("line-lost", { job, because: textOf(failure) });
    await scheduler.wait(REPEAT_AFTER_MS);
  }
}

/** Waits, but not for a caller that has left. */
async function pause(ms: number, caller: AbortSignal | null): Promise<void> {
  if (caller?.aborted) return;
  await scheduler.wait(ms, caller ? { signal: caller } : {}).catch(() => undefined);
}

/** A result that was lost to the object's restart is handed in once more; the object takes each only once. */
async function takeTurn(
  object: Engine,
  wanted: Wanted | null,
  report: Report | null,
  hasLeft: boolean,
): Promise<Turn | Refusal> {
  try {
    return await object().turn(wanted, report, hasLeft);
  } catch (failure) {
    if (!report) throw failure;
    // What was made at the cloud is worth waiting until it can be written down.
    if (isFrozen(failure)) return retryWhileFrozen(() => object().turn(wanted, report, hasLeft));
    warn("turn-repeated", { job: report.claim.id, because: textOf(failure) });
    await scheduler.wait(REPEAT_AFTER_MS);
    return object().turn(wanted, report, hasLeft);
  }
}

/** Waits until new credentials can be used, within the budget. @returns a warning when they cannot yet */
export async function probe(
  env: Env,
  account: CloudAccount,
  { clientId, clientSecret }: { clientId: string; clientSecret: string },
  budgetMs: number,
  caller: AbortSignal | null = null,
): Promise<string[]> {
  const end = Date.now() + budgetMs;
  for (let logins = 0; logins < LOGINS && !caller?.aborted; ) {
    const login = await (await cloudAs(env, account, end - Date.now())).login(clientId, clientSecret);
    if (login.ok) logins++;
    else {
      logins = 0;
      if (Date.now() + LOGIN_EVERY_MS >= end) return [`the credentials cannot be used yet: ${login.failure.message}`];
    }
    if (logins < LOGINS) await pause(LOGIN_EVERY_MS, caller);
  }
  return [];
}

/** What a job that has not ended within its request's time is answered with. */
export const unfinished = (what: string): Refusal =>
  refuse("unavailable", `${what} is still under way; it goes on by itself`);

/** How long a mount that is to be disabled is waited for until its leases are revoked. */
const EMPTY_MS = 60_000;
const EMPTY_LOOK_MS = 200;

/** Has all leases of a mount revoked, so that disabling it leaves nothing behind. A refusal when that is not (yet) possible. */
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
    await performJobs(env, uuid, { budgetMs: end - Date.now() });
    await scheduler.wait(EMPTY_LOOK_MS);
  }
}
