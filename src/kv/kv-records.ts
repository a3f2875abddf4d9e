import type { GivenBack, ReadLease } from "../contracts/read-lease.ts";
import { NameFeed } from "../listings/name-feed.ts";
import { DataKeys } from "../platform/crypto/data-keys.ts";
import { masterKey } from "../platform/crypto/master-key.ts";
import { NOTHING, type ObjectContext } from "../platform/durable/object-context.ts";
import { ServiceEvents } from "../publishing/service-events.ts";
import { Followers } from "./followers.ts";
import { listPaths } from "./listing.ts";
import { MountState } from "./mount-state.ts";
import { PublishedEvents } from "./published-events.ts";
import { SecretEvents } from "./secret-events.ts";
import { Secrets } from "./secrets.ts";
import { VersionSealing } from "./version-sealing.ts";
import { WatchDelivery } from "./watch-delivery.ts";
import { Watchers } from "./watchers.ts";

/** The leases of replicas on the object's answers: see `LeaseOwner`. */
export interface AnswerLeases {
  grant(holder: string, key: string, question?: number): ReadLease;
  takeBack(givenBack: GivenBack): void;
  hold<T>(answer: T, key: string | null): T;
}

/** The rows, keys, transactions and notices of a change that the components of `KvStore` share. */
export function kvRecords(object: ObjectContext) {
  const { sql, name, env, outbox } = object;
  const keys = new DataKeys(sql, name, () => masterKey(object.env));
  const secrets = new Secrets(sql);
  const state = new MountState(sql);
  const watchers = new Watchers(sql);
  const followers = new Followers(sql);
  const published = new PublishedEvents(env, state, (change) => object.commit(change, NOTHING));
  const events = ServiceEvents.ofMount(env, name, () => outbox);
  return {
    object,
    keys,
    secrets,
    state,
    sealing: new VersionSealing(keys, name),
    watchers,
    followers,
    published,
    events: new SecretEvents(events, published),
    delivery: new WatchDelivery(env, name, watchers, followers, outbox),
    names: new NameFeed(object, {
      page: (after, limit) => listPaths(sql, "", after, limit).keys,
      existing: (paths) => secrets.existing(paths),
    }),
  };
}

export type KvRecords = Readonly<ReturnType<typeof kvRecords>>;
