import * as z from "zod";
import type { Failure } from "../../../contracts/failure.ts";
import { memo } from "../../../lib/memo.ts";
import { type CloudAAnswer, type CloudAClient, cloudAClient } from "../../../providers/cloud-a-aws/client.ts";
import { accountTargets, refuseOtherAccount, refuseUnresolved } from "../../../providers/cloud-a-aws/connection.ts";
import { type CloudAFailure, unreadable } from "../../../providers/cloud-a-aws/errors.ts";
import { checkTags, tagList } from "../../../providers/cloud-a-aws/tags.ts";
import { failure } from "../../../providers/outcome.ts";
import { type CallContext, type ExternalObject, MARKER_TAG, type Put, remoteType } from "../destination-type.ts";
import { checkObject, notOwned } from "../object-rules.ts";
import { type ParameterConnection, parameterConnection } from "./connection.ts";
import { description } from "./description.ts";

/** Bytes of a value in the advanced tier, and in the standard one (PutParameter, Value). */
const maxValueBytes = 8 * 1024;
const maxStandardBytes = 4 * 1024;

/** The full ARN may have 1011 characters; the part before the name has about 60. */
const maxNameLength = 900;
const maxLevels = 15;
const namePattern = /^(?:[\w.-]+|(?:\/[\w.-]+)+)$/;

/** Limit of steps while another writer creates and deletes the same parameter. */
const maxSteps = 4;

/**
 * SSM Parameter Store of AWS. One external object is one SecureString parameter; its reference is the parameter's
 * version. Tags are set with the creation; an overwriting put takes none, so tags of an existing parameter are separate
 * calls. After a deletion the name should rest for 30 seconds before it is created again (DeleteParameter).
 */
