import type * as z from "zod";
import type { Dialect } from "../../compat/dialect.ts";
import type { JobRef, Step, StepResult } from "../../contracts/credential-engine.ts";
import type { Federation, Home } from "../../contracts/federation.ts";
import type { Result } from "../../lib/result.ts";
import type { Settings } from "../../platform/settings.ts";
import type { ClientAssertion } from "../../providers/identity-token.ts";
import type { Send } from "../../providers/outcome.ts";
import type { RoleTtls } from "../leases/lease-ttl.ts";
import type { RotationSchedule } from "../mount/rotation-schedule.ts";
import type { RemovalState } from "../runner/removal.ts";
import type { Saga } from "../runner/saga.ts";
import type { EngineDescription } from "./description.ts";

/**
 * The interface between the parts that all engines share (runner, leases, jobs, mount) and a type of engine: its states,
 * the sagas that create and remove resources at the provider, and its client. Implemented by one folder per type;
 * `index.ts` registers it.
 */

/** The values that a type stores as JSON. A change of shape must still read older rows. */
export interface EngineStates {
  /** The configuration; sealed. */
  readonly config: RotationSchedule & { readonly home?: Home };
  readonly role: object;
  /** The identity for calls, from configuration and settings. */
  readonly account: object;
  readonly issue: object;
  readonly write: { readonly name: string };
  readonly renewal: object;
  readonly rotation: { readonly account: object };
  readonly removal: RemovalState;
  /** Ids of the resources behind a lease, kept for its life: revocation needs them. */
  readonly resources: object;
  /** The new secret; sealed, and kept only for a request that may be repeated. */
  readonly secret: object;
}

/** The deployment's settings that engines read. */
export type EngineSettings = { readonly [K in keyof Settings]?: Settings[K] | undefined };

export interface ConfigContext {
  readonly settings: EngineSettings;
  readonly dialect: Dialect;
  /** Identity of the mount, if the body has an audience. */
  readonly home: Home | null;
}

/** The configuration of a mount. */
export interface ConfigRules<S extends EngineStates> {
  /** A write needs `update`, also the first one. */
  readonly alwaysUpdates?: true;
  /** Body of `POST config`. Absent fields keep their stored values. */
  readonly body: z.ZodType<Readonly<Record<string, unknown>>>;
  change(before: S["config"] | null, body: object, context: ConfigContext): Result<S["config"]>;
  /**
   * View of `GET config`, never with a secret; null while there is nothing to show.
   * @param rotationDue ms since 1970, null without a schedule
   */
  view(config: S["config"] | null, rotationDue: number | null): Record<string, unknown> | null;
  /** Further documents of the configuration, by their path below the mount. They are stored with it. */
  readonly documents?: Readonly<Record<string, ConfigDocument<S>>>;
  /** The identity for calls: a setting that is not empty overrides the stored value. */
  account(config: S["config"] | null, settings: EngineSettings): Result<S["account"]>;
  /** Whether a change replaces the engine's identity, which makes a rotation in progress useless. */
  changesIdentity(before: S["config"], after: S["config"]): boolean;
  /** How far an identity reaches what another one has made. */
  reach(maker: S["account"], other: S["account"]): Reach;
  /** How the account logs in with identity tokens; null for an account with a secret. */
  federationOf(account: S["account"]): Federation | null;
}

/**
 * `same`: the same identity, though its secret may be a newer one. `perhaps`: another one, which may have rights on the same
 * resources. `never`: one of another directory or account.
 */
export type Reach = "same" | "perhaps" | "never";

/** A part of the configuration with a path of its own, such as the TTLs of leases. */
export interface ConfigDocument<S extends EngineStates> {
  readonly body: z.ZodType<Readonly<Record<string, unknown>>>;
  change(before: S["config"] | null, body: object): Result<S["config"]>;
  /** Null before the first write. */
  view(config: S["config"] | null): Record<string, unknown> | null;
}

export interface WriteContext<S extends EngineStates> {
  readonly dialect: Dialect;
  readonly account: Result<S["account"]>;
}

/** A removal beside the job that caused it. `of` begins its id. */
export interface SideRemoval<S extends EngineStates> {
  readonly of: string;
  readonly removal: S["removal"];
  readonly because: string;
  /** Of what the role before the write had: it is removed by the identity that made it. Absent: of this write. */
  readonly former?: true;
}

