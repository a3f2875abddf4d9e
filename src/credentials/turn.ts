import type { CloudAccount } from "../contracts/cloud-directory.ts";
import type { Refusal } from "../lib/result.ts";
import type { Claim } from "../platform/durable/lease.ts";
import type { Step, StepResult } from "./step.ts";

/** Credentials as a caller gets them. */
export interface Issued {
  /** Relative to the mount. */
  readonly leaseId: string;
  /** Seconds. */
  readonly ttl: number;
  readonly renewable: boolean;
  readonly clientId: string;
  readonly clientSecret: string;
}

/** A job that a request has begun and waits for. `turn`: what its own Worker is to do first; null: another performs it. */
export interface Started {
  readonly wanted: Wanted;
  readonly turn: Turn | null;
}

/** How a job ended, for its caller. */
export type JobEnd =
  | {
      readonly ok: true;
      readonly issued: Issued | null;
      readonly warnings: readonly string[];
      /** The job goes on by itself then (ms since 1970): the provider may not show yet what is to be removed. Null: all done. */
      readonly goesOnAt: number | null;
    }
  | Refusal;

/**
 * What a Worker is to do next. `wait`: come back after `ms`, with the claim when there is one; `inLine`: as soon as the lock
 * that the job needs may be free.
 */
export type Turn =
  | {
      readonly kind: "steps";
      readonly claim: Claim;
      /** One after the other, until one fails. */
      readonly steps: readonly Step[];
      /** Which turn of the job it is, so that its report counts once. */
      readonly seq: number;
      readonly account: CloudAccount;
      /** For all of them together. */
      readonly deadlineMs: number;
    }
  | { readonly kind: "wait"; readonly ms: number; readonly claim: Claim | null; readonly inLine?: true }
  | { readonly kind: "end"; readonly end: JobEnd }
  | { readonly kind: "idle" };

/** The claim that a turn leaves its Worker with. */
export const claimOf = (turn: Turn | null): Claim | null => (turn && "claim" in turn ? turn.claim : null);

/** What a Worker hands in: what became of the steps that it came to, or (null) that it has waited. */
export interface Report {
  readonly claim: Claim;
  readonly done: { readonly seq: number; readonly results: readonly Done[] } | null;
}

export interface Done {
  readonly step: Step;
  readonly result: StepResult;
}

/** The one job that a request waits for, and what it expects of it. */
export interface Wanted {
  readonly job: string;
  readonly kind: "issue" | "role" | "rotation" | "removal";
}

export const ended = (warnings: readonly string[] = [], issued: Issued | null = null): JobEnd => ({
  ...{ ok: true, issued, warnings, goesOnAt: null },
});

/** Not over: the job goes on by itself at a time, ms since 1970. */
export const goesOn = (at: number): JobEnd => ({ ok: true, issued: null, warnings: [], goesOnAt: at });