export const cloudAPs = remoteType(description, parameterConnection, {
  targets: accountTargets,
  defaults: {
    granularity: "secret-path",
    template: {
      "secret-path": "/vault/{{ .MountAccessor }}/{{ .SecretPath }}",
      "secret-key": "/vault/{{ .MountAccessor }}/{{ .SecretPath }}/{{ .SecretKey }}",
    },
  },
  naming: {
    allowed: /^[A-Za-z0-9_./-]$/,
    maxLength: maxNameLength,
    replacement: "-",
    // A name of several levels begins with a slash, and no level is empty.
    adapt: (name) => (name.includes("/") ? `/${name.split("/").filter(Boolean).join("/")}` : name),
    refuse: refuseName,
  },
  maxValueBytes,
  // The default throughput of an account and region is low and shared with all readers of parameters.
  pace: { atOnce: 2, burst: 10, perMinute: 120 },
  checkTags,
  reading: {
    async list(cursor, details, context) {
      const page = { MaxResults: 50, ...(cursor && { NextToken: cursor }) };
      const answer = await parameterStore(details, context).call("DescribeParameters", page);
      if (!answer.ok) return answer.outcome;
      const parsed = schemas().page.safeParse(answer.body);
      if (!parsed.success) return unreadable("DescribeParameters").outcome;
      const { Parameters, NextToken } = parsed.data;
      return { outcome: "ok", names: Parameters.map(({ Name }) => Name), next: NextToken || null };
    },
    async read(name, details, context) {
      const answer = await parameterStore(details, context).call("GetParameter", { Name: name, WithDecryption: true });
      if (!answer.ok) return isAbsent(answer) ? { outcome: "ok", content: null } : answer.outcome;
      const parsed = schemas().value.safeParse(answer.body);
      if (!parsed.success) return unreadable("GetParameter").outcome;
      return { outcome: "ok", content: { value: parsed.data.Parameter.Value } };
    },
  },
  checkChange: refuseOtherAccount,
  checkSettings: refuseUnresolved,

  async put(object, details, context) {
    const refused = checkObject(object, {
      noun: "parameter",
      name: { test: isName },
      rule: `be 1 to ${maxNameLength} letters, digits or _.-/, at most ${maxLevels} levels, not beginning with aws or ssm`,
      maxBytes: details.tier === "Standard" ? maxStandardBytes : maxValueBytes,
      notEmpty: true,
    });
    if (refused !== null) return refused;
    const client = parameterStore(details, context);
    const { name, value, tags, updatePolicy: policy } = object;
    const written = {
      Name: name,
      Value: value,
      Type: "SecureString",
      ...(details.kms_key_id !== undefined && { KeyId: details.kms_key_id }),
      ...(details.tier !== undefined && { Tier: details.tier }),
    };
    let exists = object.knownToExist && policy !== "if-not-exists";
    for (let step = 0; step < maxSteps; step++) {
      if (!exists) {
        const created = await client.call("PutParameter", { ...written, Overwrite: false, Tags: tagList(tags) });
        if (created.ok) return stored(created);
        if (created.error?.type !== "ParameterAlreadyExists") return created.outcome;
        if (policy === "if-not-exists") return leftOrOurs(client, object);
        exists = true;
      }
      const marked = policy === "owned-only" ? await tagsOf(client, name) : null;
      if (marked !== null && !marked.ok) return marked.outcome;
      if (marked?.tags === null) {
        exists = false;
        continue;
      }
      if (marked?.tags.has(MARKER_TAG) === false) return notOwned(`parameter ${name}`);
      const changed = await client.call("PutParameter", { ...written, Overwrite: true });
      if (!changed.ok) return changed.outcome;
      const put = stored(changed);
      if (put.outcome !== "ok") return put;
      // The first version is a new parameter: the old one was deleted with its tags.
      return (await settleTags(client, object, put.reference === "1")) ?? put;
    }
    return failure("external", "contended", `The parameter ${name} is being created and deleted by another caller.`);
  },

  async remove({ name, ownedOnly }, details, context) {
    const client = parameterStore(details, context);
    if (ownedOnly) {
      const marked = await tagsOf(client, name);
      if (!marked.ok) return marked.outcome;
      if (!marked.tags?.has(MARKER_TAG)) return { outcome: "ok" };
    }
    const deleted = await client.call("DeleteParameter", { Name: name });
    return deleted.ok || isAbsent(deleted) ? { outcome: "ok" } : deleted.outcome;
  },

  async inspect({ name, reference, tags = {} }, details, context) {
    const client = parameterStore(details, context);
    const read = await readVersion(client, name);
    if (!read.ok) return read.outcome;
    const marked = read.version === null ? null : await tagsOf(client, name);
    if (marked !== null && !marked.ok) return marked.outcome;
    const present = marked?.tags;
    if (!present) return { outcome: "ok", state: "absent", owned: null };
    const tagged = Object.entries(tags).every(([key, value]) => present.get(key) === value);
    const unchanged = read.version === reference && tagged;
    const state = reference === null ? "present" : unchanged ? "unchanged" : "changed";
    return { outcome: "ok", state, owned: present.has(MARKER_TAG) };
  },

  /**
   * Identifies keys and role with STS, then reads `sample` without its value. A role limited to pushes may be denied
   * that, so the removal of a tag of a parameter that cannot exist follows: "not found" proves the permission.
   */
  async probe(details, context, sample = `/sallyport/probe/${crypto.randomUUID()}`) {
    const client = parameterStore(details, context);
    const identified = await client.identify();
    if (!identified.ok) return identified.outcome;
    const read = await readVersion(client, sample);
    if (read.ok) return { outcome: "ok" };
    if (read.outcome.code !== "permission_denied") return read.outcome;
    const ResourceId = `${sample.slice(0, 850)}-${crypto.randomUUID()}`;
    const parameters = { ResourceType: "Parameter", ResourceId, TagKeys: [MARKER_TAG] };
    const removed = await client.call("RemoveTagsFromResource", parameters);
    return removed.ok || isAbsent(removed) ? { outcome: "ok" } : removed.outcome;
  },
});

const parameterStore = (details: ParameterConnection, context: CallContext): CloudAClient =>
  cloudAClient(details, context, {
    name: "ssm",
    target: "AmazonSSM",
    url: "CLOUD_A_PS_URL",
    reads: new Set(["DescribeParameters", "GetParameter", "ListTagsForResource"]),
  });

