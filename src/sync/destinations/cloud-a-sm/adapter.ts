import * as z from "zod";
import type { Failure } from "../../../contracts/failure.ts";
import { memo } from "../../../lib/memo.ts";
import { type CloudAClient, cloudAClient } from "../../../providers/cloud-a-aws/client.ts";
import {
  accountTargets,
  type CloudAConnection,
  refuseOtherAccount,
  refuseUnresolved,
} from "../../../providers/cloud-a-aws/connection.ts";
import { type CloudAFailure, unreadable } from "../../../providers/cloud-a-aws/errors.ts";
import { checkTags, tagList } from "../../../providers/cloud-a-aws/tags.ts";
import { failure } from "../../../providers/outcome.ts";
import { EACH_SECRET } from "../defaults.ts";
import { type CallContext, type ExternalObject, MARKER_TAG, type Put, remoteType } from "../destination-type.ts";
import { checkObject, intentOf, notOwned } from "../object-rules.ts";
import { cloudAConnection } from "./connection.ts";
import { description } from "./description.ts";
import {
  isReplicated,
  readReference,
  removeReplicas,
  settleReplicas,
  stillReplicated,
  withStorage,
} from "./replicas.ts";

/** SecretString is 1 to 65 536 bytes, a name 1 to 512 characters (CreateSecret, API version 2017-10-17). */
const maxValueBytes = 65_536;
const SECRET_RULE = {
  noun: "secret",
  name: /^[A-Za-z0-9/_+=.@-]{1,512}$/,
  rule: "have 1 to 512 characters: letters, digits and /_+=.@- only",
  maxBytes: maxValueBytes,
  notEmpty: true,
};

/** Limit of create, describe and update steps while another writer changes the same secret. */
const maxSteps = 8;

/** After a forced deletion the name can be neither created nor restored for a short time. */
const nameHeldRetryMs = 10_000;

/**
 * AWS Secrets Manager. One external object is one secret; its value is the SecretString, its reference a VersionId,
 * followed by the regions of its replicas.
 *
 * Requires the actions CreateSecret, UpdateSecret, DeleteSecret and TagResource; UntagResource when tags are removed;
 * RestoreSecret when a secret of ours was scheduled for deletion. DescribeSecret is required to inspect and for the
 * update policy `owned-only`; elsewhere it is used when it is allowed. Replicas require it, ReplicateSecretToRegions and
 * RemoveRegionsFromReplication.
 *
 * A name may end in a hyphen and six characters although the vendor advises against it: such a name can be taken for
 * another secret's ARN only where partial ARNs are used, and every call here names the secret in full.
 */
