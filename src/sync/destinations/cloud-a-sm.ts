import { createHash } from "node:crypto";
import * as z from "zod";
import { type CloudAConnection, type CloudAFailure, regionPattern, secretsManager } from "../../providers/cloud-a.ts";
import { failure, type Outcome } from "../../providers/outcome.ts";
import type { ExternalObject, RemoteDestinationType } from "./destination-type.ts";

/** SecretString is 1 to 65 536 bytes, a name 1 to 512 characters (CreateSecret, API version 2017-10-17). */
const maxValueBytes = 65_536;
const namePattern = /^[A-Za-z0-9/_+=.@-]{1,512}$/;

/** Create, exists, update, gone, create … ends here: somebody else changes the same secret as fast as we do. */
const maxSteps = 6;

/** A forced deletion frees the name only after a moment, during which it can be neither created nor restored. */
const nameHeldRetryMs = 10_000;

const text = (rule: RegExp, message: string) =>
  z
    .union([z.string(), z.number()])
    .transform(String)
    .refine((given) => given === "" || rule.test(given), message)
    .optional();

/** Lengths and character sets of role and external id: STS AssumeRole, API version 2011-06-15. */
const connection = z
  .object({
    access_key_id: text(/^\w{1,128}$/, "must be letters, digits and underscores, at most 128"),
    secret_access_key: text(/^[\x21-\x7e]{1,256}$/, "must be printable characters without spaces, at most 256"),
    region: text(regionPattern, "must look like eu-west-1"),
    role_arn: text(
      /^(?=.{20,2048}$)arn:aws[a-z-]*:iam::\d{12}:role\/[\w+=,.@/-]+$/,
      "must look like arn:aws:iam::123456789012:role/name",
    ),
    external_id: text(/^[\w+=,.@:/-]{2,1224}$/, "must be 2 to 1224 letters, digits or characters of +=,.@:/-_"),
  })
  .superRefine((given, context) => {
    if (!given.access_key_id !== !given.secret_access_key) {
      const missing = given.access_key_id ? "secret_access_key" : "access_key_id";
      context.addIssue({
        code: "custom",
        path: [missing],
        message: "access_key_id and secret_access_key must be given together or not at all",
      });
    }
  })
  .transform((given): CloudAConnection => {
    // An empty string clears a field, and an unset field is absent from what a read answers.
    const set = Object.entries(given).filter(([, value]) => value !== undefined && value !== "");
    return Object.fromEntries(set);
  });

/**
 * AWS Secrets Manager. One external object is one secret; its value is the SecretString.
 *
 * Needs the actions CreateSecret, UpdateSecret, DeleteSecret, TagResource; UntagResource when tags are taken away,
 * RestoreSecret when somebody scheduled a secret of ours for deletion. DescribeSecret is used when it is allowed.
 */
export const cloudASm: RemoteDestinationType<CloudAConnection> = {
  kind: "remote",
  type: "cloud-a-sm",
  connection,
  sensitive: ["access_key_id", "secret_access_key"],
  immutable: ["region"],
  defaults: {
    granularity: "secret-path",
    template: {
      "secret-path": "vault/{{ .MountAccessor }}/{{ .SecretPath }}",
      "secret-key": "vault/{{ .MountAccessor }}/{{ .SecretPath }}/{{ .SecretKey }}",
    },
  },
  naming: { allowed: /^[A-Za-z0-9/_+=.@-]$/, maxLength: 512, replacement: "-" },
  maxValueBytes,
  checkTags,

  checkChange(before, after) {
    const [from, to] = [accountOf(before.role_arn), accountOf(after.role_arn)];
    return from === null || to === null || from === to
      ? null
      : `role_arn must stay in the account ${from}; another account is another destination`;
  },

  async put(object, details, { settings, deadlineMs }) {
    const refused = checkObject(object);
    if (refused !== null) return refused;
    const { call } = secretsManager(details, settings, { deadlineMs });
    const { name, value, tags } = object;
    const content = { SecretString: value };
    const token = versionToken(object);

    let step: "create" | "update" | "restore" = object.knownToExist ? "update" : "create";
    let updateToken = token;
    for (let steps = 0; steps < maxSteps; steps++) {
      if (step === "create") {
        // Never the intent's own token: a repeated create with a known token and equal content is answered OK
        // without writing, even when a later version is the current one. A name that exists must come back as such.
        const parameters = { Name: name, ...content, Tags: tagList(tags), ClientRequestToken: freshToken() };
        const created = await call("CreateSecret", parameters);
        if (created.ok) return { outcome: "ok" };
        if (created.error?.type === "ResourceExists") step = "update";
        else if (isScheduledForDeletion(created)) step = "restore";
        else return created.outcome;
      } else if (step === "update") {
        const updated = await call("UpdateSecret", { SecretId: name, ...content, ClientRequestToken: updateToken });
        if (updated.ok) return settleTags();
        if (updated.error?.type === "ResourceExists") {
          // A version with this token exists, so this content was stored once; that is all it proves. It is done
          // only if that version is the current one: an edit from outside may have come after it.
          const described = await call("DescribeSecret", { SecretId: name });
          if (described.ok && isCurrent(described.body, updateToken)) return settleTags();
          // Not current, or not ours to see: store the content once more, as a version of its own.
          updateToken = freshToken();
        } else if (updated.error?.type === "ResourceNotFound") step = "create";
        else if (isScheduledForDeletion(updated)) step = "restore";
        else return updated.outcome;
      } else {
        const restored = await call("RestoreSecret", { SecretId: name });
        if (!restored.ok) return restoreFailed(restored, name);
        step = "update";
      }
    }
    return failure("external", "contended", `The secret ${name} is being created and deleted by somebody else.`);

    /** Brings the tags of an existing secret in line. Create has set them already. */
    async function settleTags(): Promise<Outcome> {
      if (Object.keys(tags).length > 0) {
        const tagged = await call("TagResource", { SecretId: name, Tags: tagList(tags) });
        if (!tagged.ok) return tagged.outcome;
      }
      const stale = object.previousTagKeys.filter((key) => !Object.hasOwn(tags, key));
      if (stale.length > 0) {
        const untagged = await call("UntagResource", { SecretId: name, TagKeys: stale });
        if (!untagged.ok) return untagged.outcome;
      }
      return { outcome: "ok" };
    }
  },

  async remove({ name }, details, { settings, deadlineMs }) {
    // Forced, because a recovery window of 7 to 30 days would block the name for the next push.
    const { call } = secretsManager(details, settings, { deadlineMs });
    const deleted = await call("DeleteSecret", { SecretId: name, ForceDeleteWithoutRecovery: true });
    if (deleted.ok || deleted.error?.type === "ResourceNotFound") return { outcome: "ok" };
    return deleted.outcome;
  },
};

