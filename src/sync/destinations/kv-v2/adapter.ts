import { isDeepStrictEqual } from "node:util";
import type { Failure } from "../../../contracts/failure.ts";
import { tryParseJson, tryParseObject } from "../../../lib/json.ts";
import { failure } from "../../../providers/outcome.ts";
import { EACH_SECRET } from "../defaults.ts";
import {
  type CallContext,
  doneBy,
  type ExternalObject,
  type Listing,
  MARKER_TAG,
  type Put,
  type ReadObject,
  remoteType,
} from "../destination-type.ts";
import { refuseListedHost } from "../listed-host.ts";
import { CURSOR_REFUSED } from "../listing-cursor.ts";
import { isPath, type KvV2, kvV2, type Metadata, type Refused, type Version } from "./client.ts";
import { type KvV2Connection, kvV2Connection } from "./connection.ts";
import { description } from "./description.ts";

/** The marker in the custom metadata of our secrets: an empty value, as `MARKER_TAG` has, is refused there. */
const MARKER = ["managed_by", "sallyport"] as const;
/** The cluster id of the service that wrote a secret. */
const ORIGIN = "sallyport_origin";

/** Limits of custom metadata: keys in number and length, and the length of a value. */
const MAX_TAGS = 64;
const MAX_KEY = 128;
const MAX_VALUE = 512;

/** Raft, the default storage, takes entries of 1 MiB. */
const MAX_BYTES = 1_000_000;

/** Limit of writes after conflicts while another writer changes the same secret. */
const MAX_ROUNDS = 3;

/** Folders that one page reads at most, and names that are enough for one. */
const MAX_FOLDERS = 20;
const ENOUGH = 100;
/** Folders in folders, each of which is a call of the page after. */
const MAX_DEPTH = 100;

/**
 * Secrets of a KV v2 engine of Vault, OpenBao or another Sallyport. One external object is one secret: with
 * `secret-path` its data is ours, with `secret-key` it has the one key `value`.
 *
 * Every write states the current version (`cas`), so a repeat writes no second version and no other writer's version is
 * overwritten unseen. The marker is custom metadata, which is a call of its own. A new secret, and by `replace` a deleted
 * one, is marked before its data is written: what a lost answer leaves can be removed. Others are marked after their
 * data: an unmarked version of our own is recognised by its data.
 */
