import type { Refusal, Result } from "../lib/result.ts";
import type { WorkLease } from "../platform/durable/lease.ts";
import type { Wire } from "../wire/infer.ts";
import type { Association } from "../wire/sync.ts";
import type { DestinationKey } from "./destination.ts";
import type { WriteRights } from "./kv-store.ts";
import type { StoredObjectApi } from "./stored-objects.ts";
import type { SyncAdoptionApi } from "./sync-adoption.ts";
import type { SyncRulesApi } from "./sync-rules.ts";
import type {
  Networking,
  ObjectTask,
  PlannedObject,
  PollAnswer,
  SecretRef,
  Setup,
  SyncResult,
  SyncTask,
} from "./sync-tasks.ts";

/** The sender of a `contest`: a destination that checks names with another one. */
export interface Asker {
  readonly destination: string;
  readonly created: number;
  readonly targets: readonly string[];
  /** Whether the sender is about to use the names; false for a preview. */
  readonly claims: boolean;
}

export interface Configured {
  readonly state: DestinationState;
  readonly warnings: readonly string[];
}

/** A destination as a read shows it, with a running purge and an open breaker. */
export interface DestinationState extends DestinationView {
  readonly purge_initiated_at?: string;
  readonly purge_error?: string;
  /** Present while the breaker is open. */
  readonly circuit_breaker?: { readonly failures: number; readonly next_attempt_at: string };
}

/** A destination as responses show it, connection details masked. */
export interface DestinationView {
  readonly name: string;
  readonly type: string;
  /** Whether the caller set the granularity. Responses leave this field out. */
  readonly granularity_given: boolean;
  readonly connection_details: Record<string, unknown>;
  readonly options: {
    readonly granularity_level: string;
    readonly secret_name_template: string;
    readonly custom_tags: Readonly<Record<string, string>>;
    readonly update_policy: string;
    readonly deletion_policy: string;
    readonly credentials_expire_at?: string;
  } & Networking;
}

/** One page of associations as responses show them. */
export interface AssociationsPage {
  readonly store_name: string;
  readonly store_type: string;
  readonly associated_secrets: readonly (readonly [key: string, view: AssociationView])[];
  /** The id after which the next page begins; null on the last page. */
  readonly next: string | null;
}

export type AssociationView = Wire<typeof Association>;
export type SyncStatus = AssociationView["sync_status"];

export interface StoredObjectView {
  readonly name: string;
  readonly value: string;
  readonly tags: Record<string, string>;
  readonly updated_at: string;
}

/** Top-level keys of secrets by association id; null for a secret without a living version. */
export type KeysOf = Readonly<Record<string, readonly string[] | null>>;

/** The changes of one page of associations that a configuration would cause. */
export interface Preview {
  readonly setup: InspectSetup;
  readonly warnings: readonly string[];
  readonly planned: readonly PlannedObject[];
  /** Associations whose keys the caller must read first; nothing is planned for them. */
  readonly keyless: readonly Keyless[];
  /** The id after which the next page begins; null on the last page. */
  readonly next: string | null;
}

/** An association whose objects depend on the current keys of its secret. */
export interface Keyless extends Pick<SecretRef, "mountUuid" | "secretName"> {
  readonly id: string;
}

/** Settings for inspecting a provider. Holds connection secrets, so it is never stored. */
export type InspectSetup = Pick<
  Setup,
  "namespace" | "type" | "connection" | "networking" | "federation" | "updatePolicy"
>;

export interface RecordsPage {
  readonly records: readonly ObjectRecord[];
  readonly isLast: boolean;
}

/** One recorded object, to be compared with the provider. */
export interface ObjectRecord {
  /** The key in the list of associations. */
  readonly key: string;
  readonly name: string;
  readonly reference: string | null;
  /** The tags that the object carries after our last push; absent while they are uncertain. */
  readonly tags?: Readonly<Record<string, string>>;
  /** The cursor of the page after this record. */
  readonly cursor: string;
  /** The version expected at the provider, null for none; absent while it is uncertain. */
  readonly version?: number | null;
  /** The source of its content; absent in answers of an older version of the service. */
  readonly source?: ObjectSource;
  /** The owed clean-up, as a sentence. */
  readonly owed?: string;
  /** `manual` and `rule:<name>`; absent without a rule. */
  readonly origins?: readonly string[];
}

