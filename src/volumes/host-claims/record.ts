import type { StoredClaim } from "../../contracts/host-volumes.ts";
import * as kind from "../../lib/bexpr/kinds.ts";

/** A claim as list responses show it (docs/internals/wire/volumes.md). */
export const shownClaim = (claim: StoredClaim) => ({
  AllocID: claim.allocId,
  CreateIndex: claim.createIndex ?? 0,
  ID: claim.id,
  JobID: claim.jobId,
  ModifyIndex: claim.modifyIndex ?? claim.createIndex ?? 0,
  Namespace: claim.namespace,
  TaskGroupName: claim.taskGroup,
  VolumeID: claim.volumeId,
  VolumeName: claim.volumeName,
});
export type ShownClaim = ReturnType<typeof shownClaim>;

/** The fields of a claim that a filter expression can name. */
export const claimFields = kind.record<ShownClaim>({
  AllocID: kind.string,
  CreateIndex: kind.integer,
  ID: kind.string,
  JobID: kind.string,
  ModifyIndex: kind.integer,
  Namespace: kind.string,
  TaskGroupName: kind.string,
  VolumeID: kind.string,
  VolumeName: kind.string,
});
