import type { Issued, JobEnd, Turn } from "../contracts/credential-engine.ts";
import type { WorkLease } from "../platform/durable/lease.ts";

/** The claim that a turn leaves its Worker with. */
export const claimOf = (turn: Turn | null): WorkLease | null => (turn && "claim" in turn ? turn.claim : null);

export const ended = (warnings: readonly string[] = [], issued: Issued | null = null): JobEnd => ({
  ...{ ok: true, issued, warnings, goesOnAt: null },
});

/** Not over: the job goes on by itself at a time, ms since 1970. */
export const goesOn = (at: number): JobEnd => ({ ok: true, issued: null, warnings: [], goesOnAt: at });
