import type { Failure } from "../../../contracts/failure.ts";
import { type CloudCConnection, projectOf, refuseTokenUri } from "../../../providers/cloud-c-gcp/connection.ts";
import type { CloudCFailure } from "../../../providers/cloud-c-gcp/errors.ts";
import { failure } from "../../../providers/outcome.ts";
import { EACH_SECRET } from "../defaults.ts";
import { fromDescription } from "../description.ts";
import { type ExternalObject, MARKER_TAG, type Put, remoteType } from "../destination-type.ts";
import { checkObject, digestOf, notOwned } from "../object-rules.ts";
import { secretManager } from "./client.ts";
import { cloudCConnection } from "./connection.ts";
import { description } from "./description.ts";
import { labelsOf, labelText, maxLabels } from "./labels.ts";
import { cloudCSmReading } from "./reading.ts";
import {
  conflicts,
  intentAnnotation,
  type Owed,
  owedBy,
  readReference,
  referenceTo,
  remoteSecret,
  type Version,
} from "./secret.ts";

/** Secret Manager API v1: CreateSecretRequest.secret_id, and "Quotas and limits" for the payload. */
const maxValueBytes = 65_536;
const SECRET_RULE = {
  noun: "secret",
  name: /^[A-Za-z0-9_-]{1,255}$/,
  rule: "be 1 to 255 letters, digits, hyphens or underscores",
  maxBytes: maxValueBytes,
  notEmpty: true,
};

/** Limit of create and get steps while another writer changes the same secret. */
const maxSteps = 8;

/** The built-in marker as a label. */
const markerLabel = labelText(MARKER_TAG);

const { immutable: fixed } = fromDescription(description);

/**
 * Google Secret Manager, as a service account, by its key or by identity tokens. One external object is one secret. Its
 * value is the newest version; a push destroys the version of the push before.
 *
 * Requires the permissions secrets.create, secrets.delete, versions.add and versions.destroy; secrets.get and
 * secrets.update for custom tags and for secrets that existed before; versions.list after a push of unknown outcome;
 * versions.get for `inspect` and `if-not-exists`.
 *
 * A repeated push after a lost answer adds another version. It then lists the versions between the last known one of ours
 * and its own, and destroys those created since the lost push began. A version added by another writer
 * in that time cannot be told from them and is destroyed, too. A version that could not be listed or destroyed is kept
 * in the reference, as an owed clean-up.
 */
