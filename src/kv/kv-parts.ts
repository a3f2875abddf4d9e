import { NameFeed } from "../listings/name-feed.ts";
import { DataKeys } from "../platform/crypto/data-keys.ts";
import { masterKey } from "../platform/crypto/master-key.ts";
import { NOTHING, type ObjectContext } from "../platform/durable/object-context.ts";
import { ServiceEvents } from "../publishing/service-events.ts";
import { Followers } from "./followers.ts";
import { KvMount } from "./kv-mount.ts";
import type { AnswerLeases, KvRecords } from "./kv-records.ts";
import { listPaths } from "./listing.ts";
import { MountState } from "./mount-state.ts";
import { PublishedEvents } from "./published-events.ts";
import { SecretEvents } from "./secret-events.ts";
import { SecretMetadata } from "./secret-metadata.ts";
import { SecretReads } from "./secret-reads.ts";
import { SecretWrites } from "./secret-writes.ts";
import { Secrets } from "./secrets.ts";
import { UnversionedSecrets } from "./unversioned.ts";
import { VersionSealing } from "./version-sealing.ts";
import { WatchDelivery } from "./watch-delivery.ts";
import { Watchers } from "./watchers.ts";

/** The components of `KvStore` that its method table calls. */
export interface KvParts extends KvRecords {
  readonly leases: AnswerLeases;
  readonly reads: SecretReads;
  readonly writes: SecretWrites;
  readonly unversioned: UnversionedSecrets;
  readonly metadata: SecretMetadata;
  readonly mount: KvMount;
}

/** The components of one mount's object. */
export function kvParts(object: ObjectContext, leases: AnswerLeases): KvParts {
  const { sql, name, env, outbox } = object;
  const keys = new DataKeys(sql, name, () => masterKey(object.env));
  const secrets = new Secrets(sql);
  const state = new MountState(sql);
  const watchers = new Watchers(sql);
  const followers = new Followers(sql);
  const published = new PublishedEvents(env, state, (change) => object.commit(change, NOTHING));
  const records: KvRecords = {
    object,
    keys,
    secrets,
    state,
    sealing: new VersionSealing(keys, name),
    watchers,
    followers,
    published,
    events: new SecretEvents(
      ServiceEvents.ofMount(env, name, () => outbox),
      published,
    ),
    delivery: new WatchDelivery(env, name, watchers, followers, outbox),
    names: new NameFeed(object, {
      page: (after, limit) => listPaths(sql, "", after, limit).keys,
      existing: (paths) => secrets.existing(paths),
    }),
  };
  const reads = new SecretReads(secrets, records.sealing);
  return {
    ...records,
    leases,
    reads,
    writes: new SecretWrites(records, reads),
    unversioned: new UnversionedSecrets(records),
    metadata: new SecretMetadata(records),
    mount: new KvMount(records),
  };
}