/** Credentials that are kept with a role and replaced on time, in place of leases: those of a static role. */
export interface KeptCredentials<S extends EngineStates> {
  /** Their holder at the provider, such as the name of a user: two roles of a mount never share it. */
  readonly subject: string;
  /** Sealed; absent: those that are kept stay. */
  readonly secret?: S["secret"];
  /** Time of their replacement, ms since 1970. */
  readonly due: number;
}

/** The login with kept credentials, whose access token is answered and not stored. */
export interface KeptLogin {
  /** Body of a request for a token. */
  readonly body: z.ZodType<Readonly<Record<string, unknown>>>;
  /** @param data the kept credentials as answered */
  step(data: Readonly<Record<string, unknown>>, body: object): Step;
  /** The answer's `data`. @param value result of the step */
  data(value: unknown): Record<string, unknown>;
}

/** Rules of roles with kept credentials. */
export interface KeptRules<S extends EngineStates> {
  /** The subject of a write; null for a role without kept credentials. */
  subjectOf(write: S["write"]): string | null;
  /** The refusal of a role whose subject has another role. @param other its name */
  taken(subject: string, other: string): string;
  /** The answer's `data`, or the refusal of a role that has no credentials yet. */
  data(
    role: S["role"],
    secret: S["secret"],
    now: number,
    account: Result<S["account"]>,
  ): Result<Record<string, unknown>>;
  /** Absent: the provider has no tokens for them. */
  readonly login?: KeptLogin;
}

/** Roles, and the saga that writes one: it looks up references and makes what belongs to the role itself. */
export interface RoleRules<S extends EngineStates> extends Saga<S["write"]> {
  /** Body of `POST roles/:name`, in neutral or upstream names. */
  readonly body: z.ZodType<Readonly<Record<string, unknown>>>;
  /** Bodies of the further kinds of roles, and of their further paths of writes, by path. */
  readonly kinds?: Readonly<Record<string, z.ZodType<Readonly<Record<string, unknown>>>>>;
  /** A name as stored, without the beginning of its kind; null for an invalid one. */
  nameOf(text: string): string | null;
  view(role: S["role"]): Record<string, unknown>;
  /** A view in the caller's dialect. */
  translate(dialect: Dialect, view: Readonly<Record<string, unknown>>): Record<string, unknown>;
  /** @param config read when called: it is sealed */
  ttls(role: S["role"], config: () => S["config"] | null): RoleTtls;
  /** TTLs of a lease that do not depend on its role; null or absent: those of the role. */
  ttlsOfLease?(resources: S["resources"], config: () => S["config"] | null): RoleTtls | null;
  /** The refusal of a request about a role that does not exist. @param at its path, without the first slash */
  missing?(name: string, at: string): string;
  /** Percent of the TTL until which a caller is given the same lease again; 0 or absent: never. */
  sharePercent?(role: S["role"]): number;
  /** Texts that are answered with credentials. */
  metadata?(role: S["role"]): Readonly<Record<string, string>> | null;
  /** Begins a write. Absent fields of the body keep their values. @param name as stored, with the beginning of its kind */
  begin(name: string, before: S["role"] | null, body: object, context: WriteContext<S>): Result<S["write"]>;
  /** Absent: no kind of roles keeps credentials. */
  readonly kept?: KeptRules<S>;
  /**
   * Begins a write that replaces the credentials that belong to a role.
   * @param at the path of the request, as the description has it, without its first slash; empty: they are due
   */
  rotate?(name: string, role: S["role"], at: string, context: WriteContext<S>): Result<S["write"]>;
  /** Whether another write of the role may replace this one, because nothing was made for it. */
  isReplaceable(write: S["write"]): boolean;
  /** The role of a finished write, or the refusal. */
  outcome(
    write: S["write"],
    before: S["role"] | null,
    now: number,
  ):
    | {
        readonly role: S["role"];
        readonly removals: readonly SideRemoval<S>[];
        readonly warnings?: readonly string[];
        /** Of a role with kept credentials. */
        readonly keeps?: KeptCredentials<S>;
      }
    | { readonly problem: string };
  /**
   * Undoes a write that cannot continue.
   * @returns the stored role with a record of what was made, or the removal of it; null when nothing was made
   */
  undo(
    write: S["write"],
    stored: S["role"] | null,
    now: number,
  ): { readonly role: S["role"] } | { readonly removal: S["removal"] } | null;
  /** Removes what belongs to a deleted role; null when nothing does. */
  undoOfRole(role: S["role"], now: number): S["removal"] | null;
}

