import type { Dialect } from "../compat/dialect.ts";
import type { Refusal, Result } from "../lib/result.ts";
import type { WorkLease } from "../platform/durable/lease.ts";
import type { Lease } from "../wire/auth.ts";
import type { Wire } from "../wire/infer.ts";
import type { CloudResult } from "./cloud-calls.ts";
import type { Home } from "./federation.ts";
import type { WriteRights } from "./kv-store.ts";
import type { MountedConfig } from "./mounted.ts";
import type { LeaseCounts } from "./quotas.ts";
import type { StoredObjectApi } from "./stored-objects.ts";

export interface LeaseRow extends Record<string, SqlStorageValue> {
  /** Relative to the mount: `<path>/<role>/<random>`, such as `creds/app/…`. */
  id: string;
  role: string;
  /** The accessor of the token that it belongs to. */
  token: string;
  holding: string;
  issued: number;
  expires: number;
  key_ends: number;
  renewed: number | null;
  renewable: number;
  state: string;
  failure: string | null;
  repeat: string | null;
  sealed: ArrayBuffer | null;
  hand_over_by: number | null;
  /** Id of the identity that made it. */
  account: number;
}

/**
 * A job that a request started and waits for. `polled`: the first task for the same Worker; null: another Worker performs
 * it.
 */
export interface Started {
  readonly wanted: JobRef;
  readonly polled: PollResult | null;
  /** A restart of the object drops the job: see `UnstoredJobs`. */
  readonly unstored?: true;
}

/** `metadata`: of the role; a deployment before this one leaves it out. */
export interface IssueStarted extends Started {
  /** Present for a lease that its caller may be given again. */
  readonly shared?: {
    /** Whether its renewals are whole for now. */
    readonly renewable: boolean;
    /** Whether an earlier request has made it, or begun it. */
    readonly known: boolean;
  };
  readonly metadata?: Readonly<Record<string, string>> | null;
}

/** The job that a request waits for. */
export interface JobRef {
  readonly job: string;
  readonly kind: "issue" | "renewal" | "role" | "rotation" | "removal" | "pool";
}

/**
 * The next task of a Worker. `wait`: poll again after `ms`, with the lease if any; `inLine`: poll again once the job's
 * lock may be free.
 */
export type PollResult =
  | {
      readonly kind: "steps";
      readonly lease: WorkLease;
      /** The type of the engine. */
      readonly type: string;
      /** One after the other, until one fails. */
      readonly steps: readonly Step[];
      /** Number of the task within its job: its report counts once. */
      readonly seq: number;
      /** The type's own; only its client reads it. */
      readonly account: object;
      /** For all of them together. */
      readonly deadlineMs: number;
      /** Of the revocation of a lease: see `tracedWork`. */
      readonly trace?: string | null | undefined;
    }
  | { readonly kind: "wait"; readonly ms: number; readonly lease: WorkLease | null; readonly inLine?: true }
  | { readonly kind: "end"; readonly end: JobEnd }
  | { readonly kind: "idle" };

/** One call at the provider as a value: issued by the object, executed by a Worker. */
export interface Step {
  readonly call: string;
  readonly args: readonly unknown[];
}

/** The outcome of a job for its caller. */
export type JobEnd =
  | {
      readonly ok: true;
      readonly issued: Issued | null;
      /** Of a renewal. */
      readonly renewed?: Renewed;
      /** The answer's `data`, of a rotation that has one. */
      readonly data?: Readonly<Record<string, unknown>>;
      readonly warnings: readonly string[];
      /**
       * Time at which the job continues in the background (ms since 1970): the provider may not list the objects to
       * remove yet. Null: completed.
       */
      readonly goesOnAt: number | null;
    }
  /** `gone`: nothing is known of the job, or of what it has made. */
  | (Refusal & { readonly gone?: true });

/** Issued credentials. */
export interface Issued {
  /** Relative to the mount; null for credentials without a lease. */
  readonly leaseId: string | null;
  /** Seconds. */
  readonly ttl: number;
  readonly renewable: boolean;
  /** The answer's `data`. */
  readonly data: Readonly<Record<string, unknown>>;
  /** The credentials were verified before the request: they are of a pool. */
  readonly verified?: true;
  /** The lease needs no `handOver`. */
  readonly leavesAtOnce?: true;
}

/** A request for credentials of a role. */
export interface IssueRequest {
  /** Of the mount. Absent: the first type. */
  readonly type?: string;
  /**
   * The path below the mount, such as `creds` or `keys/:name/token`, which begins the id of the lease: the role's name is
   * `:name`, or follows it. Absent: `creds`.
   */
  readonly at?: string;
  /** The request's own parameters, as the type reads them. */
  readonly request?: Readonly<Record<string, unknown>>;
  /** Of the caller's token. */
  readonly displayName?: string;
  readonly role: string;
  /** The accessor of the caller's token; for a batch token see `holderOf`. */
  readonly token: string;
  /** No record of the token exists, so nothing reports its end: `until` ends its leases. */
  readonly unregistered?: true;
  /** The caller that a shared lease belongs to: its entity, or its token without one. Absent: no lease is shared. */
  readonly sharer?: string;
  /** Idempotency key: a repeat returns the same lease; null: none. */
  readonly key: string | null;
  readonly mount: MountTtls;
  /** The lease ends at this time at the latest, ms since 1970; null or absent: no such limit. */
  readonly until?: number | null | undefined;
  /** The credentials are verified at the provider before the response, within the time of the request. */
  readonly verified: boolean;
  /** Whether a lease-count quota may refuse the lease. Absent: no quota exists. */
  readonly counted?: boolean;
}

