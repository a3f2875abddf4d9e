import type { CloudAccount } from "../../contracts/cloud-directory.ts";
import type { Issued, JobEnd } from "../../contracts/credential-engine.ts";
import { type Issue, issueSaga } from "../engines/azure/issue.ts";
import { type Removal, removalSaga } from "../engines/azure/removal.ts";
import { type RoleWrite, roleSaga } from "../engines/azure/role-write.ts";
import { type Rotation, rotationSaga } from "../engines/azure/rotation.ts";
import { mapDecision, type Saga } from "../runner/saga.ts";

/** A request for credentials and the limits of its lease. Stored in the job, so its fields must not be renamed. */
interface LeaseRequest {
  readonly role: string;
  /** Accessor of the token that owns the lease. */
  readonly token: string;
  /** Digest that identifies repeats of the same request; null without an idempotency key. */
  readonly repeat: string | null;
  /** Seconds. */
  readonly ttl: number;
  readonly maxTtl: number;
  readonly warnings: readonly string[];
  /** See `IssueRequest`. */
  readonly until?: number | null | undefined;
  /** Time for the response to leave after the lease is stored, in ms. Older rows lack it: `HAND_OVER_MS`. */
  readonly handOverMs?: number;
}

/** A response leaves within moments; the margin covers stalls of a busy service. */
export const HAND_OVER_MS = 30_000;

/**
 * The state of a job by kind. `account`: the identity for its calls, if it is not the configured one. Persisted as
 * sealed JSON.
 */
export type Work =
  | { readonly kind: "issue"; readonly issue: Issue; readonly terms: LeaseRequest }
  | { readonly kind: "role"; readonly write: RoleWrite }
  | { readonly kind: "rotation"; readonly rotation: Rotation }
  | {
      readonly kind: "removal";
      readonly removal: Removal;
      /** Owner of the removed resources, for the operator. */
      readonly because: string;
      readonly account: CloudAccount | null;
      /** Whether the lease with the job's id is deleted after the removal. */
      readonly lease: boolean;
      /** Of the revocation of a lease: see `tracedWork`. */
      readonly trace?: string | null | undefined;
    };
export type WorkOf<K extends Work["kind"]> = Extract<Work, { kind: K }>;

/** A saga over one part of the work. */
const over = <K extends Work["kind"], S>(
  saga: Saga<S>,
  part: (work: WorkOf<K>) => S,
  withPart: (work: WorkOf<K>, state: S) => WorkOf<K>,
): Saga<WorkOf<K>> => ({
  next: (work, now) => saga.next(part(work), now),
  beforeCall: (work, step) => withPart(work, saga.beforeCall?.(part(work), step) ?? part(work)),
  onSuccess: (work, step, value, now) => withPart(work, saga.onSuccess(part(work), step, value, now)),
  onError: (work, step, failure, now, tries) =>
    mapDecision(saga.onError(part(work), step, failure, now, tries), (state) => withPart(work, state)),
});

const SAGAS: { readonly [K in Work["kind"]]: Saga<WorkOf<K>> } = {
  issue: over<"issue", Issue>(
    issueSaga,
    ({ issue }) => issue,
    (work, issue) => ({ ...work, issue }),
  ),
  role: over<"role", RoleWrite>(
    roleSaga,
    ({ write }) => write,
    (work, write) => ({ ...work, write }),
  ),
  rotation: over<"rotation", Rotation>(
    rotationSaga,
    ({ rotation }) => rotation,
    (work, rotation) => ({ ...work, rotation }),
  ),
  removal: over<"removal", Removal>(
    removalSaga,
    ({ removal }) => removal,
    (work, removal) => ({ ...work, removal }),
  ),
};
/** The kind selects the saga, so the state has its type. */
const sagaOf = ({ kind }: Work) => SAGAS[kind] as unknown as Saga<Work>;

/** One saga for all kinds of work: delegates to the saga of `work.kind`. */
export const jobSaga: Saga<Work> = {
  next: (work, now) => sagaOf(work).next(work, now),
  beforeCall: (work, step) => sagaOf(work).beforeCall?.(work, step) ?? work,
  onSuccess: (work, step, value, now) => sagaOf(work).onSuccess(work, step, value, now),
  onError: (work, step, failure, now, tries) => sagaOf(work).onError(work, step, failure, now, tries),
};

/** The outcome of a successful job. */
export const done = (warnings: readonly string[] = [], issued: Issued | null = null): JobEnd => ({
  ok: true,
  issued,
  warnings,
  goesOnAt: null,
});

/** The job continues automatically at `at`, ms since 1970. */
export const continuesAt = (at: number): JobEnd => ({ ok: true, issued: null, warnings: [], goesOnAt: at });