export interface IssueContext<S extends EngineStates> {
  readonly account: S["account"];
  /** Life of a secret at the provider that outlives every renewal of its lease, ms. */
  readonly lifeMs: number;
  /** First TTL of the lease, ms, for a type with `renewal`. */
  readonly ttlMs: number;
  /** The most that a lease may live by role and mount, ms. */
  readonly maxTtlMs: number;
  /** Name of the role. */
  readonly name: string;
  /** The path of the request, as the description has it, without its first slash. */
  readonly at: string;
  /** Display name of the caller's token. */
  readonly displayName: string;
  /** Parameters of the request, by the schema `request`. */
  readonly request: Readonly<Record<string, unknown>>;
}

/** The lease of finished credentials. */
export interface IssueOutcome<S extends EngineStates> {
  readonly resources: S["resources"];
  readonly secret: S["secret"];
  /** End of the secret at the provider, ms since 1970: the lease never outlives it. */
  readonly endsAt: number;
  /** Absent: the lease is renewable. */
  readonly renewable?: boolean;
  /**
   * `secret`: the lease ends with the secret, whatever the TTLs of role and mount. `none`: the answer has no lease, and
   * nothing is revoked. Absent: a lease with the TTL of role and mount.
   */
  readonly lease?: "secret" | "none";
}

/** The saga that creates credentials, with its undo. */
export interface IssueSaga<S extends EngineStates> extends Saga<S["issue"]> {
  /** Parameters of a request, in its query or in the body of a POST. Absent: none, and no POST. */
  readonly request?: z.ZodObject;
  /** Seconds that a request asks for as the TTL of its lease; 0 or absent: the role's. */
  ttlOf?(request: Readonly<Record<string, unknown>>, role: S["role"]): number;
  begin(role: S["role"], context: IssueContext<S>): Result<S["issue"]>;
  /** Name of a lock: one job at a time for equal names. Null: no lock. */
  lock?(issue: S["issue"]): string | null;
  /** @param value result of the last step */
  outcome(issue: S["issue"], value: unknown, now: number): IssueOutcome<S>;
  /** Removes everything that unfinished credentials created or may have created. */
  undo(issue: S["issue"], now: number): S["removal"];
  /**
   * Whether the calls leave nothing but a secret that ends by itself, and may be made again after a lost answer. Absent:
   * no issue is like that.
   */
  endsByItself?(issue: S["issue"]): boolean;
  /** Removes what unanswered calls may have left beside finished credentials; null when every call was answered. */
  orphans(issue: S["issue"], now: number): S["removal"] | null;
  /** The answer's `data`. @param ttl seconds until the end of the lease, or of a secret without one */
  data(secret: S["secret"], ttl: number): Record<string, unknown>;
  /** The call that proves that new credentials work; absent or null: they always do. */
  verify?(data: Readonly<Record<string, unknown>>): Step | null;
  /** The longest wait for it, ms, from the start of the request. Absent: the time of the request. */
  readonly verifyMs?: number;
}

/** The pool of a role. */
export interface PoolSpec {
  /** Number of credentials; 0: no pool. */
  readonly size: number;
  /** Seconds after which they are replaced. */
  readonly ttl: number;
  /** The parts of the role that its credentials depend on: a change of them replaces the pool. */
  readonly content: unknown;
}

/**
 * Credentials that are made, granted and verified ahead of requests. A type may offer them whose issue has no parameters,
 * ends with the call that returns the secret, and goes on after a crash like a removal.
 */
export interface PoolRules<S extends EngineStates> {
  of(role: S["role"]): PoolSpec;
}