export const cloudASm = remoteType(description, cloudAConnection, {
  targets: accountTargets,
  defaults: EACH_SECRET,
  naming: { allowed: /^[A-Za-z0-9/_+=.@-]$/, maxLength: 512, replacement: "-" },
  maxValueBytes,
  // Quotas of a region: 50 per second for each of creating, updating, deleting and tagging.
  pace: { atOnce: 6, burst: 40, perMinute: 3000 },
  checkTags,
  /** ListSecrets and GetSecretValue, without secrets that are scheduled for deletion. */
  reading: {
    async list(cursor, details, context) {
      const given = { MaxResults: 100, ...(cursor && { NextToken: cursor }) };
      const answer = await secretsManager(details, context).call("ListSecrets", given);
      if (!answer.ok) return answer.outcome;
      const parsed = schemas().page.safeParse(answer.body);
      if (!parsed.success) return unreadable("ListSecrets").outcome;
      const { SecretList, NextToken } = parsed.data;
      return { outcome: "ok", names: SecretList.map(({ Name }) => Name), next: NextToken || null };
    },
    async read(name, details, context) {
      const answer = await secretsManager(details, context).call("GetSecretValue", { SecretId: name });
      if (!answer.ok) {
        // A secret without a value, or one that is scheduled for deletion.
        return answer.error?.type === "ResourceNotFound" ? { outcome: "ok", content: null } : answer.outcome;
      }
      const parsed = schemas().value.safeParse(answer.body);
      if (!parsed.success) return unreadable("GetSecretValue").outcome;
      const { SecretString: value } = parsed.data;
      if (value !== undefined) return { outcome: "ok", content: { value } };
      return failure("client", "value_invalid", `The value of ${name} is binary, and not a text.`);
    },
  },
  checkChange: refuseOtherAccount,
  checkSettings: refuseUnresolved,

  async put(object, details, context) {
    const refused = checkObject(object, SECRET_RULE);
    if (refused !== null) return refused;
    const client = withStorage(secretsManager(details, context), details);
    const put = await (object.updatePolicy === "if-not-exists" ? createOnly(object, client) : write(object, client));
    if (put.outcome !== "ok" || put.left) return put;
    const { regions } = readReference(object.reference ?? "");
    const trouble = await settleReplicas(client, object.name, details, regions);
    if (trouble !== null) return trouble;
    const reference = [put.reference ?? "", ...Object.keys(details.replica_regions ?? {})].join(" ");
    return { ...put, reference };
  },

  async remove({ name, reference, ownedOnly }, details, context) {
    const client = secretsManager(details, context);
    if (ownedOnly) {
      const described = await describe(client, name);
      if (!described.ok) return described.outcome;
      if (!described.secret?.owned) return { outcome: "ok" };
    }
    // Forced: a recovery window of 7 to 30 days would block the name for the next push.
    const remove = () => client.call("DeleteSecret", { SecretId: name, ForceDeleteWithoutRecovery: true });
    const { regions } = readReference(reference ?? "");
    let deleted = regions.length === 0 ? await remove() : null;
    if (deleted === null || (!deleted.ok && isReplicated(deleted))) {
      const trouble = await removeReplicas(client, name);
      if (trouble !== null) return trouble;
      deleted = await remove();
      if (!deleted.ok && isReplicated(deleted)) return stillReplicated(name);
    }
    if (deleted.ok || deleted.error?.type === "ResourceNotFound") return { outcome: "ok" };
    if (isDenied(deleted)) {
      // A policy that requires our tag denies calls on secrets without it, absent ones included.
      const described = await describe(client, name);
      if (described.ok && described.secret === null) return { outcome: "ok" };
    }
    return deleted.outcome;
  },

  async inspect({ name, reference, tags = {} }, details, context) {
    const described = await describe(secretsManager(details, context), name);
    if (!described.ok) return described.outcome;
    const { secret } = described;
    if (secret === null || secret.scheduledForDeletion) return { outcome: "ok", state: "absent", owned: null };
    const tagged = Object.entries(tags).every(([key, value]) => secret.tags.get(key) === value);
    const unchanged = reference !== null && secret.current === readReference(reference).version && tagged;
    const state = reference === null ? "present" : unchanged ? "unchanged" : "changed";
    return { outcome: "ok", state, owned: secret.owned };
  },

  /**
   * Identifies keys and role with STS, which no policy denies, then describes `sample`. A role limited to pushes may be
   * denied that, so an update of a secret that cannot exist follows: "not found" proves the permission. When both are
   * denied, the permission is missing or limited to secrets with our tag, which an absent secret lacks.
   */
  async probe(details, context, sample = `sallyport/probe/${crypto.randomUUID()}`) {
    const client = secretsManager(details, context);
    const identified = await client.identify();
    if (!identified.ok) return identified.outcome;
    const described = await describe(client, sample);
    if (described.ok || !isDenied(described)) return described.ok ? { outcome: "ok" } : described.outcome;
    const SecretId = `${sample.slice(0, 470)}-${crypto.randomUUID()}`;
    const changed = await client.call("UpdateSecret", { SecretId, Description: "Sallyport tries its rights" });
    if (changed.ok || changed.error?.type === "ResourceNotFound") return { outcome: "ok" };
    if (!isDenied(changed)) return changed.outcome;
    const message = `The credentials are valid, but may neither describe nor change a secret such as ${sample}: they have no such right, or have it only for secrets that carry the tag ${MARKER_TAG}, which shows once one is there.`;
    return failure("client", "rights_unproven", message);
  },
});

/** A client of AWS Secrets Manager (API version 2017-10-17). */
const secretsManager = (connection: CloudAConnection, context: CallContext): CloudAClient =>
  cloudAClient(connection, context, {
    name: "secretsmanager",
    target: "secretsmanager",
    url: "CLOUD_A_SM_URL",
    reads: new Set(["DescribeSecret", "GetSecretValue", "ListSecrets"]),
  });

