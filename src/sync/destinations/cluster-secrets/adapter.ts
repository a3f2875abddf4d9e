import type { Failure } from "../../../contracts/failure.ts";
import { failure } from "../../../providers/outcome.ts";
import { type ExternalObject, type Put, remoteType } from "../destination-type.ts";
import { refuseListedHost } from "../listed-host.ts";
import { intentOf } from "../object-rules.ts";
import { type Applied, type ClusterSecrets, clusterSecrets, MANAGER, type Metadata } from "./client.ts";
import { clusterConnection } from "./connection.ts";
import { description } from "./description.ts";

/** The label that marks our Secrets. */
const MARKER = ["app.kubernetes.io/managed-by", MANAGER] as const;
/** The annotation with a digest of the push, by which a push with a lost answer is recognised. */
const PUSH = "sallyport/push";

/** A Secret holds 1 MiB; in base64 its answer must fit into the 1 MiB that are read of an answer. */
const MAX_BYTES = 700_000;

const MAX_NAME = 253;

/** Limit of writes after conflicts while another writer changes the same Secret. */
const MAX_ROUNDS = 3;

/** The data key of a Secret for one key of a secret. */
const VALUE_KEY = "value";

/**
 * Secrets of a Kubernetes namespace. One external object is one Secret: with `secret-path` the keys of the secret are
 * its keys, with `secret-key` it has the key `value`.
 *
 * Every write is a server-side apply by one field manager, so keys and labels of other managers stay, and keys that left
 * the secret go. A Secret is ours when it carries our label. Under `owned-only` and `if-not-exists` a Secret is read
 * first and written at its version; one that is created in between is changed only where no other manager owns a field.
 */
export const clusterSecretsDestination = remoteType(description, clusterConnection, {
  takesData: true,
  targets: ({ host, namespace }) => [JSON.stringify([host, namespace])],
  defaults: {
    granularity: "secret-path",
    template: {
      "secret-path": "vault-{{ .MountAccessor }}-{{ .SecretPath }}",
      "secret-key": "vault-{{ .MountAccessor }}-{{ .SecretPath }}-{{ .SecretKey }}",
    },
  },
  naming: {
    allowed: /^[A-Za-z0-9.-]$/,
    maxLength: MAX_NAME,
    replacement: "-",
    adapt: (name) =>
      name
        .toLowerCase()
        .split(".")
        .map((label) => label.replace(/^-+|-+$/g, ""))
        .filter((label) => label !== "")
        .join("."),
    refuse: (name) => (isName(name) ? null : "The name of a Secret must begin and end with a letter or a digit."),
  },
  maxValueBytes: MAX_BYTES,
  pace: { atOnce: 4, burst: 100, perMinute: 1_200 },
  checkSettings: ({ host }, settings) => refuseListedHost("host", host, settings),

  async put(object, details, context) {
    const refused = checkObject(object);
    if (refused !== null) return refused;
    const cluster = clusterSecrets(details, context);
    const secret = secretOf(object, details.secret_type);
    if (object.updatePolicy === "replace") {
      const applied = await cluster.apply(secret, true);
      return applied.ok ? done(applied.metadata) : applied.outcome;
    }
    let contended = failure("external", "contended", `${object.name} is being changed by another caller.`);
    for (let round = 0; round < MAX_ROUNDS; round++) {
      const found = await cluster.metadata(object.name);
      if (!found.ok) return found.outcome;
      const { metadata } = found;
      if (metadata !== null && object.updatePolicy === "if-not-exists") {
        return metadata.annotations[PUSH] === pushOf(object) ? done(metadata) : { outcome: "ok", left: true };
      }
      if (metadata !== null && !isMarked(metadata)) return notOwned(object.name);
      const applied = await cluster.apply(metadata === null ? secret : atVersion(secret, metadata), metadata !== null);
      if (applied.ok) return done(applied.metadata);
      if (!applied.contended) return applied.outcome;
      contended = applied.outcome;
    }
    return contended;
  },

  async remove({ name, ownedOnly }, details, context) {
    const cluster = clusterSecrets(details, context);
    let contended = failure("external", "contended", `${name} is being changed by another caller.`);
    for (let round = 0; round < MAX_ROUNDS; round++) {
      const found = await cluster.metadata(name);
      if (!found.ok) return found.outcome;
      const { metadata } = found;
      if (metadata === null || (ownedOnly && !isMarked(metadata))) return { outcome: "ok" };
      const removed = metadata.isShared
        ? await disown(cluster, name, details.secret_type)
        : await cluster.remove(name, {
            uid: metadata.uid,
            ...(ownedOnly && { resourceVersion: metadata.resourceVersion }),
          });
      if (removed.ok) return { outcome: "ok" };
      if (!removed.contended) return removed.outcome;
      contended = removed.outcome;
    }
    return contended;
  },

  async inspect({ name, reference, desired }, details, context) {
    const cluster = clusterSecrets(details, context);
    if (desired === undefined) {
      const found = await cluster.metadata(name);
      if (!found.ok) return found.outcome;
      if (found.metadata === null) return { outcome: "ok", state: "absent", owned: null };
      const state =
        reference === null ? "present" : referenceOf(found.metadata) === reference ? "unchanged" : "changed";
      return { outcome: "ok", state, owned: isMarked(found.metadata) };
    }
    const read = await cluster.read(name);
    if (!read.ok) return read.outcome;
    if (read.found === null) return { outcome: "ok", state: "absent", owned: null };
    const { metadata, data } = read.found;
    // Other managers may have added keys, which concern neither our value nor a push.
    const isSame = Object.entries(dataOf(desired)).every(([key, value]) => data.get(key) === value);
    return { outcome: "ok", state: isSame ? "unchanged" : "changed", owned: isMarked(metadata) };
  },

  reading: {
    async list(cursor, details, context) {
      const listed = await clusterSecrets(details, context).list(cursor);
      return listed.ok ? { outcome: "ok", names: listed.names, next: listed.next } : listed.outcome;
    },
    async read(name, details, context) {
      const read = await clusterSecrets(details, context).read(name);
      if (!read.ok) return read.outcome;
      if (read.found === null) return { outcome: "ok", content: null };
      if (read.found.isBinary) {
        return failure("client", "value_invalid", `A value of ${name} is no text, and cannot be a secret's.`);
      }
      const data = Object.fromEntries(read.found.data);
      const [[key, text] = ["", ""], ...others] = Object.entries(data);
      const value = key === VALUE_KEY && others.length === 0 ? text : JSON.stringify(data);
      return { outcome: "ok", content: { value, data } };
    },
  },

  async probe(details, context) {
    const cluster = clusterSecrets(details, context);
    const proven = await cluster.proveNamespace();
    if (!proven.ok) return proven.outcome;
    for (const verb of ["get", "create", "patch", "delete"]) {
      const review = await cluster.may(verb);
      if (!review.ok) return review.outcome;
      if (!review.allowed) {
        return failure("client", "permission_denied", `The token may not ${verb} Secrets of ${details.namespace}.`);
      }
    }
    return { outcome: "ok" };
  },
});