/** The saga that moves the end of a secret at the provider. A repeat has the same effect, so it needs no undo. */
export interface RenewalSaga<S extends EngineStates> extends Saga<S["renewal"]> {
  /** @param endsAt the new end of the lease, ms since 1970 @param issued the time of its issue */
  begin(resources: S["resources"], endsAt: number, issued: number): S["renewal"];
}

/** The saga that replaces the root secret, with its undo. */
export interface RotationSaga<S extends EngineStates> extends Saga<S["rotation"]> {
  /** Begins a rotation, or refuses it. */
  begin(config: S["config"] | null, account: Result<S["account"]>, settings: EngineSettings): Result<S["rotation"]>;
  outcome(
    rotation: S["rotation"],
    now: number,
  ):
    | {
        /** Puts the new secret into the configuration. */
        promote(config: S["config"]): S["config"];
        readonly keyId: string;
        /** Id of the secret that is removed now; null when it could not be identified. */
        readonly replaced: string | null;
        /** Removes it. */
        readonly removal: S["removal"] | null;
        readonly orphans: S["removal"] | null;
        readonly warnings: readonly string[];
        /** The answer's `data`; absent: none. */
        readonly data?: Readonly<Record<string, unknown>>;
      }
    | { readonly problem: string };
  /** Removes the new secret; null when there is none. @param config whose secret stays; absent or null: none */
  undo(rotation: S["rotation"], now: number, config?: S["config"] | null): S["removal"] | null;
  /** Name of the lock that a rotation and its searches hold; absent: one of rotations alone. */
  lock?(rotation: S["rotation"]): string;
}

/** The saga that removes resources (`removalSagaOf`). */
export interface RemovalSaga<S extends EngineStates> extends Saga<S["removal"]> {
  /** Revokes a lease; empty for a secret that only ends by itself. @param issued ms since 1970 */
  ofLease(resources: S["resources"], issued: number): S["removal"];
}

/** The rules of a type's calls, by name. */
export interface CallRules {
  /** Calls without a result beyond their success: the next one may leave without a write in between. */
  readonly withoutResult: ReadonlySet<string>;
  /** Calls with a result that may end such a batch: ids that undo them are stored already. */
  readonly last?: ReadonlySet<string>;
  /** Sets of calls that change independent things: calls of one set may be under way at the same time. */
  readonly concurrent?: readonly ReadonlySet<string>[];
  /** The action of a call, for the message of its refusal. */
  describe(call: string, args: readonly unknown[]): string;
  /** The create call whose lost result a step searches for; null for another step. */
  searchedFor?(kind: JobRef["kind"], call: string): string | null;
}

/** Shows the calls of a configuration, and sends none. */
export interface DryRun {
  readonly body: z.ZodType<Readonly<Record<string, unknown>> & { readonly role?: string | undefined }>;
  /** @param stored view of the configuration; @param role view of the role that the body names */
  run(stored: object, body: object, role: Readonly<Record<string, unknown>> | null): Result<Record<string, unknown>>;
}

export interface ClientContext {
  readonly settings: EngineSettings;
  /** Sends one request; all calls share its deadline. */
  readonly send: Send;
  /** The same for an address that the mount's configuration names: `outbound-url.ts` has the rules. */
  readonly sendTo: Send;
  readonly assertion: ClientAssertion | undefined;
}

/** Performs one call at the provider. An exception counts as its failure. */
export type Perform = (step: Step) => Promise<StepResult>;

/** One type of engine. */
export interface EngineType<S extends EngineStates = EngineStates> {
  /** The type in `sys/mounts`. */
  readonly type: string;
  readonly description: EngineDescription;
  readonly config: ConfigRules<S>;
  readonly roles: RoleRules<S>;
  readonly issue: IssueSaga<S>;
  /** Absent: roles have no pools. */
  readonly pool?: PoolRules<S>;
  /** Absent: a secret outlives every renewal of its lease, which makes no call. */
  readonly renewal?: RenewalSaga<S>;
  /** Null: the type has no root secret that it can replace. */
  readonly rotation: RotationSaga<S> | null;
  readonly removal: RemovalSaga<S>;
  /** Absent: the type has no dry run. */
  readonly dryRun?: DryRun;
  readonly calls: CallRules;
  /** The provider's client; loaded when first used. */
  client(account: S["account"], context: ClientContext): Promise<Perform>;
}