/** Lease TTLs of a mount. */
export type MountTtls = Pick<MountedConfig, "default_lease_ttl" | "max_lease_ttl">;

/** The report of a Worker: results of executed steps, or null after a wait. */
export interface Report {
  readonly lease: WorkLease;
  readonly done: { readonly seq: number; readonly results: readonly StepOutcome[] } | null;
}

export interface StepOutcome {
  readonly step: Step;
  readonly result: StepResult;
}

export type StepResult = CloudResult<unknown>;

/** A lease without the mount path. */
export type LeaseView = Omit<Wire<typeof Lease>, "path" | "namespace_path">;

export interface Renewed {
  readonly ttl: number;
  readonly renewable: boolean;
  readonly warnings: readonly string[];
}

/** The methods of `CredentialEngine` that other objects and Workers call. */
export interface CredentialEngineApi extends StoredObjectApi {
  /** @param type of the mount; an object without a record of it keeps it. Absent: the first type */
  config(type?: string, document?: string): Result<Record<string, unknown>>;
  /**
   * @param document path of a further document of the configuration
   * @param rights `denied` without the one that the write needs; absent or null: the caller holds it
   */
  setConfig(
    body: object,
    dialect: Dialect,
    home: Home | null,
    type?: string,
    document?: string | null,
    rights?: WriteRights | null,
  ): Result<null>;
  /** Records a move of the mount. @param seq grows with each move */
  moved(path: string, seq: number): Result<null>;
  deleteConfig(): Result<null>;
  /** The identity of the engine at the cloud. */
  account(): Result<object>;
  rotateRoot(type?: string): Result<Started>;
  /**
   * A page of sorted role names. @param after the last name of the previous page
   * @param prefix the beginning of stored names of one kind of roles, which the names lack
   */
  roleNames(after: string, prefix?: string): string[];
  /** Compares the names in D1 with the roles. @param deadline ms since 1970 @returns whether all were compared by then */
  relistNames(deadline: number): Promise<boolean>;
  role(name: string): Result<Record<string, unknown>>;
  /** @param mount TTLs of the mount, for the secrets of a pool @param rights as in `setConfig` */
  writeRole(
    name: string,
    body: object,
    dialect: Dialect,
    type?: string,
    mount?: MountTtls,
    rights?: WriteRights | null,
  ): Result<Started>;
  /** Replaces the credentials that belong to a role. @param at path of the request below the mount */
  rotateRole(name: string, at: string, dialect: Dialect): Result<Started>;
  /** The credentials that are kept with a role. */
  keptCredentials(name: string): Result<Record<string, unknown>>;
  deleteRole(name: string): Result<Started | null>;
  /** Starts issuing credentials, or returns the job or lease of an earlier identical request. */
  issue(ask: IssueRequest): Promise<Result<IssueStarted>>;
  /**
   * One poll of a Worker: accepts step results and returns the next task.
   * @param wanted the job that a request waits for; null: any ready job
   * @param hasLeft the caller disconnected: its credentials are not completed
   * @param goesOn after the end of a job, the next ready one is leased in the same call
   */
  poll(wanted: JobRef | null, report: Report | null, hasLeft?: boolean, goesOn?: boolean): PollResult | Refusal;
  /** Resolves once the lock of a job may be free, or after a timeout. */
  waitInLine(job: string): Promise<void>;
  /** Records that a response with the credentials is about to be sent. @returns false when it must not be sent */
  handOver(lease: string): boolean;
  /** Takes a shared lease from a caller that was not given it; it ends without another user. */
  releaseShared(lease: string, token: string): void;
  /** A lease, by its id relative to the mount. */
  lookup(id: string): Result<LeaseView>;
  /** A page of the names directly below a lease folder, after one of them. */
  leaseNames(folder: string, behind: string): string[];
  /** Counts leases and irrevocable leases. */
  leaseCount(): { total: number; irrevocable: number };
  /** Counts leases by path, for quotas. */
  countLeases(): LeaseCounts;
  /** A page of the leases that could not be revoked, sorted by id, with the last failure. */
  irrevocableLeases(after: string): { readonly id: string; readonly error: string }[];
  /** The ids of a page of the leases under a prefix, sorted. */
  leasesUnder(prefix: string, after: string): string[];
  /** Renews a lease, or begins its renewal at the provider. */
  renew(id: string, increment: number, mount: MountTtls): Result<Renewed | Started>;
  revoke(id: string, trace?: string | null): Result<Started | null>;
  /**
   * Enqueues the revocation of leases.
   * @param prefix of ids: credentials of pools that would have been leased under it are replaced
   */
  revokeSoon(ids: readonly string[], trace?: string | null, prefix?: string): Result<null>;
  forget(ids: readonly string[]): void;
  /** Ends the leases of ended tokens. Idempotent. */
  tokensEnded(accessors: readonly string[]): void;
  close(again: boolean): { left: number; failure: Pick<LeaseRow, "id" | "failure"> | null };
  reopen(): void;
  destroy(): void;
  rekey(term: number): void;
}