export const kvV2Destination = remoteType(description, kvV2Connection, {
  targets: ({ address, target_namespace: namespace = "", mount }) => [JSON.stringify([address, namespace, mount])],
  defaults: EACH_SECRET,
  naming: {
    allowed: /^[\w./-]$/,
    maxLength: 512,
    replacement: "-",
    adapt: (name) =>
      name
        .split("/")
        .filter((part) => part !== "")
        .map((part) => part.replace(/^\.{1,2}$/, (dots) => "-".repeat(dots.length)))
        .join("/"),
    refuse: (name) => (isName(name) ? null : "The name of a secret must be segments with single slashes between."),
  },
  maxValueBytes: MAX_BYTES,
  pace: { atOnce: 4, burst: 100, perMinute: 1_200 },
  checkTags,
  checkSettings: ({ address }, settings) => refuseListedHost("address", address, settings),

  async put(object, details, context) {
    const refused = checkObject(object);
    if (refused !== null) return refused;
    const engine = kvV2(details, context);
    const place = await engine.checkPlace();
    if (!place.ok) return place.outcome;
    const tags = tagsOf(object, await context.clusterId?.());
    const data = dataOf(object);
    const recorded = readReference(object.reference);
    if (recorded !== null && object.tagsWritten && object.updatePolicy === "replace") {
      const written = await engine.write(object.name, data, recorded.version);
      if (written.ok) return done(written);
      // The version is another one, or the secret is gone: the metadata decides.
      if (!written.contended) return written.outcome;
    }

    let contended: Failure | undefined;
    /** The tags with which this push has marked a secret that it found without a living version. */
    let announced: Tags = {};
    for (let round = 0; round < MAX_ROUNDS; round++) {
      const found = await engine.metadata(object.name);
      if (!found.ok) return found.outcome;
      const { metadata } = found;
      const own = await ownVersion(engine, object, metadata, data);
      const isLiving = metadata !== null && metadata.created !== null;
      if (own === null && isLiving) {
        // Another writer was faster, and its secret carries the marker of this push.
        const isOwned = isMarked(metadata) && !(MARKER[0] in announced);
        if (object.updatePolicy === "if-not-exists" || (object.updatePolicy === "owned-only" && !isOwned)) {
          const cleared = await clear(engine, object.name, announced);
          if (cleared !== null) return cleared.outcome;
          return object.updatePolicy === "if-not-exists" ? { outcome: "ok", left: true } : notOwned(object.name);
        }
      }
      // A deleted secret may be another writer's, who takes it back: only `replace` marks it before it is written.
      const isMarkedFirst = !isLiving && (object.updatePolicy === "replace" || !metadata?.current);
      if (isMarkedFirst) {
        const given = await announce(engine, object, tags, metadata);
        if (!given.ok) {
          if (!given.contended) return given.outcome;
          contended = given.outcome;
          continue;
        }
        announced = { ...announced, ...given.tags };
      }
      const written = own ?? (await engine.write(object.name, data, metadata?.current ?? 0));
      if (!written.ok) {
        if (!written.contended) return written.outcome;
        contended = written.outcome;
        continue;
      }
      const marked = isMarkedFirst ? null : await mark(engine, object, tags, metadata);
      return marked === null ? done(written) : marked.outcome;
    }
    return contended ?? failure("external", "contended", `${object.name} is being changed by another caller.`);
  },

  async remove({ name, ownedOnly }, details, context) {
    const engine = kvV2(details, context);
    const place = await engine.checkPlace();
    if (!place.ok) return place.outcome;
    if (ownedOnly) {
      const found = await engine.metadata(name);
      if (!found.ok) return found.outcome;
      if (found.metadata === null || !isMarked(found.metadata)) return { outcome: "ok" };
    }
    return doneBy(await engine.remove(name, details.delete_mode ?? "metadata"));
  },

  async inspect({ name, reference, tags }, details, context) {
    const engine = kvV2(details, context);
    const place = await engine.checkPlace();
    if (!place.ok) return place.outcome;
    const found = await engine.metadata(name);
    if (!found.ok) return found.outcome;
    const { metadata } = found;
    const recorded = readReference(reference);
    // Marked, and never written: what a push of unknown outcome has left.
    const isAnnounced = metadata !== null && recorded === null && metadata.current === 0 && isMarked(metadata);
    if (metadata === null || (metadata.created === null && !isAnnounced)) {
      return { outcome: "ok", state: "absent", owned: null };
    }
    const owned = isMarked(metadata);
    if (recorded === null) return { outcome: "ok", state: "present", owned };
    const isSame = metadata.current === recorded.version && metadata.created === recorded.created;
    const hasTags = Object.entries(shown(tags ?? {})).every(([key, value]) => metadata.tags[key] === value);
    return { outcome: "ok", state: isSame && hasTags ? "unchanged" : "changed", owned };
  },

  reading: { list, read },

  async probe(details, context, sample = "vault/sallyport-check") {
    const engine = kvV2(details, context);
    const place = await engine.checkPlace();
    return doneBy(place.ok ? await engine.metadata(sample) : place);
  },
});

/** Whether a path is that of a folder that is read: with a slash at the end, or empty for the root. */
const isFolder = (path: string): boolean =>
  path === "" || (path.endsWith("/") && isPath(path.slice(0, -1)) && path.split("/").length <= MAX_DEPTH + 1);

interface Folder {
  readonly path: string;
  /** Only the folders in it after this one are left. */
  readonly after?: string;
}

/** The folders that are left from a folder on, the next one last: those after it in its parents, and itself. */
function foldersFrom(path: string): Folder[] {
  const segments = path === "" ? [] : path.slice(0, -1).split("/");
  const upTo = (depth: number): string =>
    segments
      .slice(0, depth)
      .map((segment) => `${segment}/`)
      .join("");
  return [...segments.map((_, depth) => ({ path: upTo(depth), after: upTo(depth + 1) })), { path }];
}

