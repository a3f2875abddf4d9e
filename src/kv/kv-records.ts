import type { GivenBack, ReadLease } from "../contracts/read-lease.ts";
import type { NameFeed } from "../listings/name-feed.ts";
import type { DataKeys } from "../platform/crypto/data-keys.ts";
import type { ObjectContext } from "../platform/durable/object-context.ts";
import type { Followers } from "./followers.ts";
import type { MountState } from "./mount-state.ts";
import type { PublishedEvents } from "./published-events.ts";
import type { SecretEvents } from "./secret-events.ts";
import type { Secrets } from "./secrets.ts";
import type { VersionSealing } from "./version-sealing.ts";
import type { WatchDelivery } from "./watch-delivery.ts";
import type { Watchers } from "./watchers.ts";

/** The leases of replicas on the object's answers: see `LeaseOwner`. */
export interface AnswerLeases {
  grant(holder: string, key: string, question?: number): ReadLease;
  takeBack(givenBack: GivenBack): void;
  hold<T>(answer: T, key: string | null): T;
}

/** The rows, keys, transactions and notices of a change that the components of `KvStore` share. */
export interface KvRecords {
  readonly object: ObjectContext;
  readonly keys: DataKeys;
  readonly secrets: Secrets;
  readonly state: MountState;
  readonly sealing: VersionSealing;
  readonly watchers: Watchers;
  readonly followers: Followers;
  readonly published: PublishedEvents;
  readonly events: SecretEvents;
  readonly delivery: WatchDelivery;
  readonly names: NameFeed;
}