const NAME = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;
const isName = (name: string): boolean => name.length <= MAX_NAME && NAME.test(name);
const isKey = (key: string): boolean => /^[-._A-Za-z0-9]{1,253}$/.test(key) && !key.startsWith("..") && key !== ".";

/** The keys and texts of a Secret. */
const dataOf = ({ data, value }: Pick<ExternalObject, "data" | "value">): Readonly<Record<string, string>> =>
  data ?? { [VALUE_KEY]: value };

function checkObject(object: ExternalObject): Failure | null {
  const { name } = object;
  if (!isName(name)) return failure("client", "name_invalid", "The name of the Secret is not a DNS name.");
  const entries = Object.entries(dataOf(object));
  if (!entries.every(([key]) => isKey(key))) {
    const rule = "must be 1 to 253 letters, digits or characters of ._- and not begin with two dots";
    return failure("client", "name_invalid", `A key of ${name} is not one of a Secret: it ${rule}.`);
  }
  const bytes = entries.reduce((sum, [, value]) => sum + Buffer.byteLength(value), 0);
  if (bytes <= MAX_BYTES) return null;
  return failure("client", "value_too_large", `The values of ${name} have ${bytes} bytes; at most ${MAX_BYTES} fit.`);
}

/**
 * The fields of a Secret that are ours. Only `data` is sent: keys that leave `stringData` would stay. All texts are
 * plain, because the API server reads them as YAML.
 */
function secretOf(object: ExternalObject, type = "Opaque"): Applied {
  const encoded = Object.entries(dataOf(object)).map(([key, value]) => [key, Buffer.from(value).toString("base64")]);
  return {
    metadata: { name: object.name, labels: Object.fromEntries([MARKER]), annotations: { [PUSH]: pushOf(object) } },
    type,
    data: Object.fromEntries(encoded),
  };
}

const atVersion = (secret: Applied, { resourceVersion }: Metadata): Applied => ({
  ...secret,
  metadata: { ...secret.metadata, resourceVersion },
});

/** Gives up our fields of a Secret that others write, too: our keys and our label go, theirs and the type stay. */
const disown = (cluster: ClusterSecrets, name: string, type = "Opaque") =>
  cluster.apply({ metadata: { name }, type }, false);

const isMarked = ({ labels }: Metadata): boolean => labels[MARKER[0]] === MARKER[1];

const referenceOf = ({ uid, resourceVersion }: Metadata): string => `${uid} ${resourceVersion}`;

const done = (metadata: Metadata): Put => ({ outcome: "ok", reference: referenceOf(metadata) });

const pushOf = (object: ExternalObject): string => intentOf(object).slice(0, 32);

const notOwned = (name: string): Failure =>
  failure("client", "not_owned", `The Secret ${name} exists and does not carry our label.`);