/** A few folders a page, depth first in the order of their names. @param cursor the next folder; empty for the root */
async function list(cursor: string, details: KvV2Connection, context: CallContext): Promise<Listing> {
  if (!isFolder(cursor)) return CURSOR_REFUSED;
  const engine = kvV2(details, context);
  const place = await engine.checkPlace();
  if (!place.ok) return place.outcome;
  const left = foldersFrom(cursor);
  const names: string[] = [];
  let calls = 0;
  for (let folder = left.pop(); folder !== undefined; folder = left.pop()) {
    const { path: at, after } = folder;
    // A page ends before a folder that no page has read; parents of the cursor do not count.
    const isNew = after === undefined;
    if (isNew && (calls === MAX_FOLDERS || names.length >= ENOUGH)) return { outcome: "ok", names, next: at };
    const listed = await engine.list(at);
    if (!listed.ok) return listed.outcome;
    const paths = listed.names.flatMap((name) => (name === "" ? [] : [`${at}${name}`])).sort();
    const folders = paths.filter((path) => path > (after ?? "") && path.endsWith("/") && isFolder(path));
    left.push(...folders.reverse().map((path) => ({ path })));
    if (!isNew) continue;
    calls++;
    names.push(...paths.filter((path) => !path.endsWith("/")));
  }
  return { outcome: "ok", names, next: null };
}

/** A secret with the one key `value` is its text, unless the text reads as a whole secret. */
async function read(name: string, details: KvV2Connection, context: CallContext): Promise<ReadObject> {
  const engine = kvV2(details, context);
  const place = await engine.checkPlace();
  if (!place.ok) return place.outcome;
  const found = await engine.metadata(name);
  if (!found.ok) return found.outcome;
  if (found.metadata?.created == null) return { outcome: "ok", content: null };
  const answer = await engine.data(name);
  if (!answer.ok) return answer.outcome;
  const data = answer.data;
  if (typeof data !== "object" || data === null) return { outcome: "ok", content: null };
  if (isLossy(data)) {
    return failure("client", "value_invalid", `${name} has a number that cannot be read without a loss.`);
  }
  const [[key, text] = ["", null], ...others] = Object.entries(data);
  const isText = key === "value" && others.length === 0 && typeof text === "string" && !tryParseObject(text);
  return { outcome: "ok", content: { value: isText ? text : JSON.stringify(data) } };
}

/** Whether it has a number beyond those that are exact here. */
const isLossy = (value: unknown): boolean =>
  typeof value === "object" && value !== null
    ? Object.values(value).some(isLossy)
    : typeof value === "number" && (Math.abs(value) > Number.MAX_SAFE_INTEGER || !Number.isFinite(value));

const isName = (name: string): boolean => /^[\w./-]{1,512}$/.test(name) && isPath(name);

function checkObject({ name, value }: ExternalObject): Failure | null {
  if (!isName(name)) return failure("client", "name_invalid", "The secret's name is not a path.");
  const bytes = Buffer.byteLength(value);
  if (bytes <= MAX_BYTES) return null;
  return failure("client", "value_too_large", `The value of ${name} is ${bytes} bytes; the engine takes ${MAX_BYTES}.`);
}

/** The JSON text of a secret's data. */
const dataOf = ({ value, contentType }: ExternalObject): string =>
  contentType === "application/json" ? value : JSON.stringify({ value });

/** Tags as custom metadata. */
function shown(tags: Readonly<Record<string, string>>): Record<string, string> {
  const { [MARKER_TAG]: _marker, ...others } = tags;
  return { ...others, [MARKER[0]]: MARKER[1] };
}

