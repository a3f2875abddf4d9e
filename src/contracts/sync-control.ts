import type { Result } from "../lib/result.ts";
import type { KnownPage } from "../platform/durable/object-kinds.ts";
import type { Wire } from "../wire/infer.ts";
import type { Config } from "../wire/sync.ts";
import type { WriteRights } from "./kv-store.ts";
import type { StoredObjectApi } from "./stored-objects.ts";

export type SyncConfig = Wire<typeof Config>;

/** A gate lease: whether provider calls may start, valid for `permitMs` from the moment the request was sent. */
export interface MayRun {
  readonly running: boolean;
  readonly permitMs: number;
}

/** A destination's quota request to `SyncControl`. States the whole need; a newer request replaces an older one. */
export interface QuotaRequest {
  /** Operations that are queued or reserved; the grant never falls below this. */
  readonly kept: number;
  /** Operations that wait for quota. */
  readonly waiting: number;
  /** Operations that are queued only if quota is free now. */
  readonly asked: number;
}

/** The response of `SyncControl`. */
export interface QuotaGrant {
  /** How many operations the destination may have queued. */
  readonly granted: number;
  /** Little quota is left, so unused quota should be released at once. */
  readonly scarce: boolean;
  /** False while syncing is paused: then quota is seldom freed. */
  readonly running: boolean;
}

/** A custom application as responses show it, without its private key. */
export interface AppView {
  readonly name: string;
  readonly app_id: number;
  readonly fingerprint: string;
}

/** An application's credentials as adapters receive them. Never stored in this form. */
export interface AppCredentials {
  readonly appId: string;
  /** PEM. */
  readonly privateKey: string;
}

/** The methods of `SyncControl` that other objects and Workers call. */
export interface SyncControlApi extends StoredObjectApi {
  config(): SyncConfig;
  /** Changes the given settings. After a pause returns, no provider call starts. */
  setConfig(changes: Partial<SyncConfig>): Promise<SyncConfig>;
  resetConfig(): Promise<SyncConfig>;
  /**
   * Returns a gate lease. Required before the first call of a batch and after each expiry.
   * @param forMs requested validity; distant callers need more, since the lease runs from the sending of the request
   */
  mayRun(forMs?: number): MayRun;
  /** Exchanges a quota request for a grant. Idempotent. */
  share(destination: string, { kept, waiting, asked }: QuotaRequest): QuotaGrant & MayRun;
  /** Queued operations of all destinations. */
  pending(): number;
  /**
   * Creates an application or replaces its key; its destinations then retry failed work.
   * @param namespaceId the identity of the namespace, which must not have ended
   */
  putApp(
    namespaceId: string,
    namespace: string,
    name: string,
    appId: number,
    privateKey: string,
    rights?: WriteRights,
  ): Promise<Result<AppView>>;
  app(namespace: string, name: string): Result<AppView>;
  appNames(namespace: string): string[];
  appCredentials(namespace: string, name: string): Result<AppCredentials>;
  /** Refused while a destination uses it. Idempotent. */
  deleteApp(namespace: string, name: string): Promise<Result<AppView | null>>;
  /** Reserves an application before a destination uses it. Refused when it does not exist. Idempotent. */
  claimApp(namespace: string, destination: string, app: string): Result<null>;
  /** Records the application of a destination, null for none. Refused when it does not exist. Idempotent. */
  useApp(namespace: string, destination: string, app: string | null): Result<null>;
  /**
   * Records the targets of a destination; none once it has ended. Idempotent.
   * @returns other destinations that share a target
   */
  useTargets(destination: string, targets: readonly string[]): string[];
  /** Ends a namespace without applications: see `EndedNamespaces`. */
  endNamespace(id: string, path: string): Result<null>;
  /** Removes remains of earlier releases at the path of a new namespace. Idempotent. */
  clearNamespace(path: string): void;
  /** Lists destinations with work. */
  known(after: string): KnownPage;
  rekey(term: number): void;
}

export const DEFAULTS: SyncConfig = { disabled: false, queue_capacity: 1_000_000 };