export const cloudCSm = remoteType(description, cloudCConnection, {
  targets: (details) => [projectOf(details)],
  // The replication of a secret never changes. `checkChange` fixes the project, not the field: with a new key the implied
  // project may have to be named.
  immutable: fixed.filter((field) => field !== "project_id"),
  defaults: EACH_SECRET,
  naming: { allowed: /^[A-Za-z0-9_-]$/, maxLength: 255, replacement: "-" },
  maxValueBytes,
  // A project has 600 write requests per minute ("Quotas and limits"), and a push takes two: create a secret or destroy a
  // version, and add one. A minute with the burst stays within them.
  pace: { atOnce: 4, burst: 10, perMinute: 290 },
  reading: cloudCSmReading,

  checkTags(tags) {
    const spelled = labelsOf(tags);
    return spelled.ok ? null : spelled.message;
  },

  checkChange(before, after) {
    const [from, to] = [projectOf(before), projectOf(after)];
    return from === to
      ? null
      : `field "project_id" cannot be updated: the project must stay ${from}, and the key or the field now says ${to}`;
  },

  checkSettings: ({ credentials }, settings) => refuseTokenUri(credentials, settings),

  async put(object, details, context) {
    const refused = checkObject(object, SECRET_RULE);
    if (refused !== null) return refused;
    const spelled = labelsOf(object.tags);
    if (!spelled.ok) return failure("client", "tags_invalid", `${spelled.message}.`);
    const { labels } = spelled;
    const { name, updatePolicy } = object;
    const secret = remoteSecret(name, details, context);
    // Hashed again, because an annotation is visible to every reader of the secret.
    const intent = digestOf(object.idempotencyToken, name);

    let step = firstStep(object);
    let created = false;
    let refusedEtag: string | null = null;
    for (let steps = 0; steps < maxSteps; steps++) {
      if (step === "create") {
        const answer = await secret.create(labels, intent);
        if (answer.ok) [created, step] = [true, "write"];
        else if (answer.status === "ALREADY_EXISTS") step = "get";
        else return inProject(answer, details);
      } else if (step === "get") {
        const found = await secret.get();
        if (!found.ok) {
          if (found.status !== "NOT_FOUND") return found.outcome;
          step = "create";
          continue;
        }
        if (updatePolicy === "owned-only" && !isOurs(found))
          return notOwned(`secret ${name}`, `the label ${markerLabel}`);
        if (updatePolicy === "if-not-exists") {
          const newest = await secret.newest();
          if (newest.ok) {
            // Created by this intent and written once: a push of ours whose answer was lost.
            const ours = found.annotations[intentAnnotation] === intent && newest.version.number === "1";
            return ours ? { outcome: "ok", reference: referenceTo([newest.version]) } : { outcome: "ok", left: true };
          }
          if (newest.status !== "NOT_FOUND") return newest.outcome;
          // A secret without a version is left by an interrupted push of ours, if it carries our marker.
          if (!isOurs(found)) return { outcome: "ok", left: true };
        }
        const wanted = labelsWith(found.labels, labels, object.previousTagKeys);
        if (Object.keys(wanted).length > maxLabels) {
          const message = `The secret ${name} would have ${Object.keys(wanted).length} labels with those of others; at most ${maxLabels} are possible.`;
          return failure("client", "tags_invalid", message);
        }
        step = "write";
        if (same(wanted, found.labels)) continue;
        const relabelled = await secret.relabel(wanted, found.etag);
        if (relabelled.ok) continue;
        if (relabelled.status === "NOT_FOUND") step = "create";
        else if (conflicts.includes(relabelled.status) && refusedEtag !== found.etag) {
          // A concurrent change is possible: the secret is read again; an unchanged etag makes the refusal final.
          [refusedEtag, step] = [found.etag, "get"];
        } else return relabelled.outcome;
      } else {
        const added = await secret.add(object.value);
        if (added.ok) {
          const { version } = added;
          // The versions in the reference belong to a secret that was deleted.
          if (created) return { outcome: "ok", reference: referenceTo([version]) };
          const known = readReference(object.reference);
          return destroyOld(secret, version, known.versions, owedBy(known, object.unsureSince ?? null, version));
        }
        if (added.status !== "NOT_FOUND") return added.outcome;
        [created, step] = [false, "create"];
      }
    }
    return failure("external", "contended", `The secret ${name} is being created and deleted by another caller.`);
  },

  async cleanUp({ name, reference }, details, context) {
    const { versions, owed } = readReference(reference);
    const [newest] = versions;
    return newest ? destroyOld(remoteSecret(name, details, context), newest, versions, owed) : { outcome: "ok" };
  },

  async remove({ name, ownedOnly }, details, context) {
    const secret = remoteSecret(name, details, context);
    let etag: string | null = null;
    for (let steps = 0; steps < maxSteps; steps++) {
      if (ownedOnly) {
        const found = await secret.get();
        if (!found.ok) return found.status === "NOT_FOUND" ? { outcome: "ok" } : found.outcome;
        if (!isOurs(found)) return { outcome: "ok" };
        if (found.etag === etag) break;
        etag = found.etag;
      }
      const deleted = await secret.delete(etag);
      if (deleted.ok || deleted.status === "NOT_FOUND") return { outcome: "ok" };
      if (!ownedOnly || !conflicts.includes(deleted.status)) return deleted.outcome;
    }
    return failure("external", "contended", `The secret ${name} is being changed by another caller.`);
  },

  async inspect({ name, reference, tags = {} }, details, context) {
    const secret = remoteSecret(name, details, context);
    const found = await secret.get();
    if (!found.ok)
      return found.status === "NOT_FOUND" ? { outcome: "ok", state: "absent", owned: null } : found.outcome;
    const owned = isOurs(found);
    const newest = await secret.newest();
    if (!newest.ok && newest.status !== "NOT_FOUND") return newest.outcome;
    const [ours] = readReference(reference).versions;
    if (ours === undefined) return { outcome: "ok", state: "present", owned };
    // The etag differs when the version was disabled, or when the secret was deleted and created again.
    const unchanged = newest.ok && newest.version.number === ours.number && newest.version.etag === ours.etag;
    const spelled = labelsOf(tags);
    const labelled = spelled.ok && Object.entries(spelled.labels).every(([key, value]) => found.labels[key] === value);
    return { outcome: "ok", state: unchanged && labelled ? "unchanged" : "changed", owned };
  },

  async probe(details, context) {
    const { call } = secretManager(details, context);
    const listed = await call("ListSecrets", "GET", "secrets?pageSize=1");
    if (listed.ok) return { outcome: "ok" };
    if (listed.outcome.code !== "permission_denied") return inProject(listed, details);
    // A role limited to pushes may lack list, so a read of one secret is tried as well.
    const probed = await call("GetSecret", "GET", "secrets/sallyport-probe");
    if (probed.ok || probed.status === "NOT_FOUND") return { outcome: "ok" };
    if (probed.outcome.code !== "permission_denied") return probed.outcome;
    const message = `The service account may neither list nor get secrets in the project ${projectOf(details)}, or there is no such project; the role Secret Manager Admin has all permissions that are needed.`;
    return failure("client", "permission_denied", message);
  },
});