/**
 * Update policy `if-not-exists`. Creates with the intent's own token, so that a repeat after a lost answer is
 * recognised: by the provider, which then returns OK without a write, or by the id of the current version.
 */
async function createOnly(object: ExternalObject, client: CloudAClient): Promise<Put> {
  const { name } = object;
  // A token has 32 to 64 characters. The value is part of it, so equal tokens imply equal content.
  const token = intentOf(object);
  const created = await create(object, client, token);
  if (created.ok && !object.knownToExist) return created.put;
  const held = !created.ok && isScheduledForDeletion(created);
  if (!created.ok && !held && created.error?.type !== "ResourceExists") return created.outcome;
  const described = await describe(client, name);
  if (!described.ok && !isDenied(described)) return described.outcome;
  const secret = described.ok ? described.secret : null;
  if (held) {
    if (!secret?.scheduledForDeletion) return nameHeld(name);
    const message = `The secret ${name} is scheduled for deletion; the update policy if-not-exists does not restore it.`;
    return failure("client", "name_held", message);
  }
  if (secret?.current === token) return { outcome: "ok", reference: token };
  // Without DescribeSecret the provider's OK identifies this intent's own version.
  if (created.ok && secret === null) return created.put;
  return described.ok && secret === null ? contended(name) : { outcome: "ok", left: true };
}

/**
 * Update policies `replace` and `owned-only`; the latter describes an existing secret before it changes it.
 *
 *   create --exists--> update (owned-only: describe) --not found--> create
 *   create, update --scheduled for deletion--> restore --> update --> done
 */
async function write(object: ExternalObject, client: CloudAClient): Promise<Put> {
  const { name, value } = object;
  const existing = object.updatePolicy === "owned-only" ? "describe" : "update";
  let step: "create" | "describe" | "update" | "restore" = object.knownToExist ? existing : "create";
  let token = intentOf(object);
  let tagsWritten = object.tagsWritten ?? false;
  let held = false;
  let denied: Failure | null = null;
  for (let steps = 0; steps < maxSteps; steps++) {
    if (step === "create") {
      // Never the intent's own token: a repeated create with a known token and equal content returns OK without a
      // write, even when a later version is current. An existing name must be reported as existing.
      const created = await create(object, client, freshToken());
      if (created.ok) return created.put;
      const exists = created.error?.type === "ResourceExists";
      if (denied !== null && (exists || isDenied(created))) return denied;
      held = isScheduledForDeletion(created);
      if (exists) step = existing;
      else if (held) step = existing === "describe" ? "describe" : "restore";
      else return created.outcome;
    } else if (step === "describe") {
      const described = await describe(client, name);
      if (described.ok) {
        if (described.secret === null && held) return nameHeld(name);
        if (described.secret?.owned === false) return notOwned(`secret ${name}`);
        step = described.secret === null ? "create" : described.secret.scheduledForDeletion ? "restore" : "update";
      } else if (isDenied(described) && denied === null) [denied, step] = [described.outcome, "create"];
      else return described.outcome;
    } else if (step === "update") {
      const parameters = { SecretId: name, SecretString: value, ClientRequestToken: token };
      const updated = await client.call("UpdateSecret", parameters);
      if (updated.ok) return settleTags({ ...object, tagsWritten }, client, stored(updated.body, "UpdateSecret"));
      if (updated.error?.type === "ResourceExists") {
        // A version with this token exists, so this content was stored once. The push is complete only if that version
        // is current: another writer may have changed the secret since.
        const described = await describe(client, name);
        if (described.ok && described.secret?.current === token) {
          return settleTags({ ...object, tagsWritten }, client, { outcome: "ok", reference: token });
        }
        // Not current, or not visible: store the content again as a new version.
        token = freshToken();
      } else if (updated.error?.type === "ResourceNotFound") step = "create";
      else if (isScheduledForDeletion(updated)) step = "restore";
      // A policy that requires our tag denies calls on absent secrets, too: a create shows which case applies.
      else if (isDenied(updated) && denied === null) [denied, step] = [updated.outcome, "create"];
      else return updated.outcome;
    } else {
      const restored = await client.call("RestoreSecret", { SecretId: name });
      if (!restored.ok) return restoreFailed(restored, name);
      // Another writer deleted the secret, and may have created it before.
      [tagsWritten, step] = [false, "update"];
    }
  }
  return contended(name);
}