/** The secret behind an external object. */
export interface ObjectSource extends Pick<SyncTask, "mountUuid" | "secretName" | "granularity" | "content"> {
  readonly subKey: string;
}

/** The response to `contest`: `kept` are the names the sender may not use. */
export interface Contest {
  /** False: the destination no longer writes to one of the sender's targets. */
  readonly shares: boolean;
  readonly kept: readonly string[];
}

/** A secret by the path that its mount had when it was associated. */
export interface AssociationListing {
  readonly mount: string;
  readonly secret: string;
}

/** The methods of `SyncDestination` that other objects and Workers call. */
export interface SyncDestinationApi extends StoredObjectApi, SyncRulesApi, SyncAdoptionApi {
  configure(
    key: DestinationKey,
    body: Readonly<Record<string, unknown>>,
    options?: { word?: string; mode?: "write" | "patch"; origin?: string; rights?: WriteRights },
  ): Promise<Result<Configured>>;
  repaired(): void;
  /** The queue quota is scarce since the capacity was lowered: has the destination give up what it does not use. */
  quotaScarce(): Promise<void>;
  read(): Result<DestinationState>;
  /**
   * Deletes the destination. With associations, `purge` removes their objects first, in the background; `force` deletes
   * even if that fails, and without `purge` leaves the objects at the provider. Idempotent.
   */
  delete(options?: { readonly purge: boolean; readonly force: boolean }): Promise<Result<null>>;
  /** Whether the destination uses a custom application, or a write in flight names it. @throws Sealed */
  needsApp(name: string): boolean;
  set(secret: SecretRef, keys?: readonly string[]): Promise<Result<AssociationsPage>>;
  remove(secret: Pick<SecretRef, "mountAccessor" | "secretName">): Promise<Result<AssociationsPage>>;
  changed(mountUuid: string, secretNames: readonly string[]): Promise<void>;
  /** Has the waiting pushes of a secret continue a trace. */
  setTrace(mountUuid: string, secretName: string, trace: string): void;
  /** A mount with associated secrets has moved to another path. */
  mountMoved(mountUuid: string): void;
  /** The accessor of an association by the mount's path, for mounts that are gone. */
  accessorOf(mountPath: string, secretName: string): string | null;
  /** The entries of a secret, by the path of its mount. */
  ofSecret(mountPath: string, secretName: string): (readonly [string, AssociationView])[];
  /** Returns the associations in `ids`, or one page of all when `ids` is null. */
  associations(ids: readonly string[] | null, after?: string, limit?: number): Result<AssociationsPage>;
  /** Objects of an `in-mem` destination, with values. */
  storedObjects(after: string): Result<StoredObjectView[]>;
  /** The changes that setting a secret would cause. */
  previewSet(secret: SecretRef, keys: readonly string[]): Promise<Result<PlannedObject[]>>;
  /** The changes that a configuration would cause for one page of associations. */
  previewConfigure(
    key: DestinationKey,
    body: Readonly<Record<string, unknown>>,
    mode: "write" | "patch",
    page: { readonly after: string; readonly keys: KeysOf | null; readonly origin?: string },
  ): Result<Preview>;
  /** One page of recorded objects, for comparison with the provider. */
  copyRecords(after: string, limit: number): Result<RecordsPage>;
  /** Connection settings for provider calls. */
  setup(): Result<Setup>;
  /** An external name for a connection check: an existing object, else a made-up one. */
  sampleName(): string | null;
  /** Completes tasks and leases ready ones. @param holder the caller's run, of up to 36 characters */
  poll(results: readonly SyncResult[], slots: number, only?: string, holder?: string): Promise<PollAnswer | Refusal>;
  /** Plans the objects of a leased task for the secret's keys; null when the lease is stale. */
  plan(lease: WorkLease, keys: readonly string[] | null): Promise<ObjectTask[] | null>;
  /** Answers the name claim of another destination with the same target. */
  contest(asker: Asker, names: readonly string[]): Contest;
  /**
   * Enqueues a repair of the listings.
   * @param listed associations in the listings, to be checked; null: all of the destination
   * @param deadline of the wait for the updates (ms since 1970); without it, one page is awaited
   * @returns whether every update is delivered
   */
  relist(listed: readonly AssociationListing[] | null, deadline?: number): Promise<boolean>;
  rekey(term: number): void;
}
