import type { Result } from "../lib/result.ts";
import type { KnownPage } from "../platform/durable/object-kinds.ts";
import type { StoredObjectApi } from "./stored-objects.ts";

export interface SyncConfig {
  readonly disabled: boolean;
  readonly queue_capacity: number;
}

/** Whether calls to providers may start, and for how long that holds, counted from when the question was sent. */
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
  /** Changes what is given. A pause has taken effect when this returns: no call to a provider starts after it. */
  setConfig(changes: Partial<SyncConfig>): Promise<SyncConfig>;
  resetConfig(): Promise<SyncConfig>;
  /**
   * Whether calls to providers may start. Asked before the first call of a batch, and again whenever the answer has run out.
   * @param forMs for how long; whoever is far away asks for longer, or the answer has run out when it arrives
   */
  mayRun(forMs?: number): MayRun;
  /** A destination states what it needs of the queue. Idempotent. */
  share(destination: string, { kept, waiting, asked }: QuotaRequest): QuotaGrant & MayRun;
  /** How many operations all destinations together have queued. */
  pending(): number;
  /**
   * Creates an application, or replaces its key: then the destinations that use it try again what failed.
   * @param namespaceId the identity of the namespace, which must not have ended
   */
  putApp(
    namespaceId: string,
    namespace: string,
    name: string,
    appId: number,
    privateKey: string,
  ): Promise<Result<AppView>>;
  app(namespace: string, name: string): Result<AppView>;
  appNames(namespace: string): string[];
  appCredentials(namespace: string, name: string): Result<AppCredentials>;
  /** Refused while a destination uses it. One that is gone already counts as deleted. */
  deleteApp(namespace: string, name: string): Promise<Result<AppView | null>>;
  /** A destination is about to use an application. Refused when there is no such application. Idempotent. */
  claimApp(namespace: string, destination: string, app: string): Result<null>;
  /** A destination says which application it uses, null for none. Refused when there is no such application. Idempotent. */
  useApp(namespace: string, destination: string, app: string | null): Result<null>;
  /**
   * A destination states its targets, none once it has ended. Idempotent.
   * @returns the other destinations that have one of them
   */
  useTargets(destination: string, targets: readonly string[]): string[];
  /** Ends a namespace that has no applications: see `EndedNamespaces`. */
  endNamespace(id: string, path: string): Result<null>;
  /** Clears what earlier releases left at the path of a namespace that is about to be created. Idempotent. */
  clearNamespace(path: string): void;
  /** Destinations that have work. */
  known(after: string): KnownPage;
  rekey(term: number): void;
}

export const DEFAULTS: SyncConfig = { disabled: false, queue_capacity: 1_000_000 };
