import type { Refusal } from "../lib/result.ts";
import type { WorkLease } from "../platform/durable/lease.ts";
import type { PollAnswer, SyncResult, SyncTask } from "./sync-tasks.ts";

/**
 * RPC methods and fields under their names of version 0.1.0. For some minutes after a deploy, a Worker of that version
 * may call an object of this one. The version after this one removes the file.
 */

/** `SyncDestination.poll` as it was. */
export interface FormerSyncDestinationApi {
  turn(results: readonly FormerSyncResult[], ...slots: FormerSlots): Promise<FormerPollAnswer | Refusal>;
}

export type FormerSlots = [slots: number, only?: string, holder?: string];

export type FormerSyncResult = Omit<SyncResult, "lease"> & { readonly claim: WorkLease };

interface FormerPollAnswer extends Omit<PollAnswer, "tasks"> {
  readonly tasks: readonly (SyncTask & { readonly claim: WorkLease; readonly wish: SyncTask["desired"] })[];
}

export const resultOfFormerWorker = ({ claim, ...result }: FormerSyncResult): SyncResult => ({
  ...result,
  lease: claim,
});

export const answerForFormerWorker = (answer: PollAnswer): FormerPollAnswer => ({
  ...answer,
  tasks: answer.tasks.map((task) => ({ ...task, claim: task.lease, wish: task.desired })),
});
