import type { ObjectContext } from "../platform/durable/object-context.ts";
import { KvMount } from "./kv-mount.ts";
import { type AnswerLeases, kvRecords } from "./kv-records.ts";
import { SecretMetadata } from "./secret-metadata.ts";
import { SecretReads } from "./secret-reads.ts";
import { SecretWrites } from "./secret-writes.ts";
import { UnversionedSecrets } from "./unversioned.ts";

/** The components of one mount's object, `KvStore`, that its method table calls. */
export function kvParts(object: ObjectContext, leases: AnswerLeases) {
  const records = kvRecords(object);
  const reads = new SecretReads(records.secrets, records.sealing);
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

export type KvParts = Readonly<ReturnType<typeof kvParts>>;
