import * as z from "zod";
import type { Failure } from "../../../contracts/failure.ts";
import { memo } from "../../../lib/memo.ts";
import { clouds } from "../../../providers/cloud-b-azure/login.ts";
import { failure } from "../../../providers/outcome.ts";
import { type ExternalObject, MARKER_TAG, type Put, remoteType } from "../destination-type.ts";
import { connectionSchema, optionalText } from "../fields.ts";
import { identityTokenFields } from "../identity-fields.ts";
import { checkObject } from "../object-rules.ts";
import {
  type CloudBConnection,
  cloudOf,
  type KeyVault,
  keyVault,
  refuseVaultHost,
  unreadable,
  type VaultFailure,
} from "./client.ts";
import { description } from "./description.ts";

/** A secret is at most 25 KB ("About Azure Key Vault secrets"), a name 1 to 127 characters (SetSecret, secret-name). */
const maxValueBytes = 25_600;
const SECRET_RULE = {
  noun: "secret",
  name: /^[0-9A-Za-z-]{1,127}$/,
  rule: "be 1 to 127 letters, digits or hyphens",
  maxBytes: maxValueBytes,
};

/** The largest page of GetSecrets and GetSecretVersions. */
const PAGE = 25;

/** Waits of `put` for a deletion or a recovery, milliseconds. Usually seconds suffice, at most a minute. */
const waitsMs = [200, 300, 500, 1000, 2000, 2000];

/** The retry delay after these waits. */
const nameHeldRetryMs = 10_000;

/** 500 versions in pages of the largest size. A secret with more cannot be backed up either ("Azure Key Vault backup"). */
const maxPages = 20;

const required = (rule: RegExp, message: string) =>
  z
    .union([z.string(), z.number()], "must be a text")
    .optional()
    .transform((given) => String(given ?? "").trim())
    .refine((given) => given !== "", "is required")
    .refine((given) => given === "" || rule.test(given), message);

