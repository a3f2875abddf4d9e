import type { Dialect } from "../compat/dialect.ts";
import type { JobRef, PollResult, Report, Started } from "../contracts/credential-engine.ts";
import type { SyncDestinationApi } from "../contracts/sync-destination.ts";
import type { PollAnswer, SyncResult, SyncTask } from "../contracts/sync-tasks.ts";
import type { Refusal } from "../lib/result.ts";
import type { WorkLease } from "../platform/durable/lease.ts";

/**
 * RPC methods and fields under their names of version 0.1.0. For some minutes after a deploy, a Worker of that version
 * may call an object of this one. The version after this one removes the file.
 */

/** `SyncDestination.poll` as it was. */
export interface FormerSyncDestinationApi {
  turn(...given: FormerPoll): Promise<FormerPollAnswer | Refusal>;
}

export type FormerPoll = [results: readonly FormerSyncResult[], slots: number, only?: string, holder?: string];

type FormerSyncResult = Omit<SyncResult, "lease"> & { readonly claim: WorkLease };

export interface FormerPollAnswer extends Omit<PollAnswer, "tasks"> {
  readonly tasks: readonly (SyncTask & { readonly claim: WorkLease; readonly wish: SyncTask["desired"] })[];
}

/** Polls with the results of a Worker that knows the former names. */
export async function pollOfFormerWorker(
  destination: Pick<SyncDestinationApi, "poll">,
  [results, ...slots]: FormerPoll,
): Promise<FormerPollAnswer | Refusal> {
  const answer = await destination.poll(
    results.map(({ claim, ...result }) => ({ ...result, lease: claim })),
    ...slots,
  );
  if ("ok" in answer) return answer;
  return { ...answer, tasks: answer.tasks.map((task) => ({ ...task, claim: task.lease, wish: task.desired })) };
}

/** `CredentialEngine.poll` as it was. */
export interface FormerCredentialEngineApi {
  turn(wanted: JobRef | null, report: FormerReport | null, hasLeft?: boolean, goesOn?: boolean): PollResult | Refusal;
}

export type FormerReport = Omit<Report, "lease"> & { readonly claim: WorkLease };

export const reportOfFormerWorker = (report: FormerReport | null): Report | null =>
  report && { lease: report.claim, done: report.done };

/** The answer of a poll with the former fields beside the new ones. Both name the same values, which an RPC sends once. */
export function polledForFormerWorker<Answer extends PollResult | Refusal | null>(polled: Answer): Answer {
  if (polled === null || "ok" in polled) return polled;
  if ("lease" in polled) return { ...polled, claim: polled.lease };
  if (polled.kind !== "end" || !polled.end.ok || !polled.end.issued) return polled;
  const { issued } = polled.end;
  const { client_id: clientId, client_secret: clientSecret } = issued.data;
  return { ...polled, end: { ...polled.end, issued: { ...issued, clientId, clientSecret } } };
}

type FormerPollResult = PollResult & { readonly claim?: WorkLease | null };

/** The answer of an engine that runs the code of version 0.2.0, for minutes after a deploy, in the present names. */
export function polledOfFormerEngine<Answer extends PollResult | Refusal | null | undefined>(answer: Answer): Answer {
  if (!answer || "ok" in answer) return answer;
  const polled: FormerPollResult = answer;
  const lease = polled.claim ?? null;
  if (polled.kind === "steps") return { ...polled, lease: polled.lease ?? lease } as Answer;
  if (polled.kind === "wait") return { ...polled, lease: polled.lease ?? lease } as Answer;
  if (polled.kind !== "end" || !polled.end.ok || !polled.end.issued || polled.end.issued.data) return answer;
  const { clientId, clientSecret, ...issued } = polled.end.issued as unknown as Record<string, unknown>;
  const data = { client_id: clientId, client_secret: clientSecret };
  return { ...polled, end: { ...polled.end, issued: { ...issued, data } } } as unknown as Answer;
}

/** The first task of a job that an engine of version 0.2.0 may have started. */
export const firstTaskOf = ({ polled, turn }: Started & { readonly turn?: PollResult | null }): PollResult | null =>
  polledOfFormerEngine(polled === undefined ? (turn ?? null) : polled);

/** Whether a call failed because its object runs code without the method. */
export const isMethodMissing = (failure: unknown): boolean =>
  failure instanceof TypeError && failure.message.includes("does not implement the method");

/** A started job, whose first task was named `turn`. */
export function startedForFormerWorker<S extends Started>(started: S): S {
  const polled = polledForFormerWorker(started.polled);
  return { ...started, polled, turn: polled };
}

/** Neutral callers were named by `true`: their configuration must have its ids. */
export const dialectOfFormerWorker = (dialect: Dialect | boolean): Dialect =>
  typeof dialect === "string" ? dialect : dialect ? "neutral" : "upstream";