async function create(
  { name, value, tags }: ExternalObject,
  client: CloudAClient,
  token: string,
): Promise<{ ok: true; put: Put } | CloudAFailure> {
  const parameters = { Name: name, SecretString: value, Tags: tagList(tags), ClientRequestToken: token };
  const created = await client.call("CreateSecret", parameters);
  return created.ok ? { ok: true, put: stored(created.body, "CreateSecret") } : created;
}

/** Reads the version id of a stored value. An answer without an id does not come from the service. */
function stored(body: Record<string, unknown>, operation: string): Put {
  const { VersionId: reference } = body;
  return typeof reference === "string" && reference.length <= 64
    ? { outcome: "ok", reference }
    : failure("unknown", "unreadable_answer", `${operation} was answered without a version id.`);
}

/**
 * Updates the tags of an existing secret unless the last push wrote the same; create has set them already. Removes
 * first, because the limit is 50.
 */
async function settleTags(
  { name, tags, previousTagKeys, tagsWritten }: ExternalObject,
  client: CloudAClient,
  put: Put,
): Promise<Put> {
  if (put.outcome !== "ok" || tagsWritten) return put;
  const stale = previousTagKeys.filter((key) => !Object.hasOwn(tags, key));
  if (stale.length > 0) {
    const untagged = await client.call("UntagResource", { SecretId: name, TagKeys: stale });
    if (!untagged.ok) return untagged.outcome;
  }
  if (Object.keys(tags).length > 0) {
    const tagged = await client.call("TagResource", { SecretId: name, Tags: tagList(tags) });
    if (!tagged.ok) return tagged.outcome;
  }
  return put;
}

/** The result of DescribeSecret. `current`: the id of the version labelled AWSCURRENT, or null. */
interface Described {
  owned: boolean;
  tags: ReadonlyMap<string, string>;
  current: string | null;
  scheduledForDeletion: boolean;
}

const schemas = memo(() => ({
  described: z.object({
    Tags: z.array(z.object({ Key: z.string(), Value: z.string().default("") })).nullish(),
    VersionIdsToStages: z.record(z.string(), z.array(z.string())).nullish(),
    DeletedDate: z.unknown().optional(),
  }),
  page: z.object({ SecretList: z.array(z.object({ Name: z.string() })), NextToken: z.string().nullish() }),
  value: z.object({ SecretString: z.string().optional() }),
}));

/** Describes a secret; `secret` is null when it does not exist. */
async function describe(
  client: CloudAClient,
  name: string,
): Promise<{ ok: true; secret: Described | null } | CloudAFailure> {
  const answer = await client.call("DescribeSecret", { SecretId: name });
  if (!answer.ok) return answer.error?.type === "ResourceNotFound" ? { ok: true, secret: null } : answer;
  const { success, data } = schemas().described.safeParse(answer.body);
  if (!success) return unreadable("DescribeSecret");
  const versions = Object.entries(data.VersionIdsToStages ?? {});
  const tags = new Map(data.Tags?.map(({ Key, Value }) => [Key, Value]));
  return {
    ok: true,
    secret: {
      owned: tags.has(MARKER_TAG),
      tags,
      current: versions.find(([, stages]) => stages.includes("AWSCURRENT"))?.[0] ?? null,
      scheduledForDeletion: data.DeletedDate != null,
    },
  };
}

const freshToken = () => (crypto.randomUUID() + crypto.randomUUID()).replaceAll("-", "");

/** Whether the service denied this operation itself, not the role or a proxy in front of the service. */
const isDenied = ({ error, outcome }: CloudAFailure) => Boolean(error?.type) && outcome.code === "permission_denied";

/** The error type is shared with other states, so the text decides. */
function isScheduledForDeletion({ error }: CloudAFailure): boolean {
  return (
    error?.type === "InvalidRequest" && /scheduled for deletion|marked (for deletion|deleted)/i.test(error.message)
  );
}

function restoreFailed(restored: CloudAFailure, name: string): Failure {
  const type = restored.error?.type;
  return type === "ResourceNotFound" || type === "InvalidRequest" ? nameHeld(name) : restored.outcome;
}

const contended = (name: string) =>
  failure("external", "contended", `The secret ${name} is being created and deleted by another caller.`);

const nameHeld = (name: string) =>
  failure("external", "name_held", `The name ${name} is not free again yet after a deletion.`, nameHeldRetryMs);