const connection: () => z.ZodType<CloudBConnection> = connectionSchema(
  () => ({
    key_vault_uri: required(/^/, "").transform((given, context) => {
      const url = URL.parse(given);
      const problem =
        given === ""
          ? null
          : url === null || !/^https?:$/.test(url.protocol)
            ? "must be a URL such as https://my-vault.vault.azure.net"
            : url.username || url.password
              ? "must not hold credentials"
              : url.pathname !== "/" || /[?#]/.test(given)
                ? "must be the address of the vault alone, without a path, query or fragment"
                : null;
      if (problem !== null) context.addIssue({ code: "custom", message: problem });
      return given;
    }),
    // Both are sent in a token request; the tenant is a segment of its path.
    tenant_id: required(
      /^[\dA-Za-z](?:[\dA-Za-z.-]{0,251}[\dA-Za-z])?$/,
      "must be a tenant's id or domain name: letters, digits, dots and hyphens",
    ),
    client_id: required(/^[\x21-\x7e]{1,256}$/, "must be printable characters without spaces, at most 256"),
    client_secret: optionalText(
      /^[\x20-\x7e]{1,1024}$/,
      "must be printable characters, at most 1024",
      "must be a text",
    ),
    ...identityTokenFields,
    cloud: z
      .string("must be a text")
      .optional()
      .transform((given) => given?.trim() || undefined)
      .refine((cloud) => cloudOf({ cloud }) !== null, `must be one of ${clouds.map(({ name }) => name).join(", ")}`),
  }),
  ({ client_secret: secret, identity_token_audience: audience }, refuse) => {
    if (secret && audience) refuse("identity_token_audience", "cannot be set together with client_secret");
    // Upstream would use a managed identity of its machine, which a Worker does not have.
    if (!secret && !audience) refuse("client_secret", "is required");
  },
);

/**
 * Azure Key Vault, with the secret of an app registration or a federated credential of it. One external object is one
 * secret; each push is a new version, and the reference is that version's id.
 *
 * Requires the permissions set and delete, and recover to reuse a deleted name: every deletion is soft, and a removed
 * secret stays recoverable. get shows whether a refused name is a deleted one when the refusal does not say so.
 * `inspect`, `probe` and the update policies other than `replace` require list: they read the list of versions, because
 * reading a secret would return its value. These policies also require get for deleted names, which returns no value.
 *
 * Tags belong to a version, so a push sets the complete set, and foreign tags stay on older versions. A repeated push
 * after a lost answer adds one more version of equal content. There are no conditional writes: a foreign secret created
 * between check and write receives our version on top. Under `if-not-exists` a push interrupted between recovery and
 * write finds its own recovered secret, and leaves it.
 */
export const cloudBKv = remoteType(description, connection, {
  targets: ({ key_vault_uri: vault }) => [vault.toLowerCase()],
  resolve: ({ key_vault_uri: uri, cloud, ...rest }) => ({
    ...rest,
    key_vault_uri: new URL(uri).origin,
    cloud: (cloudOf({ cloud }) ?? clouds[0]).name,
  }),
  defaults: {
    granularity: "secret-path",
    template: {
      "secret-path": 'vault-{{ .MountAccessor | replace "_" "-" }}-{{ .SecretPath }}',
      "secret-key": 'vault-{{ .MountAccessor | replace "_" "-" }}-{{ .SecretPath }}-{{ .SecretKey }}',
    },
  },
  naming: {
    allowed: /^[0-9A-Za-z-]$/,
    maxLength: 127,
    replacement: "-",
    collisionKey: (name) => name.toLowerCase(),
  },
  maxValueBytes,
  // A vault takes 300 new versions in 10 seconds ("Azure Key Vault service limits"), and others may write to it, too.
  pace: { atOnce: 6, burst: 100, perMinute: 1500 },
  /**
   * GetSecrets and GetSecret. Deleted secrets are in no list, and those that a certificate manages are left out: they
   * cannot be written.
   */
  reading: {
    async list(cursor, details, context) {
      const from = cursor === "" ? "" : `&$skiptoken=${encodeURIComponent(cursor)}`;
      const answer = await keyVault(details, context).call("GetSecrets", "GET", `/secrets?maxresults=${PAGE}${from}`);
      if (!answer.ok) return answer.outcome;
      const parsed = Listed().safeParse(answer.body);
      if (!parsed.success) return unreadable("GetSecrets");
      const { value, nextLink } = parsed.data;
      const names = (value ?? []).filter(({ managed }) => managed !== true).map(({ id }) => id.split("/").at(-1) ?? "");
      // Only the position of the link is used: the token is sent to the host of key_vault_uri only.
      const next = nextLink ? (URL.parse(nextLink)?.searchParams.get("$skiptoken") ?? null) : null;
      return nextLink && next === null ? unreadable("GetSecrets") : { outcome: "ok", names, next };
    },
    async read(name, details, context) {
      const answer = await keyVault(details, context).call("GetSecret", "GET", `/secrets/${encodeURIComponent(name)}`);
      if (!answer.ok) {
        if (answer.code === "SecretNotFound") return { outcome: "ok", content: null };
        if (answer.inner !== "SecretDisabled") return answer.outcome;
        return failure("client", "disabled", `The newest version of ${name} is disabled.`);
      }
      const parsed = Content().safeParse(answer.body);
      return parsed.success ? { outcome: "ok", content: { value: parsed.data.value } } : unreadable("GetSecret");
    },
  },
  checkTags,
  checkSettings: refuseVaultHost,

  async put(object, details, context) {
    const refused = checkObject(object, SECRET_RULE);
    if (refused !== null) return refused;
    const vault = keyVault(details, context);
    if (object.updatePolicy !== "replace") {
      const seen = await newestVersions(vault, object.name);
      if (!seen.ok) return seen.outcome;
      if (seen.newest.length > 0) {
        if (object.updatePolicy === "if-not-exists") return leftOrOurs(object, seen);
        if (!isOurs(seen.newest)) return notOwned(object.name);
      }
    }
    return write(vault, object);
  },

  async remove({ name, ownedOnly }, details, context) {
    const vault = keyVault(details, context);
    if (ownedOnly) {
      const seen = await newestVersions(vault, name);
      if (!seen.ok) return seen.outcome;
      if (seen.newest.length === 0 || !isOurs(seen.newest)) return { outcome: "ok" };
    }
    const deleted = await vault.call("DeleteSecret", "DELETE", `/secrets/${name}`);
    if (deleted.ok || deleted.code === "SecretNotFound") return { outcome: "ok" };
    return isHeld(deleted) ? nameHeld(name) : deleted.outcome;
  },

  async inspect({ name, reference }, details, context) {
    const seen = await newestVersions(keyVault(details, context), name);
    if (!seen.ok) return seen.outcome;
    const { newest } = seen;
    if (newest.length === 0) return { outcome: "ok", state: "absent", owned: null };
    return { outcome: "ok", state: stateOf(newest, reference), owned: isOurs(newest) };
  },

  async probe(details, context) {
    // A secret that does not exist has an empty list of versions.
    const path = "/secrets/sallyport-connection-check/versions?maxresults=1";
    const listed = await keyVault(details, context).call("GetSecretVersions", "GET", path);
    if (listed.ok) return { outcome: "ok" };
    const { outcome } = listed;
    // Only a call to the vault itself has this outcome: without a token the outcome is not "unknown".
    if (outcome.outcome !== "unknown" || outcome.code !== "network_error") return outcome;
    const { host } = new URL(details.key_vault_uri);
    return failure("external", "network_error", `No vault can be reached at ${host}; key_vault_uri may be wrong.`);
  },
});

/** The outcome of `if-not-exists` for an existing secret: the creation of a push of unknown outcome is ours. */
function leftOrOurs({ unsureSince }: ExternalObject, { newest, count }: Seen): Put {
  const [only] = newest;
  const isDone = unsureSince !== undefined && count === 1 && isOurs(newest);
  return isDone && only?.version ? { outcome: "ok", reference: only.version } : { outcome: "ok", left: true };
}

const Listed = memo(() =>
  z.object({
    value: z.array(z.object({ id: z.string(), managed: z.boolean().nullish() })).nullish(),
    nextLink: z.string().nullish(),
  }),
);
const Content = memo(() => z.object({ value: z.string() }));
const Bundle = memo(() => z.object({ id: z.string().regex(/\/[\w-]{1,128}$/) }));

/**
 * Writes a new version. A deleted secret of this name is recovered first, because the name is taken until the purge;
 * unless the policy is `replace`, only a secret of ours is recovered. The write itself is retried until the deletion or
 * recovery is complete: a read can succeed while writes are still refused (Azure/azure-sdk-for-net, issue 31581).
 */
async function write(vault: KeyVault, object: ExternalObject): Promise<Put> {
  const { name, value, contentType, tags } = object;
  const body = { value, contentType, tags, attributes: { enabled: true } };
  for (let tries = 0; ; tries++) {
    const set = await vault.call("SetSecret", "PUT", `/secrets/${name}`, body);
    if (set.ok) {
      const version = Bundle().safeParse(set.body).data?.id.split("/").at(-1);
      if (version !== undefined) return { outcome: "ok", reference: version };
      return failure("unknown", "unreadable_answer", "SetSecret was answered, but not with a secret.");
    }
    const isBare = isBareConflict(set);
    if (!isHeld(set) && !isBare) return set.outcome;
    if (isBare || set.inner === "ObjectIsDeletedButRecoverable") {
      const stopped = await recover(vault, object, isBare);
      if (stopped !== null) return stopped;
    }
    const waitMs = waitsMs[tries];
    if (waitMs === undefined) return isBare ? set.outcome : nameHeld(name);
    await new Promise((resolve) => setTimeout(resolve, waitMs));
  }
}

/**
 * Recovers a deleted secret. Null when the write may be retried.
 * @param mayBeThere the refusal did not name a deleted secret, so a lookup comes first
 */
async function recover(
  vault: KeyVault,
  { name, updatePolicy }: ExternalObject,
  mayBeThere: boolean,
): Promise<Failure | null> {
  const path = `/deletedsecrets/${name}`;
  const isFree = updatePolicy === "replace";
  if (!isFree || mayBeThere) {
    const deleted = await vault.call("GetDeletedSecret", "GET", path);
    if (!deleted.ok && deleted.code === "SecretNotFound") return null;
    // Without permission for the lookup, the recovery itself reports a missing deleted secret.
    const mayTry = isFree && !deleted.ok && deleted.outcome.code === "permission_denied";
    if (!deleted.ok && !mayTry) return deleted.outcome;
    const tags = deleted.ok ? Tagged().safeParse(deleted.body).data?.tags : null;
    if (!isFree && !Object.hasOwn(tags ?? {}, MARKER_TAG)) return notOwned(name);
  }
  const recovered = await vault.call("RecoverDeletedSecret", "POST", `${path}/recover`);
  // Not found: the secret was purged, or another caller recovered it.
  const passes = recovered.ok || recovered.code === "SecretNotFound" || isHeld(recovered) || isBareConflict(recovered);
  return passes ? null : recovered.outcome;
}

const Tagged = memo(() => z.object({ tags: z.record(z.string(), z.string()).nullish() }));

const Page = memo(() =>
  z.object({
    value: z
      .array(
        z
          .object({
            id: z.string(),
            attributes: z.object({ enabled: z.boolean().default(true), created: z.number() }),
            tags: z.record(z.string(), z.string()).nullish(),
          })
          .transform(({ id, attributes, tags }) => ({
            ...attributes,
            version: id.split("/").at(-1),
            tags: tags ?? {},
          })),
      )
      .nullish()
      .transform((list) => list ?? []),
    nextLink: z.string().nullish(),
  }),
);
type Version = z.infer<ReturnType<typeof Page>>["value"][number];

/** The newest versions of a secret, and how many it has. */
interface Seen {
  readonly newest: readonly Version[];
  readonly count: number;
}

/**
 * The newest version of a secret with its tags, without its value; empty when the secret does not exist. Times are whole
 * seconds, so several versions may be newest. The list is ordered by version id, so all pages are read.
 */
async function newestVersions(
  vault: KeyVault,
  name: string,
): Promise<({ ok: true } & Seen) | { ok: false; outcome: Failure }> {
  const path = `/secrets/${name}/versions`;
  let query = `?maxresults=${PAGE}`;
  let newest: Version[] = [];
  let count = 0;
  for (let page = 0; page < maxPages; page++) {
    const listed = await vault.call("GetSecretVersions", "GET", path + query);
    if (!listed.ok) return listed.code === "SecretNotFound" ? { ok: true, newest: [], count } : listed;
    const parsed = Page().safeParse(listed.body);
    if (!parsed.success) {
      const message = "GetSecretVersions was answered, but not with a list of versions.";
      return { ok: false, outcome: failure("external", "unreadable_answer", message) };
    }
    const { value, nextLink } = parsed.data;
    const latest = Math.max(...[...newest, ...value].map(({ created }) => created));
    newest = [...newest, ...value].filter(({ created }) => created === latest);
    count += value.length;
    // Only the query of the link is used: the token is sent to the host of key_vault_uri only.
    const next = nextLink ? URL.parse(nextLink)?.search : null;
    if (!next) return { ok: true, newest, count };
    query = next;
  }
  const message = `The secret ${name} has more than ${maxPages * PAGE} versions, too many to find the newest.`;
  return { ok: false, outcome: failure("client", "too_many_versions", message) };
}

/**
 * The state of our last push among the versions of the newest second. Their order is unknown: a foreign one beside ours
 * counts as a change, and another one of ours leaves no evidence.
 */
function stateOf(newest: readonly Version[], reference: string | null): "present" | "unchanged" | "changed" {
  if (reference === null) return "present";
  if (!newest.some(({ version, enabled }) => version === reference && enabled)) return "changed";
  const others = newest.filter(({ version }) => version !== reference);
  if (others.length === 0) return "unchanged";
  return isOurs(others) ? "present" : "changed";
}

const isOurs = (newest: readonly Version[]): boolean => newest.every(({ tags }) => Object.hasOwn(tags, MARKER_TAG));

const isHeld = ({ outcome }: VaultFailure): boolean => outcome.code === "name_held";

/** A conflict without a reason: a deleted secret holds the name, or another writer changes the secret. */
const isBareConflict = ({ status, inner }: VaultFailure): boolean => status === 409 && inner === "";

const nameHeld = (name: string): Failure =>
  failure("external", "name_held", `The name ${name} is not free yet after a deletion or a recovery.`, nameHeldRetryMs);

const notOwned = (name: string): Failure =>
  failure(
    "client",
    "not_owned",
    `The secret ${name}, or a deleted one of that name, does not carry the tag ${MARKER_TAG}.`,
  );

/** Up to 15 tags of 256 characters each ("About Azure Key Vault secrets", Secret tags). */
export function checkTags(tags: Record<string, string>): string | null {
  const entries = Object.entries(tags);
  if (entries.length > 15) return `custom_tags: ${entries.length} tags with the built-in one; at most 15 are possible`;
  for (const [key, value] of entries) {
    const shown = JSON.stringify(key.slice(0, 256));
    if (key === "" || key.length > 256) return `custom_tags: the key ${shown} must be 1 to 256 characters`;
    // The provider would take them; upstream refuses them.
    if (/\s/.test(key)) return `custom_tags: the key ${shown} must not hold white space`;
    if (value.length > 256) return `custom_tags: the value of ${shown} must be at most 256 characters`;
  }
  return null;
}
