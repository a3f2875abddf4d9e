import * as z from "zod";

/**
 * The Secrets of one namespace with server-side apply (https://kubernetes.io/docs/reference/using-api/server-side-apply):
 * owners of each field by manager and operation, conflicts, forced changes, and the removal of fields that an apply no
 * longer has.
 */

export interface Cause {
  readonly reason: string;
  readonly message: string;
  readonly field: string;
}

export class ApiError extends Error {
  readonly status: number;
  readonly reason: string;
  readonly details: { readonly kind?: string; readonly name?: string; readonly causes?: readonly Cause[] };

  constructor(status: number, reason: string, message: string, details: ApiError["details"] = {}) {
    super(message);
    this.status = status;
    this.reason = reason;
    this.details = details;
  }
}

const MAX_BYTES = 1_048_576;
const DNS = /^(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;
const LABEL_VALUE = /^(?=.{0,63}$)([A-Za-z0-9]([\w.-]*[A-Za-z0-9])?)?$/;
const KEY = /^(?!\.{1,2}$)(?!\.\.)[-._A-Za-z0-9]{1,253}$/;
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

const Applied = z.strictObject({
  apiVersion: z.literal("v1"),
  kind: z.literal("Secret"),
  metadata: z.strictObject({
    name: z.string(),
    resourceVersion: z.string().optional(),
    labels: z.record(z.string(), z.string().regex(LABEL_VALUE)).optional(),
    annotations: z.record(z.string(), z.string()).optional(),
  }),
  type: z.string().optional(),
  data: z.record(z.string(), z.string()).optional(),
});

/** Paths such as `f:data/password`, with their values. */
type Fields = Map<string, string>;

interface Secret {
  readonly uid: string;
  version: number;
  fields: Fields;
  /** By manager and operation, such as `kubectl/Update`. */
  readonly owners: Map<string, Set<string>>;
}

const SEPARATOR = "\u0000";
const path = (...parts: string[]) => parts.join(SEPARATOR);

export class Secrets {
  readonly #secrets = new Map<string, Secret>();
  #version = 100;

  /** @returns whether the Secret was created, and its view */
  apply(name: string, body: unknown, { manager, force }: { manager: string; force: boolean }) {
    const parsed = Applied.safeParse(body);
    if (!parsed.success)
      throw new ApiError(400, "BadRequest", `strict decoding error: ${parsed.error.issues[0]?.path}`);
    const { metadata, type, data = {} } = parsed.data;
    if (metadata.name !== name) throw new ApiError(400, "BadRequest", "the name of the object does not match the URL");
    check(name, data);
    const wanted: Fields = new Map();
    for (const [key, value] of Object.entries(metadata.labels ?? {})) wanted.set(path("labels", key), value);
    for (const [key, value] of Object.entries(metadata.annotations ?? {})) wanted.set(path("annotations", key), value);
    for (const [key, value] of Object.entries(data)) wanted.set(path("data", key), value);
    if (type !== undefined) wanted.set("type", type);
    const existing = this.#secrets.get(name);
    if (metadata.resourceVersion !== undefined && metadata.resourceVersion !== String(existing?.version)) {
      throw new ApiError(
        409,
        "Conflict",
        "the object has been modified; please apply your changes to the latest version",
      );
    }
    if (existing && type !== undefined && existing.fields.get("type") !== type) throw immutableType();
    const secret = existing ?? {
      uid: crypto.randomUUID(),
      version: 0,
      fields: new Map([["type", type ?? "Opaque"]]),
      owners: new Map(),
    };
    const before = JSON.stringify([...secret.fields, ...[...secret.owners].map(([owner, all]) => [owner, [...all]])]);
    const self = `${manager}/Apply`;
    const conflicts = [...secret.owners].flatMap(([owner, all]) =>
      owner === self
        ? []
        : [...all].flatMap((at) =>
            wanted.has(at) && wanted.get(at) !== secret.fields.get(at) ? [[owner, at] as const] : [],
          ),
    );
    if (conflicts.length > 0 && !force) throw conflict(conflicts);
    for (const [owner, at] of conflicts) secret.owners.get(owner)?.delete(at);
    for (const at of secret.owners.get(self) ?? []) {
      const isShared = [...secret.owners].some(([owner, all]) => owner !== self && all.has(at));
      if (!wanted.has(at) && !isShared && at !== "type") secret.fields.delete(at);
    }
    for (const [at, value] of wanted) secret.fields.set(at, value);
    secret.owners.set(self, new Set(wanted.keys()));
    this.#secrets.set(name, secret);
    const after = JSON.stringify([...secret.fields, ...[...secret.owners].map(([owner, all]) => [owner, [...all]])]);
    // An apply without a change keeps the version.
    if (before !== after || !existing) secret.version = ++this.#version;
    return { created: !existing, object: this.view(name) };
  }

  /** A write by another manager, as `kubectl replace` does: all fields become its own. */
  replace(name: string, data: Readonly<Record<string, string>>, manager = "kubectl"): void {
    const encoded = Object.entries(data).map(
      ([key, value]) => [path("data", key), Buffer.from(value).toString("base64")] as const,
    );
    const uid = this.#secrets.get(name)?.uid ?? crypto.randomUUID();
    const fields = new Map<string, string>([...encoded, ["type", "Opaque"]]);
    const owners = new Map([[`${manager}/Update`, new Set(fields.keys())]]);
    this.#secrets.set(name, { uid, version: ++this.#version, fields, owners });
  }

  /** Adds a key by another manager. */
  add(name: string, key: string, value: string, manager = "kubectl"): void {
    const secret = this.#find(name);
    secret.fields.set(path("data", key), Buffer.from(value).toString("base64"));
    secret.owners.set(`${manager}/Update`, new Set([path("data", key)]));
    secret.version = ++this.#version;
  }

  remove(name: string, preconditions: { uid?: string | undefined; resourceVersion?: string | undefined } = {}): void {
    const secret = this.#find(name);
    const { uid, resourceVersion } = preconditions;
    if ((uid ?? secret.uid) !== secret.uid || (resourceVersion ?? String(secret.version)) !== String(secret.version)) {
      throw new ApiError(409, "Conflict", "the UID or ResourceVersion in the precondition does not match");
    }
    this.#secrets.delete(name);
  }

  view(name: string) {
    const { uid, version, fields, owners } = this.#find(name);
    const of = (kind: string) =>
      Object.fromEntries(
        [...fields].flatMap(([at, value]) =>
          at.startsWith(kind + SEPARATOR) ? [[at.slice(kind.length + 1), value]] : [],
        ),
      );
    const managedFields = [...owners].map(([owner, all]) => {
      const [manager, operation] = owner.split("/");
      const keys = [...all].filter((at) => at.startsWith(`data${SEPARATOR}`)).map((at) => [`f:${at.slice(5)}`, {}]);
      const fieldsV1 = keys.length === 0 ? {} : { "f:data": { ".": {}, ...Object.fromEntries(keys) } };
      return { manager, operation, apiVersion: "v1", time: "2026-11-28T00:00:00Z", fieldsType: "FieldsV1", fieldsV1 };
    });
    return {
      apiVersion: "v1",
      kind: "Secret",
      metadata: {
        name,
        uid,
        resourceVersion: String(version),
        labels: of("labels"),
        annotations: of("annotations"),
        managedFields,
      },
      type: fields.get("type") ?? "",
      data: of("data") as Record<string, string>,
    };
  }

  names(): string[] {
    return [...this.#secrets.keys()];
  }

  #find(name: string): Secret {
    const secret = this.#secrets.get(name);
    if (!secret) throw new ApiError(404, "NotFound", `secrets "${name}" not found`, { name, kind: "secrets" });
    return secret;
  }
}

function check(name: string, data: Readonly<Record<string, string>>): void {
  const invalid = (field: string, reason = "FieldValueInvalid") =>
    new ApiError(422, "Invalid", `Secret "${name}" is invalid: ${field}`, {
      kind: "Secret",
      causes: [{ reason, message: `Invalid value: ${JSON.stringify(data)}`, field }],
    });
  if (!DNS.test(name)) throw invalid("metadata.name");
  let bytes = 0;
  for (const [key, value] of Object.entries(data)) {
    if (!KEY.test(key)) throw invalid(`data[${key}]`);
    if (!BASE64.test(value)) throw new ApiError(400, "BadRequest", "illegal base64 data");
    bytes += Buffer.from(value, "base64").length;
  }
  if (bytes > MAX_BYTES) throw invalid("data", "FieldValueTooLong");
}

const immutableType = () =>
  new ApiError(422, "Invalid", "Secret is invalid: type: field is immutable", {
    kind: "Secret",
    causes: [{ reason: "FieldValueInvalid", message: "field is immutable", field: "type" }],
  });

function conflict(conflicts: readonly (readonly [owner: string, at: string])[]): ApiError {
  const causes = conflicts.map(([owner, at]) => ({
    reason: "FieldManagerConflict",
    message: `conflict with "${owner.split("/")[0]}" using v1`,
    field: `.${at.replaceAll(SEPARATOR, ".")}`,
  }));
  const [{ message, field } = { message: "", field: "" }] = causes;
  const text = `Apply failed with ${causes.length} conflict: ${message}: ${field}`;
  return new ApiError(409, "Conflict", text, { causes });
}