/**
 * Destroys the versions before `newest`: those of the reference, and those of lost pushes. Those that are left stay in
 * the reference.
 */
async function destroyOld(
  secret: ReturnType<typeof remoteSecret>,
  newest: Version,
  known: readonly Version[],
  owed: Owed | null,
): Promise<Put> {
  const lost = owed === null ? [] : await secret.lost(owed, newest);
  const found = "outcome" in lost ? [] : lost;
  const old = [...known, ...found].filter(({ number }) => number !== newest.number);
  const { left, failure } = await secret.destroy(old);
  const because = "outcome" in lost ? lost : failure;
  const reference = referenceTo([newest, ...left], "outcome" in lost ? owed : null);
  if (because === null) return { outcome: "ok", reference };
  const message = `A version of an earlier push is still readable: ${because.message}`;
  return { outcome: "ok", reference, owed: { ...because, message } };
}

type Step = "create" | "get" | "write";

/**
 * The first step of a push. Labels can only be replaced all at once, so they are read first unless the last push wrote
 * the same.
 */
function firstStep({ updatePolicy, knownToExist, tagsWritten }: ExternalObject): Step {
  if (updatePolicy === "if-not-exists") return "create";
  if (updatePolicy === "owned-only") return "get";
  if (!knownToExist) return "create";
  return tagsWritten ? "write" : "get";
}

const isOurs = ({ labels }: { labels: Record<string, string> }) => Object.hasOwn(labels, markerLabel);

/** The failure of a request whose path names no secret: "not found" refers to the project. */
function inProject({ status, outcome }: CloudCFailure, details: CloudCConnection): Failure {
  if (status !== "NOT_FOUND") return outcome;
  return failure("client", "project_not_found", `There is no project ${projectOf(details)}.`);
}

/** The desired labels of a secret: foreign labels unchanged, and ours in place of our previous ones. */
function labelsWith(
  present: Record<string, string>,
  wanted: Record<string, string>,
  previousTagKeys: readonly string[],
): Record<string, string> {
  const before = new Set(previousTagKeys.map(labelText));
  return { ...Object.fromEntries(Object.entries(present).filter(([key]) => !before.has(key))), ...wanted };
}

const same = (one: Record<string, string>, other: Record<string, string>) =>
  Object.keys(one).length === Object.keys(other).length &&
  Object.entries(one).every(([key, value]) => other[key] === value);
