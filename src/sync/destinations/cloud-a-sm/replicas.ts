import * as z from "zod";
import type { Failure } from "../../../contracts/failure.ts";
import { memo } from "../../../lib/memo.ts";
import type { CloudAClient } from "../../../providers/cloud-a-aws/client.ts";
import type { CloudAConnection } from "../../../providers/cloud-a-aws/connection.ts";
import { type CloudAFailure, unreadable } from "../../../providers/cloud-a-aws/errors.ts";
import { failure } from "../../../providers/outcome.ts";

/*
 * Encryption keys and replicas of secrets in AWS Secrets Manager. Replicas follow the primary's value by themselves, so
 * only the set of regions is compared, with DescribeSecret. The reference of an object names the regions after the
 * version's id, so that replicas of ours are removed when a region is no longer listed, and others stay.
 */

/** A retry after the removal of replicas, which takes the provider a moment. */
const REMOVAL_RETRY_MS = 10_000;

export function readReference(reference: string): { readonly version: string; readonly regions: readonly string[] } {
  const [version = "", ...regions] = reference.split(" ");
  return { version, regions };
}

/** A client whose writes of values set the connection's encryption key, and whose creations its replicas. */
export function withStorage(
  client: CloudAClient,
  { kms_key_id: KmsKeyId, replica_regions: regions = {} }: CloudAConnection,
): CloudAClient {
  const key = KmsKeyId === undefined ? {} : { KmsKeyId };
  const replicas = Object.keys(regions).length === 0 ? {} : { AddReplicaRegions: listOf(regions) };
  const more: Readonly<Record<string, object>> = { CreateSecret: { ...key, ...replicas }, UpdateSecret: key };
  return { ...client, call: (operation, body) => client.call(operation, { ...body, ...more[operation] }) };
}

const listOf = (regions: Readonly<Record<string, string>>) =>
  Object.entries(regions).map(([Region, key]) => ({ Region, ...(key !== "" && { KmsKeyId: key }) }));

const Replicas = memo(() =>
  z.object({
    ReplicationStatus: z
      .array(z.object({ Region: z.string(), KmsKeyId: z.string().nullish(), Status: z.string().nullish() }))
      .nullish()
      .transform((list) => list ?? []),
  }),
);
type Replica = z.infer<ReturnType<typeof Replicas>>["ReplicationStatus"][number];

async function replicasOf(
  client: CloudAClient,
  name: string,
): Promise<{ ok: true; replicas: readonly Replica[] } | CloudAFailure> {
  const answer = await client.call("DescribeSecret", { SecretId: name });
  if (!answer.ok) return answer;
  const parsed = Replicas().safeParse(answer.body);
  return parsed.success ? { ok: true, replicas: parsed.data.ReplicationStatus } : unreadable("DescribeSecret");
}

/**
 * Makes the replicas of a secret those of the connection.
 * @param recorded regions of the last push; those no longer listed lose their replica
 * @returns why this failed; null when it did not
 */
export async function settleReplicas(
  client: CloudAClient,
  name: string,
  { replica_regions: wanted = {} }: CloudAConnection,
  recorded: readonly string[],
): Promise<Failure | null> {
  if (Object.keys(wanted).length === 0 && recorded.length === 0) return null;
  const seen = await replicasOf(client, name);
  if (!seen.ok) return seen.outcome;
  const isRight = ({ Region, KmsKeyId, Status }: Replica): boolean => {
    const key = wanted[Region];
    return key !== undefined && Status !== "Failed" && (key === "" || !KmsKeyId || isSameKey(KmsKeyId, key));
  };
  // A replica keeps its key, and a failed one does not recover: both are deleted and created again.
  const stale = seen.replicas.filter(
    (replica) => !isRight(replica) && (replica.Region in wanted || recorded.includes(replica.Region)),
  );
  if (stale.length > 0) {
    const RemoveReplicaRegions = stale.map(({ Region }) => Region);
    const removed = await client.call("RemoveRegionsFromReplication", { SecretId: name, RemoveReplicaRegions });
    if (!removed.ok) return removed.outcome;
  }
  const right = new Set(seen.replicas.filter(isRight).map(({ Region }) => Region));
  const missing = Object.entries(wanted).filter(([region]) => !right.has(region));
  if (missing.length === 0) return null;
  const AddReplicaRegions = listOf(Object.fromEntries(missing));
  const added = await client.call("ReplicateSecretToRegions", { SecretId: name, AddReplicaRegions });
  return added.ok ? null : added.outcome;
}

/** Whether the key that the service reports is the configured one, which may be its id or an alias. */
const isSameKey = (reported: string, key: string): boolean =>
  reported === key || reported.endsWith(`/${key}`) || reported.endsWith(`:${key}`) || key.includes("alias/");

/** Whether a deletion was refused because the secret has replicas. */
export const isReplicated = ({ error }: CloudAFailure): boolean =>
  error?.type === "InvalidRequest" && /replica/i.test(error.message);

/** Removes all replicas of a secret that is about to be deleted. @returns why this failed; null when it did not */
export async function removeReplicas(client: CloudAClient, name: string): Promise<Failure | null> {
  const seen = await replicasOf(client, name);
  if (!seen.ok) return seen.error?.type === "ResourceNotFound" ? null : seen.outcome;
  if (seen.replicas.length === 0) return null;
  const RemoveReplicaRegions = seen.replicas.map(({ Region }) => Region);
  const removed = await client.call("RemoveRegionsFromReplication", { SecretId: name, RemoveReplicaRegions });
  return removed.ok ? null : removed.outcome;
}

export const stillReplicated = (name: string): Failure =>
  failure("external", "name_held", `The replicas of ${name} are still being removed.`, REMOVAL_RETRY_MS);
