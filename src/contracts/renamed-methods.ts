import type { Refusal } from "../lib/result.ts";
import type { WorkLease } from "../platform/durable/lease.ts";
import type { SyncDestinationApi } from "./sync-destination.ts";
import type { PollAnswer, SyncResult, SyncTask } from "./sync-tasks.ts";

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
