import type { CsiClaim, ShowableClaim } from "../../contracts/csi-volumes.ts";
import { type Refusal, refuse } from "../../lib/result.ts";

const nanoseconds = (ms: number): number => ms * 1_000_000;

/** A claim as reads show it, without its sealed parts. */
export const shownClaim = (claim: ShowableClaim) => ({
  AccessMode: claim.accessMode,
  AllocID: claim.allocId,
  AttachmentMode: claim.attachmentMode,
  Attempts: claim.attempts,
  CreateTime: nanoseconds(claim.created),
  ExpansionOwed: claim.owesExpansion,
  ExternalNodeID: claim.externalNodeId,
  LastError: claim.refusal?.message ?? "",
  Mode: claim.mode,
  ModifyTime: nanoseconds(claim.updated),
  NextRetry: claim.refusal && claim.due !== null ? new Date(claim.due).toISOString() : null,
  NodeID: claim.nodeId,
  OperationID: claim.operation ?? "",
  Path: claim.path,
  State: claim.state,
});

export function showable({ mount: _mount, publishContext: _context, ...claim }: CsiClaim): ShowableClaim {
  return claim;
}

const MAX_NAMED = 20;

/** The refusal to remove a volume in use, naming its claims and their errors; null without claims. */
export function inUse(volumeId: string, claims: readonly CsiClaim[]): Refusal | null {
  if (claims.length === 0) return null;
  const named = claims.slice(0, MAX_NAMED).map((claim) => `held by ${holder(claim)}`);
  if (claims.length > MAX_NAMED) named.push(`and ${claims.length - MAX_NAMED} more`);
  return refuse("conflict", `volume in use: ${volumeId}: ${named.join("; ")}`);
}

/** `allocation A on node N (unpublishing, last error: …, next retry 2026-01-02T03:04:05.000Z)`. */
export function holder(claim: CsiClaim): string {
  const { LastError, NextRetry } = shownClaim(claim);
  const state = [claim.state, LastError && `last error: ${LastError}`, NextRetry && `next retry ${NextRetry}`];
  return `allocation ${claim.allocId} on node ${claim.nodeId} (${state.filter(Boolean).join(", ")})`;
}
