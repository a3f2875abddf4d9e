import type { Failure } from "../../../contracts/failure.ts";
import { clouds } from "../../../providers/cloud-b-azure/login.ts";
import { failure } from "../../../providers/outcome.ts";
import { checkTags, cloudBKv } from "../cloud-b-kv/adapter.ts";
import { cloudOf } from "../cloud-b-kv/client.ts";
import { EACH_KEY } from "../defaults.ts";
import {
  type Done,
  type ExternalObject,
  type Inspection,
  MARKER_TAG,
  type ObsoleteObject,
  type Put,
  remoteType,
  type ToInspect,
} from "../destination-type.ts";
import { checkObject, notOwned } from "../object-rules.ts";
import { type ConfigStore, type Content, configStore, type Item } from "./client.ts";
import { type ConfigConnection, configConnection } from "./connection.ts";
import { description } from "./description.ts";
import { refuseStoreHost } from "./hosts.ts";
import { isReference, readReferred, refuseReferencedVault, type SecretOf, secretOf } from "./reference.ts";

/** A key-value has at most 10 KB with its key, label, content type and tags ("Keys and values"). */
const MAX_ITEM_BYTES = 10_000;
const MAX_NAME = 512;

/** Limit of attempts while other writers change the same key-value. */
const MAX_ROUNDS = 3;

/**
 * Azure App Configuration. One external object is one key-value in the connection's label. With a key vault the value
 * is a secret there, written first, and the key-value refers to it; without one the store keeps the value.
 *
 * Writes are conditional on the version that was read, so no change by another writer is lost, and tags of others stay.
 * A key-value carries our marker as a tag. The reference is its version, then that of the secret.
 */
export const cloudBAc = remoteType(description, configConnection, {
  targets: ({ endpoint, label = "" }) => [JSON.stringify([endpoint, label])],
  resolve: ({ cloud, ...rest }) => ({ ...rest, cloud: (cloudOf({ cloud }) ?? clouds[0]).name }),
  defaults: EACH_KEY,
  naming: { allowed: /^[\w.:/@+~-]$/, maxLength: MAX_NAME, replacement: "-", refuse: refuseName },
  maxValueBytes: cloudBKv.maxValueBytes,
  // A store takes 30 000 calls an hour, and an update is a read and a write.
  pace: { atOnce: 4, burst: 60, perMinute: 200 },
  checkTags,
  checkSettings: (given, settings) => refuseStoreHost(given, settings) ?? refuseReferencedVault(given, settings),

  reading: {
    async list(cursor, given, context) {
      const page = await configStore(given, context).list(cursor);
      return page.ok ? { outcome: "ok", names: page.keys, next: page.after } : page.outcome;
    },
    async read(name, given, context) {
      const found = await configStore(given, context).read(name);
      if (!found.ok) return found.outcome;
      if (found.item === null) return { outcome: "ok", content: null };
      const { value, content_type: type } = found.item;
      if (isReference(type)) return readReferred(value ?? "", given, context);
      return { outcome: "ok", content: { value: value ?? "" } };
    },
  },

  async put(object, given, context) {
    const refused = checkItem(object, given);
    return refused ?? write(configStore(given, context), secretOf(object.name, given, context), object, given);
  },

  async remove(object, given, context) {
    const done = await removeItem(configStore(given, context), object);
    if (done.outcome !== "ok") return done;
    // The reference goes first, so that none is left without its secret.
    return secretOf(object.name, given, context)?.remove(object.ownedOnly) ?? done;
  },

  async inspect(object, given, context) {
    return inspectItem(configStore(given, context), secretOf(object.name, given, context), object);
  },

  /** Lists key-values, and the vault's versions. A missing right to change them shows at the first push. */
  async probe(given, context) {
    const listed = await configStore(given, context).check();
    if (listed.ok) return secretOf("", given, context)?.probe() ?? OK;
    const { outcome } = listed;
    if (outcome.code !== "network_error") return outcome;
    const { host } = new URL(given.endpoint);
    return failure("external", "network_error", `No store can be reached at ${host}; endpoint may be wrong.`);
  },
});

const OK = { outcome: "ok" } as const;

/** Keys are any text but `.`, `..` and those with `%`; keys of feature flags begin with the reserved prefix. */
function refuseName(name: string): string | null {
  if (name === "." || name === "..") return "The name of a key-value must not be . or ...";
  return name.startsWith(".appconfig.") ? "The name of a key-value must not begin with .appconfig." : null;
}

const bytesOf = (...texts: string[]): number =>
  texts.reduce((sum, text) => sum + new TextEncoder().encode(text).byteLength, 0);

function checkItem(object: ExternalObject, { key_vault_uri: vault, label = "" }: ConfigConnection): Failure | null {
  const { name, tags, contentType } = object;
  const overhead = vault === undefined ? bytesOf(name, label, contentType, ...Object.entries(tags).flat()) : 0;
  return checkObject(object, {
    noun: "key-value",
    name: { test: () => /^[\w.:/@+~-]{1,512}$/.test(name) && refuseName(name) === null },
    rule: `be 1 to ${MAX_NAME} letters, digits or characters of _.:/@+~-, not . or .., not beginning with .appconfig`,
    maxBytes: (vault === undefined ? MAX_ITEM_BYTES : cloudBKv.maxValueBytes) - overhead,
  });
}

