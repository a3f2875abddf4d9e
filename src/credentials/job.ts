import type { CloudAccount } from "../contracts/cloud-directory.ts";
import { type Issue, issuing } from "./issue.ts";
import { type Removal, removing } from "./removal.ts";
import { type RoleWrite, writingRole } from "./role-write.ts";
import { type Rotation, rotating } from "./rotation.ts";
import { lifted, type Program } from "./step.ts";

/** What asked for credentials, and on which terms they are given. */
export interface IssueTerms {
  readonly role: string;
  /** The accessor of the token that the lease will belong to. */
  readonly token: string;
  /** The same for a request that repeats; null: it will not. */
  readonly repeat: string | null;
  /** Seconds. */
  readonly ttl: number;
  readonly maxTtl: number;
  readonly warnings: readonly string[];
  /** How long the answer may take to leave once the lease is stored; missing in rows of before this field: `HAND_OVER_MS`. */
  readonly handOverMs?: number;
}

/** A moment suffices for an answer to leave, but a busy service may stop for a while. */
export const HAND_OVER_MS = 30_000;

/** What can be under way. `account`: whom to act as, where it is not the configured one. */
export type Work =
  | { readonly kind: "issue"; readonly issue: Issue; readonly terms: IssueTerms }
  | { readonly kind: "role"; readonly write: RoleWrite }
  | { readonly kind: "rotation"; readonly rotation: Rotation }
  | {
      readonly kind: "removal";
      readonly removal: Removal;
      /** What it belongs to, in words for the operator. */
      readonly because: string;
      readonly account: CloudAccount | null;
      /** Whether a lease of the job's id ends with it. */
      readonly lease: boolean;
    };
export type WorkOf<K extends Work["kind"]> = Extract<Work, { kind: K }>;

/** The one program behind all kinds of work. */
export const working: Program<Work> = {
  next(work, now) {
    switch (work.kind) {
      case "issue":
        return issuing.next(work.issue, now);
      case "role":
        return writingRole.next(work.write, now);
      case "rotation":
        return rotating.next(work.rotation, now);
      case "removal":
        return removing.next(work.removal, now);
    }
  },

  leaving(work, step) {
    switch (work.kind) {
      case "issue":
        return { ...work, issue: issuing.leaving?.(work.issue, step) ?? work.issue };
      case "role":
        return { ...work, write: writingRole.leaving?.(work.write, step) ?? work.write };
      case "rotation":
        return { ...work, rotation: rotating.leaving?.(work.rotation, step) ?? work.rotation };
      case "removal":
        return work;
    }
  },

  took(work, step, value, now) {
    switch (work.kind) {
      case "issue":
        return { ...work, issue: issuing.took(work.issue, step, value, now) };
      case "role":
        return { ...work, write: writingRole.took(work.write, step, value, now) };
      case "rotation":
        return { ...work, rotation: rotating.took(work.rotation, step, value, now) };
      case "removal":
        return { ...work, removal: removing.took(work.removal, step, value, now) };
    }
  },

  refused(work, step, failure, now, tries) {
    switch (work.kind) {
      case "issue":
        return lifted(issuing.refused(work.issue, step, failure, now, tries), (issue) => ({ ...work, issue }));
      case "role":
        return lifted(writingRole.refused(work.write, step, failure, now, tries), (write) => ({ ...work, write }));
      case "rotation":
        return lifted(rotating.refused(work.rotation, step, failure, now, tries), (rotation) => ({
          ...work,
          rotation,
        }));
      case "removal":
        return lifted(removing.refused(work.removal, step, failure, now, tries), (removal) => ({ ...work, removal }));
    }
  },
};