function checkObject({ name, value }: ExternalObject): Outcome | null {
  if (!namePattern.test(name)) {
    return failure("client", "name_invalid", "The secret's name must be 1 to 512 letters, digits or /_+=.@-");
  }
  const bytes = new TextEncoder().encode(value).byteLength;
  if (bytes === 0)
    return failure("client", "value_empty", `The value of ${name} is empty, which the provider refuses.`);
  if (bytes > maxValueBytes) {
    const message = `The value of ${name} is ${bytes} bytes; the provider takes at most ${maxValueBytes}.`;
    return failure("client", "value_too_large", message);
  }
  return null;
}

/**
 * The version id of this intent with this value: 64 hex digits (a token is 32 to 64 characters). The value is part
 * of it, so that equal tokens mean equal content whatever the caller does.
 */
function versionToken({ idempotencyToken, name, value }: ExternalObject): string {
  return createHash("sha256")
    .update(JSON.stringify([idempotencyToken, name, value]))
    .digest("hex");
}

const freshToken = () => (crypto.randomUUID() + crypto.randomUUID()).replaceAll("-", "");

const tagList = (tags: Record<string, string>) => Object.entries(tags).map(([Key, Value]) => ({ Key, Value }));

/** The same error type is used for other states too, so the text decides. */
function isScheduledForDeletion({ error }: CloudAFailure): boolean {
  return (
    error?.type === "InvalidRequest" && /scheduled for deletion|marked (for deletion|deleted)/i.test(error.message)
  );
}

/** `VersionIdsToStages` maps a version id to its staging labels. */
function isCurrent(described: Record<string, unknown>, version: string): boolean {
  const parsed = z.object({ VersionIdsToStages: z.record(z.string(), z.array(z.string())) }).safeParse(described);
  return parsed.success && parsed.data.VersionIdsToStages[version]?.includes("AWSCURRENT") === true;
}

function restoreFailed(restored: CloudAFailure, name: string): Outcome {
  const type = restored.error?.type;
  if (type !== "ResourceNotFound" && type !== "InvalidRequest") return restored.outcome;
  return failure("external", "name_held", `The name ${name} is not free again yet after a deletion.`, nameHeldRetryMs);
}

const accountOf = (roleArn: string | undefined) => roleArn?.split(":")[4] ?? null;

/** Tag limits and characters: the provider's "Tagging your resources" rules, the same for all its services. */
function checkTags(tags: Record<string, string>): string | null {
  const entries = Object.entries(tags);
  if (entries.length > 50) return `custom_tags: ${entries.length} tags with the built-in one; at most 50 are possible`;
  for (const [key, value] of entries) {
    const shown = JSON.stringify(key.slice(0, 128));
    if (key === "" || [...key].length > 128) return `custom_tags: the key ${shown} must be 1 to 128 characters`;
    if ([...value].length > 256) return `custom_tags: the value of ${shown} must be at most 256 characters`;
    if (/^aws:/i.test(key)) return `custom_tags: the key ${shown} must not begin with aws:`;
    if (!tagText.test(key) || !tagText.test(value)) {
      return `custom_tags: ${shown} and its value may hold letters, digits, spaces and _.:/=+-@ only`;
    }
  }
  return null;
}

const tagText = /^[\p{L}\p{Z}\p{N}_.:/=+\-@]*$/u;
