import type { Dialect } from "../compat/dialect.ts";
import type { Refusal, Result } from "../lib/result.ts";
import type { WorkLease } from "../platform/durable/lease.ts";
import type { Cloud, CloudAccount, CloudResult } from "./cloud-directory.ts";
import type { Home } from "./federation.ts";
import type { StoredObjectApi } from "./stored-objects.ts";
/** The body of `POST config`, read and checked: only the settings that change. Durations in seconds. */
export interface ConfigFields {
  readonly subscription_id?: string | undefined;
  readonly tenant_id?: string | undefined;
  readonly environment?: string | undefined;
  readonly client_id?: string | undefined;
  readonly client_secret?: string | undefined;
  readonly root_password_ttl?: number | undefined;
  readonly identity_token_audience?: string | undefined;
  readonly identity_token_ttl?: number | undefined;
  readonly rotation_schedule?: string | undefined;
  readonly rotation_window?: number | undefined;
  readonly rotation_period?: number | undefined;
  readonly rotation_policy?: string | undefined;
  readonly disable_automated_rotation?: boolean | undefined;
}

/** The body of `POST roles/:name`, read and checked, with neutral names. Durations in seconds. */
export interface RoleFields {
  readonly cloud_roles?:
    | readonly { readonly role_name: string; readonly role_id: string; readonly scope: string }[]
    | undefined;
  readonly cloud_groups?: readonly { readonly group_name: string; readonly object_id: string }[] | undefined;
  readonly application_object_id?: string | undefined;
  readonly persist_app?: boolean | undefined;
  readonly ttl?: number | undefined;
  readonly max_ttl?: number | undefined;
  readonly explicit_max_ttl?: number | undefined;
  readonly permanently_delete?: boolean | undefined;
  readonly sign_in_audience?: string | undefined;
  readonly tags?: readonly string[] | undefined;
  /** The durations as they were written. */
  readonly written?: Readonly<Record<string, string | number | undefined>> | undefined;
}

export interface LeaseRow extends Record<string, SqlStorageValue> {
  /** Relative to the mount: `creds/<role>/<random>`. */
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
}

/** A job that a request has begun and waits for. `turn`: what its own Worker is to do first; null: another performs it. */
export interface Started {
  readonly wanted: Wanted;
  readonly turn: Turn | null;
}

/** The one job that a request waits for, and what it expects of it. */
export interface Wanted {
  readonly job: string;
  readonly kind: "issue" | "role" | "rotation" | "removal";
}

/**
 * What a Worker is to do next. `wait`: come back after `ms`, with the claim when there is one; `inLine`: as soon as the lock
 * that the job needs may be free.
 */
export type Turn =
  | {
      readonly kind: "steps";
      readonly claim: WorkLease;
      /** One after the other, until one fails. */
      readonly steps: readonly Step[];
      /** Which turn of the job it is, so that its report counts once. */
      readonly seq: number;
      readonly account: CloudAccount;
      /** For all of them together. */
      readonly deadlineMs: number;
    }
  | { readonly kind: "wait"; readonly ms: number; readonly claim: WorkLease | null; readonly inLine?: true }
  | { readonly kind: "end"; readonly end: JobEnd }
  | { readonly kind: "idle" };

/** One call of the cloud as a value: what an object hands out, and a Worker makes. */
export type Step = { [K in keyof Cloud]: { readonly call: K; readonly args: Parameters<Cloud[K]> } }[keyof Cloud];

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

/** Who asks for credentials of which role. */
export interface IssueAsk {
  readonly role: string;
  /** The accessor of the caller's token. */
  readonly token: string;
  /** What the caller calls this request, so that repeating it gives the same lease; null: nothing. */
  readonly key: string | null;
  readonly mount: MountTtls;
  /** The credentials are tried out before they are answered, for the rest of the request's time. */
  readonly verified: boolean;
}

/** What a mount says about its leases, in seconds; 0 = the system's. */
export interface MountTtls {
  readonly default_lease_ttl: number;
  readonly max_lease_ttl: number;
}

/** What a Worker hands in: what became of the steps that it came to, or (null) that it has waited. */
export interface Report {
  readonly claim: WorkLease;
  readonly done: { readonly seq: number; readonly results: readonly Done[] } | null;
}

export interface Done {
  readonly step: Step;
  readonly result: StepResult;
}

export type StepResult = CloudResult<unknown>;

/** What a lookup shows, but for the mount's path. */
export interface LeaseView {
  readonly id: string;
  readonly issue_time: string;
  readonly expire_time: string;
  readonly last_renewal: string | null;
  readonly renewable: boolean;
  /** Seconds; zero or less once it is over. */
  readonly ttl: number;
  readonly revoke_error?: string;
}

export interface Renewed {
  readonly ttl: number;
  readonly renewable: boolean;
  readonly warnings: readonly string[];
}

/** The methods of `CredentialEngine` that other objects and Workers call. */
export interface CredentialEngineApi extends StoredObjectApi {
  config(): Result<Record<string, unknown>>;
  setConfig(body: ConfigFields, idsRequired: boolean, home: Home | null): Result<null>;
  deleteConfig(): Result<null>;
  /** Whom the engine acts as. */
  account(): Result<CloudAccount>;
  rotateRoot(): Result<Started>;
  /** A page of role names, sorted. @param after the last name of the page before */
  roleNames(after: string): string[];
  role(name: string): Result<Record<string, unknown>>;
  writeRole(name: string, body: RoleFields, dialect: Dialect): Result<Started>;
  deleteRole(name: string): Result<Started | null>;
  /** Begins to make credentials, or finds those that the same request has begun or got before. */
  issue(ask: IssueAsk): Promise<Result<Started>>;
  /**
   * One turn of a Worker: takes the result of a step, and hands out the next.
   * @param wanted the job that a request waits for; null: any that is ready
   * @param hasLeft the request's caller has hung up, and its credentials are not to be finished
   */
  turn(wanted: Wanted | null, report: Report | null, hasLeft?: boolean): Turn | Refusal;
  /** Resolves once a job may have the lock that it waits for, and after a while in any case. */
  waitInLine(job: string): Promise<void>;
  /** The answer with a lease's credentials is about to leave. @returns false when they must not be answered any more */
  handOver(lease: string): boolean;
  /** A lease, by its id relative to the mount. */
  lookup(id: string): Result<LeaseView>;
  /** A page of the names directly below a folder of leases, from behind one of them on. */
  leaseNames(folder: string, behind: string): string[];
  /** How many leases there are, and how many of them could not be revoked. */
  leaseCount(): {
    total: number;
    irrevocable: number;
  };
  /** The ids of a page of the leases under a prefix, sorted. */
  leasesUnder(prefix: string, after: string): string[];
  renew(id: string, increment: number, mount: MountTtls): Result<Renewed>;
  revoke(id: string): Result<Started | null>;
  /** Has the leases named revoked as soon as may be, and answers without waiting for it. */
  revokeSoon(ids: readonly string[]): Result<null>;
  forget(ids: readonly string[]): void;
  /** Tokens have ended, and their leases end with them. Idempotent. */
  tokensEnded(accessors: readonly string[]): void;
  close(again: boolean): {
    left: number;
    failure: Pick<LeaseRow, "id" | "failure"> | null;
  };
  reopen(): void;
  destroy(): void;
  rekey(term: number): void;
}
