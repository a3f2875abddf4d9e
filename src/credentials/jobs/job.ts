import type { Issued, JobEnd, MountTtls } from "../../contracts/credential-engine.ts";
import { refuse } from "../../lib/result.ts";
import type { EngineStates, EngineType } from "../engines/engine-type.ts";
import { type Pooling, poolSagaOf } from "../pool/pool-saga.ts";
import { mapDecision, type Saga } from "../runner/saga.ts";

/** A request for credentials and the limits of its lease. Stored in the job, so its fields must not be renamed. */
export interface LeaseRequest {
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
 * The state of a job by kind. `account`: the identity for its calls, if it is not that of the job. Persisted as sealed
 * JSON.
 */
export type Work =
  | { readonly kind: "issue"; readonly issue: EngineStates["issue"]; readonly terms: LeaseRequest }
  | {
      readonly kind: "renewal";
      readonly renewal: EngineStates["renewal"];
      /** Id of the lease. */
      readonly lease: string;
      /** The lease's end when the renewal began; absent in jobs of an earlier release. */
      readonly from?: number;
      /** End of the lease after the renewal, ms since 1970. */
      readonly expires: number;
      readonly renewable: boolean;
      readonly warnings: readonly string[];
    }
  | {
      readonly kind: "role";
      readonly write: EngineStates["write"];
      /** The credentials that the role keeps were due: no request waits, and a failed replacement is repeated. */
      readonly due?: true;
      /** Of the mount, for the secrets of a pool. */
      readonly mount?: MountTtls | undefined;
    }
  | { readonly kind: "pool"; readonly pooling: Pooling }
  | { readonly kind: "rotation"; readonly rotation: EngineStates["rotation"] }
  | {
      readonly kind: "removal";
      readonly removal: EngineStates["removal"];
      /** Owner of the removed resources, for the operator. */
      readonly because: string;
      /** The identity with its secret of an earlier time; absent or null: that of the job. */
      readonly account?: EngineStates["account"] | null;
      /** The calls under way are those of another identity than that of the resources. */
      readonly other?: true;
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
): Saga<Work> => {
  const whole: Saga<WorkOf<K>> = {
    next: (work, now) => saga.next(part(work), now),
    beforeCall: (work, step) => withPart(work, saga.beforeCall?.(part(work), step) ?? part(work)),
    onSuccess: (work, step, value, now) => withPart(work, saga.onSuccess(part(work), step, value, now)),
    onError: (work, step, failure, now, tries) =>
      mapDecision(saga.onError(part(work), step, failure, now, tries), (state) => withPart(work, state)),
  };
  // The kind selects the saga, so the state has its type.
  return whole as unknown as Saga<Work>;
};

const jobSagas = new WeakMap<EngineType, Saga<Work>>();

/** One saga for all kinds of work of an engine type: delegates to the saga of `work.kind`. */
export function jobSagaOf(type: EngineType): Saga<Work> {
  const known = jobSagas.get(type);
  if (known) return known;
  const saga = newJobSaga(type);
  jobSagas.set(type, saga);
  return saga;
}

function newJobSaga(type: EngineType): Saga<Work> {
  const { issue, renewal, roles, rotation, removal } = type;
  const sagas: { readonly [K in Work["kind"]]: Saga<Work> | null } = {
    issue: over<"issue", object>(
      issue,
      (work) => work.issue,
      (work, state) => ({ ...work, issue: state }),
    ),
    renewal: renewal
      ? over<"renewal", object>(
          renewal,
          (work) => work.renewal,
          (work, state) => ({ ...work, renewal: state }),
        )
      : null,
    role: over<"role", EngineStates["write"]>(
      roles,
      ({ write }) => write,
      (work, write) => ({ ...work, write }),
    ),
    pool: over<"pool", Pooling>(
      poolSagaOf(type),
      ({ pooling }) => pooling,
      (work, pooling) => ({ ...work, pooling }),
    ),
    rotation:
      rotation &&
      over<"rotation", EngineStates["rotation"]>(
        rotation,
        (work) => work.rotation,
        (work, state) => ({ ...work, rotation: state }),
      ),
    removal: over<"removal", EngineStates["removal"]>(
      removal,
      (work) => work.removal,
      (work, state) => ({ ...work, removal: state }),
    ),
  };
  const sagaOf = ({ kind }: Work): Saga<Work> => {
    const saga = sagas[kind];
    if (!saga) throw new Error(`this type of engine has no ${kind}`);
    return saga;
  };
  return {
    next: (work, now) => sagaOf(work).next(work, now),
    beforeCall: (work, step) => sagaOf(work).beforeCall?.(work, step) ?? work,
    onSuccess: (work, step, value, now) => sagaOf(work).onSuccess(work, step, value, now),
    onError: (work, step, failure, now, tries) => sagaOf(work).onError(work, step, failure, now, tries),
  };
}

/** The outcome of a successful job. */
export const done = (warnings: readonly string[] = [], issued: Issued | null = null) => ({
  ok: true as const,
  issued,
  warnings,
  goesOnAt: null,
});

/** The job continues automatically at `at`, ms since 1970. */
export const continuesAt = (at: number): JobEnd => ({ ok: true, issued: null, warnings: [], goesOnAt: at });

/** The outcome of a request for credentials of which nothing is known: a restart has dropped the job. */
export const INTERRUPTED = { ...refuse("unavailable", "the request was interrupted; try again"), gone: true } as const;