const schemas = memo(() => {
  const version = z.number().int().positive();
  return {
    page: z.object({ Parameters: z.array(z.object({ Name: z.string() })), NextToken: z.string().nullish() }),
    value: z.object({ Parameter: z.object({ Value: z.string() }) }),
    written: z.object({ Version: version }),
    parameter: z.object({ Parameter: z.object({ Version: version }) }),
    tags: z.object({ TagList: z.array(z.object({ Key: z.string(), Value: z.string() })).nullish() }),
  };
});

function refuseName(name: string): string | null {
  if (/^\/?(aws|ssm)/i.test(name)) return "The name of a parameter must not begin with aws or ssm.";
  const levels = name.split("/").length - 1;
  return levels > maxLevels ? `The name has ${levels} levels; at most ${maxLevels} are possible.` : null;
}

const isName = (name: string): boolean =>
  namePattern.test(name) && name.length <= maxNameLength && refuseName(name) === null;

/** Reads the version of a stored value. An answer without one does not come from the service. */
function stored({ body }: Extract<CloudAAnswer, { ok: true }>): Put {
  const written = schemas().written.safeParse(body);
  return written.success
    ? { outcome: "ok", reference: String(written.data.Version) }
    : failure("unknown", "unreadable_answer", "PutParameter was answered without a version.");
}

/** The outcome of `if-not-exists` for an existing parameter: the creation of a push whose answer was lost is ours. */
async function leftOrOurs(client: CloudAClient, { name, unsureSince }: ExternalObject): Promise<Put> {
  if (unsureSince === undefined) return { outcome: "ok", left: true };
  const read = await readVersion(client, name);
  const marked = await tagsOf(client, name);
  const isOurs = read.ok && read.version === "1" && marked.ok && marked.tags?.has(MARKER_TAG);
  return isOurs ? { outcome: "ok", reference: "1" } : { outcome: "ok", left: true };
}

/** Makes the tags of an existing parameter ours: removals first, because their number is limited. */
async function settleTags(
  client: CloudAClient,
  { name, tags, previousTagKeys, tagsWritten }: ExternalObject,
  isNew: boolean,
): Promise<Failure | null> {
  if (tagsWritten && !isNew) return null;
  const resource = { ResourceType: "Parameter", ResourceId: name };
  const stale = isNew ? [] : previousTagKeys.filter((key) => !Object.hasOwn(tags, key));
  if (stale.length > 0) {
    const removed = await client.call("RemoveTagsFromResource", { ...resource, TagKeys: stale });
    if (!removed.ok) return removed.outcome;
  }
  if (Object.keys(tags).length === 0) return null;
  const added = await client.call("AddTagsToResource", { ...resource, Tags: tagList(tags) });
  return added.ok ? null : added.outcome;
}

/** The version of a parameter, null when it is absent. The value stays encrypted. */
async function readVersion(
  client: CloudAClient,
  name: string,
): Promise<{ ok: true; version: string | null } | CloudAFailure> {
  const answer = await client.call("GetParameter", { Name: name, WithDecryption: false });
  if (!answer.ok) return isAbsent(answer) ? { ok: true, version: null } : answer;
  const parsed = schemas().parameter.safeParse(answer.body);
  return parsed.success ? { ok: true, version: String(parsed.data.Parameter.Version) } : unreadable("GetParameter");
}

/** The tags of a parameter, null when it is absent. */
async function tagsOf(
  client: CloudAClient,
  name: string,
): Promise<{ ok: true; tags: ReadonlyMap<string, string> | null } | CloudAFailure> {
  const answer = await client.call("ListTagsForResource", { ResourceType: "Parameter", ResourceId: name });
  if (!answer.ok) return isAbsent(answer) ? { ok: true, tags: null } : answer;
  const parsed = schemas().tags.safeParse(answer.body);
  if (!parsed.success) return unreadable("ListTagsForResource");
  return { ok: true, tags: new Map(parsed.data.TagList?.map(({ Key, Value }) => [Key, Value])) };
}

/** Whether the service does not have the parameter: tag operations have a name of their own for that. */
const isAbsent = ({ error }: CloudAFailure): boolean =>
  error?.type === "ParameterNotFound" || error?.type === "InvalidResourceId";