/** Creates or replaces a key-value by the update policy, after its secret. */
async function write(
  store: ConfigStore,
  secret: SecretOf | null,
  object: ExternalObject,
  given: ConfigConnection,
): Promise<Put> {
  const { name, updatePolicy: policy, tags, previousTagKeys } = object;
  let seen: Item | null = null;
  let content: Content | null = null;
  let version = "";
  for (let round = 0; round < MAX_ROUNDS; round++) {
    // Under `replace` a first push needs no read.
    if (round > 0 || policy !== "replace" || object.knownToExist) {
      const read = await store.read(name);
      if (!read.ok) return read.outcome;
      seen = read.item;
    }
    const kept = seen && keptBy(object, seen, secret);
    if (kept) {
      const mayHaveWritten = content !== null || object.unsureSince !== undefined;
      return mayHaveWritten ? abandon(kept, seen, secret) : kept;
    }
    if (content === null) {
      const written = secret ? await secret.write(object) : null;
      if (written !== null && written.outcome !== "ok") return written;
      version = written?.reference ?? "";
      const value = secret ? secret.valueOf(given.pin_version ? version : null) : object.value;
      content = { value, content_type: secret ? secret.contentType : object.contentType, tags };
    }
    const foreign = Object.entries(seen?.tags ?? {}).filter(([key]) => !previousTagKeys.includes(key));
    const all = { ...content, tags: { ...Object.fromEntries(foreign), ...tags } };
    const answer = await store.write(name, all, seen?.etag ?? null);
    if (answer.ok) return { outcome: "ok", reference: referenceOf(answer.content.etag, version) };
    if (answer.status !== 412) return answer.outcome;
  }
  return failure("external", "contended", `The key-value ${name} is being changed by another caller.`);
}

const isOwned = ({ tags }: Item): boolean => Object.hasOwn(tags, MARKER_TAG);

/** The outcome for an existing key-value that the update policy keeps; null when it may be replaced. */
function keptBy(object: ExternalObject, seen: Item, secret: SecretOf | null): Put | null {
  const { name, value, updatePolicy: policy, unsureSince } = object;
  if (policy === "replace" || (policy === "owned-only" && isOwned(seen))) return null;
  if (policy === "owned-only") return notOwned(`key-value ${name}`);
  // The creation of a push whose answer was lost is ours.
  const isOurs = unsureSince !== undefined && isOwned(seen);
  const isDone = isOurs && (secret ? secret.isReferredBy(seen.value) : seen.value === value);
  return isDone ? { outcome: "ok", reference: referenceOf(seen.etag, "") } : { outcome: "ok", left: true };
}

/**
 * Removes the secret of a push that was overtaken between its secret and its key-value. A failure is `unknown`, so that
 * the next attempt removes it.
 */
async function abandon(kept: Put, seen: Item | null, secret: SecretOf | null): Promise<Put> {
  if (secret === null || secret.isReferredBy(seen?.value ?? null)) return kept;
  const removed = await secret.remove(true);
  return removed.outcome === "ok" ? kept : { ...removed, outcome: "unknown" };
}

async function removeItem(store: ConfigStore, { name, ownedOnly }: ObsoleteObject): Promise<Done> {
  for (let round = 0; round < MAX_ROUNDS; round++) {
    let match: string | null = null;
    if (ownedOnly) {
      const read = await store.read(name);
      if (!read.ok) return read.outcome;
      if (read.item === null || !isOwned(read.item)) return OK;
      match = read.item.etag;
    }
    const deleted = await store.delete(name, match);
    if (deleted.ok) return OK;
    if (deleted.status !== 412) return deleted.outcome;
  }
  return failure("external", "contended", `The key-value ${name} is being changed by another caller.`);
}

async function inspectItem(
  store: ConfigStore,
  secret: SecretOf | null,
  { name, reference }: ToInspect,
): Promise<Inspection> {
  const read = await store.read(name);
  if (!read.ok) return read.outcome;
  const { item } = read;
  if (item === null) return { outcome: "ok", state: "absent", owned: null };
  const shows = (state: "present" | "unchanged" | "changed") => ({
    outcome: "ok" as const,
    state,
    owned: isOwned(item),
  });
  const [etag = "", version = ""] = reference?.split(" ") ?? [];
  if (etag === "") return shows("present");
  if (item.etag !== etag) return shows("changed");
  if (secret === null) return shows("unchanged");
  const found = await secret.inspect(version || null);
  if (found.outcome !== "ok") return found;
  return shows(found.state === "absent" ? "changed" : found.state);
}

const referenceOf = (etag: string, version: string): string => (version ? `${etag} ${version}` : etag);