/** The change of the custom metadata: tags of earlier pushes that are no longer desired are removed. */
function tagsOf({ tags, previousTagKeys }: ExternalObject, origin: string | undefined): Record<string, string | null> {
  const obsolete = previousTagKeys.filter((key) => key !== MARKER_TAG).map((key) => [key, null] as const);
  return { ...Object.fromEntries(obsolete), ...shown(tags), ...(origin && { [ORIGIN]: origin }) };
}

async function mark(
  engine: KvV2,
  { name }: ExternalObject,
  tags: Tags,
  metadata: Metadata | null,
): Promise<Refused | null> {
  const changed = Object.entries(tags).filter(([key, value]) => (metadata?.tags[key] ?? null) !== value);
  if (changed.length === 0) return null;
  const marked = await engine.tag(name, Object.fromEntries(changed));
  return marked.ok ? null : marked;
}

type Tags = Readonly<Record<string, string | null>>;

/** Marks a secret without a living version. @returns the tags that it did not carry before */
async function announce(
  engine: KvV2,
  object: ExternalObject,
  tags: Tags,
  metadata: Metadata | null,
): Promise<{ readonly ok: true; readonly tags: Tags } | Refused> {
  const given = Object.fromEntries(
    Object.entries(tags).filter((entry): entry is [string, string] => entry[1] !== null),
  );
  const refused =
    metadata === null ? await engine.announce(object.name, given) : await mark(engine, object, tags, metadata);
  if (refused !== null && !refused.ok) return refused;
  const before = metadata?.tags ?? {};
  return { ok: true, tags: Object.fromEntries(Object.entries(given).filter(([key, value]) => before[key] !== value)) };
}

/** Takes tags of this push from a secret that is another writer's. */
async function clear(engine: KvV2, name: string, announced: Tags): Promise<Refused | null> {
  const keys = Object.keys(announced);
  if (keys.length === 0) return null;
  const cleared = await engine.tag(name, Object.fromEntries(keys.map((key) => [key, null])));
  return cleared.ok ? null : cleared;
}

/** The current version, if an earlier push of this object with an unknown outcome has written it; otherwise null. */
async function ownVersion(
  engine: KvV2,
  { name, unsureSince }: ExternalObject,
  metadata: Metadata | null,
  data: string,
): Promise<({ ok: true } & Version) | null> {
  if (unsureSince === undefined || metadata === null || metadata.created === null) return null;
  const read = await engine.data(name);
  // Without the right to read data, the same data is written again.
  if (!read.ok || !isDeepStrictEqual(read.data, tryParseJson(data))) return null;
  return { ok: true, version: metadata.current, created: metadata.created };
}

const isMarked = ({ tags }: Metadata): boolean => tags[MARKER[0]] === MARKER[1];

/** A reference is the version and its time: a secret that was removed and made again counts from 1 again. */
const done = ({ version, created }: Version): Put => ({ outcome: "ok", reference: `${version} ${created}` });

function readReference(reference: string | null): Version | null {
  const [, version = "", created = ""] = /^(\d+) (\S+)$/.exec(reference ?? "") ?? [];
  return version === "" ? null : { version: Number(version), created };
}

const notOwned = (name: string): Failure =>
  failure("client", "not_owned", `The secret ${name} exists and does not carry our marker.`);

function checkTags(tags: Record<string, string>): string | null {
  const entries = Object.entries(tags).filter(([key]) => key !== MARKER_TAG);
  const most = MAX_TAGS - 2;
  if (entries.length > most) return `custom_tags: ${entries.length} tags; at most ${most} are possible`;
  for (const [key, value] of entries) {
    const name = JSON.stringify(key.slice(0, MAX_KEY));
    if (key === MARKER[0] || key === ORIGIN) return `custom_tags: the key ${name} is ours`;
    if (key === "" || Buffer.byteLength(key) > MAX_KEY) return `custom_tags: the key ${name} must be 1 to 128 bytes`;
    if (value === "" || Buffer.byteLength(value) > MAX_VALUE) {
      return `custom_tags: the value of ${name} must be 1 to 512 bytes`;
    }
    if (/[^\x20-\x7e]/.test(key + value)) return `custom_tags: ${name} must hold printable characters`;
  }
  return null;
}
