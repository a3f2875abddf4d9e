import { translateMountType } from "../compat/engine-names.ts";
import type { JobEnd, Started } from "../contracts/credential-engine.ts";
import { performJob, performJobs } from "../credentials/runner/job-worker.ts";
import { refusalError } from "../platform/http/errors.ts";
import { credentialEngine } from "../rpc/stubs.ts";
import type { MountCall } from "./server/route.ts";

/** The object of a request's mount, and the jobs that its requests wait for. */

/** Timeout for issuing credentials or creating a role: the job's own deadline plus a margin. */
export const REQUEST_MS = 88_000;
/** Of removals, logins, and work behind an answer. */
export const OTHER_MS = 25_000;

export const mountType = ({ dialect, mount }: MountCall): string => translateMountType(dialect, mount.type);
export const engine = ({ env, mount }: MountCall) => credentialEngine(env, mount.uuid);

/** Completes a request's job; see `settled`. */
export async function ended(
  call: MountCall,
  started: Started,
  budgetMs: number,
): Promise<Extract<JobEnd, { ok: true }> | null> {
  return settled(call, started, await performJob(call.env, call.mount.uuid, started, budgetMs));
}

/** @throws RequestError a refusal; clean-up starts in the background @returns null for a job that has not ended */
export function settled(call: MountCall, started: Started, end: JobEnd | null): Extract<JobEnd, { ok: true }> | null {
  if (end === null || !end.ok || started.wanted.kind === "rotation") cleanUpBehind(call);
  if (end && !end.ok) throw refusalError(end);
  return end?.goesOnAt === null ? end : null;
}

/** Performs remaining work in the background. After a failure the wake-up or the alarm retries it. */
export const cleanUpBehind = (call: MountCall): void =>
  call.exec.waitUntil(performJobs(call.env, call.mount.uuid, { budgetMs: OTHER_MS }).catch(() => undefined));
