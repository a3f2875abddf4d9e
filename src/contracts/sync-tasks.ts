import type { WorkLease } from "../platform/durable/lease.ts";
import type { Wire } from "../wire/infer.ts";
import type { Planned } from "../wire/sync.ts";
import type { Failure } from "./failure.ts";
import type { SyncFederation } from "./federation.ts";

/** Restrictions of a destination's calls. Absent lists restrict nothing. */
export interface Networking {
  readonly allowed_ipv4_addresses?: readonly string[];
  readonly allowed_ipv6_addresses?: readonly string[];
  readonly allowed_ports?: readonly number[];
  /** The lists are not enforced. */
  readonly disable_strict_networking?: boolean;
}

/** Identifies a secret by its mount's uuid and accessor, which survive a move of the mount. */
export interface SecretRef {
  readonly mountUuid: string;
  readonly mountAccessor: string;
  readonly mountPath: string;
  readonly secretName: string;
}

/** The result of a task. */
export interface SyncResult {
  readonly lease: WorkLease;
  /** A failure of the whole task, apart from its objects. */
  readonly trouble?: Trouble;
  /** The version at the provider now; null for none. */
  readonly version: number | null;
  readonly tagKeys: readonly string[];
  /** The digest of the tags of this task's pushes; absent from Workers of earlier versions. */
  readonly tagsDigest?: string;
  readonly copies: readonly ObjectResult[];
  /** The task ran out of time before all objects were handled. */
  readonly unfinished: boolean;
}

/** A failure as it is stored and shown. `internal`: caused by this service. */
export type Trouble = Failure | { readonly outcome: "internal"; readonly code: string; readonly message: string };

/** The result of a task for one external object. */
export interface ObjectResult {
  readonly subKey: string;
  readonly name: string;
  /**
   * `kept`: the object was up to date. `left`: `if-not-exists` found an object. `absent`: no object exists.
   * `retained`: the deletion policy keeps it. `untouched`: no call was made. `failed`: the state is uncertain.
   */
  readonly state: "pushed" | "kept" | "left" | "absent" | "retained" | "untouched" | "failed";
  readonly trouble?: Trouble;
  /** Set for an untouched object whose recorded state was certain. */
  readonly certain?: true;
  /** Set for an untouched object: `tagsWritten` of its task. */
  readonly tagsWritten?: string;
  /** Set for an untouched or failed object: `unsureSince` of its task. */
  readonly unsureSince?: number;
  /** No object of this service exists under this name. */
  readonly notOurs?: true;
  /** Set for an absent object that was known to be absent: no call was made. */
  readonly uncalled?: true;
  readonly fingerprint?: string;
  readonly reference?: string;
  /** The failure of a clean-up at the provider; the object itself is as desired. */
  readonly owed?: Failure;
  /** The value to store, for destinations of kind `stored`. */
  readonly value?: string;
}

/** Settings shared by all tasks of a destination. Holds connection secrets, so it is never stored. */
export interface Setup {
  readonly namespace: string;
  readonly type: string;
  readonly connection: unknown;
  /** Absent in answers of an older version of the service. */
  readonly networking?: Networking;
  /** The identity of a destination without stored credentials. */
  readonly federation?: SyncFederation;
  readonly tags: Readonly<Record<string, string>>;
  readonly updatePolicy: UpdatePolicy;
  /** Obsolete objects stay at the provider (deletion policy `retain`). */
  readonly retain: boolean;
  /** HMAC key for the fingerprints of values. */
  readonly fingerprintKey: string;
  readonly atOnce: number;
  /** Until when refusals of rights are retried (ms since 1970); absent in answers of an older version of the service. */
  readonly freshUntil?: number;
  /** The most tasks that a Worker performs as one; absent: each alone. */
  readonly batch?: number;
}

/** The treatment of an existing object. `owned-only`: only objects with our marker are changed. */
export type UpdatePolicy = "replace" | "if-not-exists" | "owned-only";

/** The response to a Worker's poll. */
export interface PollAnswer {
  /** False while syncing is paused. */
  readonly running: boolean;
  /** How long provider calls may start, counted from when the poll was sent. */
  readonly permitMs: number;
  readonly setup: Setup | null;
  readonly tasks: readonly SyncTask[];
  /** Delay in ms until more work may be ready; null when no work waits. */
  readonly retryInMs: number | null;
}

/** A task: the desired state of one association, leased to a Worker. */
export interface SyncTask {
  readonly lease: WorkLease;
  readonly desired: "present" | "absent";
  readonly mountUuid: string;
  readonly secretName: string;
  readonly granularity: Granularity;
  /** Absent: the whole secret. */
  readonly content?: ContentRule;
  readonly copies: readonly ObjectTask[];
  /** Only rules want the association, and they leave the objects of a secret whose metadata is deleted. */
  readonly staysWithoutSecret?: true;
  readonly idempotencyToken: string;
  /** The trace of the request that wrote the secret, if it was sampled: see `traceText`. */
  readonly trace?: string | null;
}

/** The part of a secret that its objects hold. */
export interface ContentRule {
  /** Keys that are pushed; empty: all. */
  readonly keyGlob: readonly string[];
  readonly excludeKeyGlob: readonly string[];
  /** The text of the object of a whole secret; empty: its data as JSON. */
  readonly valueTemplate: string;
}

export type Granularity = "secret-path" | "secret-key";

/** One external object of a task. */
export interface ObjectTask {
  readonly subKey: string;
  readonly name: string;
  /** The object is removed even when the secret exists. */
  readonly obsolete: boolean;
  /** Whether an object of this service exists under this name; `no`: no push was ever sent. */
  readonly ours: "no" | "maybe" | "certainly";
  /** The version at the provider, null for none; undefined while it is uncertain. */
  readonly outside: number | null | undefined;
  /** Whether an earlier push succeeded: a hint for the first call to try. */
  readonly knownToExist: boolean;
  readonly fingerprint: string | null;
  readonly reference: string | null;
  readonly previousTagKeys: readonly string[];
  /** The digest of the tags at the provider, as the last push wrote them; null while they are uncertain. */
  readonly tagsWritten?: string | null;
  readonly blocked: boolean;
  /** Start of the first push with unknown outcome since the last known one (ms since 1970); null for none. */
  readonly unsureSince: number | null;
  /** A clean-up at the provider is owed; absent in answers of an older version of the service. */
  readonly owed?: boolean;
  /** Another destination may own the name: `plan` checks before the object is touched. */
  readonly unclaimed: boolean;
}

/** The change that would be made to one external object. */
export type PlannedObject = Omit<Wire<typeof Planned>, "outside">;
