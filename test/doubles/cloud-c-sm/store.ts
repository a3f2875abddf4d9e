import { crc32c } from "../../../src/lib/crc32c.ts";
import { refusedReplication } from "./replication.ts";
import { checkFields, invalid, isObject, StatusError, type StatusName } from "./requests.ts";

interface Version {
  number: number;
  value: Buffer | null;
  state: "ENABLED" | "DISABLED" | "DESTROYED";
  createTime: string;
  destroyTime: string | null;
  etag: string;
}

interface Secret {
  id: string;
  replication: unknown;
  labels: Record<string, string>;
  annotations: Record<string, string>;
  createTime: string;
  etag: string;
  versions: Version[];
}

/** One secret in `GET /_double/secrets`. Values are UTF-8; null: destroyed, or there is no version. */
export interface SecretView {
  name: string;
  /** Of the newest version. */
  value: string | null;
  labels: Record<string, string>;
  annotations: Record<string, string>;
  replication: unknown;
  etag: string;
  versions: { number: number; state: string; value: string | null }[];
}

export interface StoreOptions {
  projectNumber: string;
  now(): number;
  /** The answer to a write with an outdated etag. */
  etagMismatch: StatusName;
  /** Added versions and updates of one secret per minute. */
  writesPerSecret: number;
}

/** One RPC on the store, as the envelope names it. */
export interface StoreCall {
  operation: string;
  secretId?: string | null;
  version?: string | null;
  query?: Record<string, string>;
  body?: Record<string, unknown>;
}

const idPattern = /^[A-Za-z0-9_-]{1,255}$/;
const labelKey = /^[\p{Ll}\p{Lo}][\p{Ll}\p{Lo}\p{N}_-]{0,62}$/u;
const labelValue = /^[\p{Ll}\p{Lo}\p{N}_-]{0,63}$/u;
const annotationKey = /^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/;
const base64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;
const maxPayload = 65_536;

/**
 * The rules of Google Secret Manager (v1 service description) that our adapter depends on, in memory, for one project. Where
 * the reference leaves room, the refusal is chosen: a checksum must come with every payload.
 */
export class SecretsStore {
  readonly #options: StoreOptions;
  readonly #secrets = new Map<string, Secret>();
  readonly #writes = new Map<string, number[]>();
  #etags = 0x16288d7a3fc8a6;

  constructor(options: StoreOptions) {
    this.#options = options;
  }

  view(): SecretView[] {
    return [...this.#secrets.values()].map(({ id, replication, labels, annotations, etag, versions }) => {
      const shown = versions.map(({ number, state, value }) => ({ number, state, value: value?.toString() ?? null }));
      return { name: id, value: shown.at(-1)?.value ?? null, labels, annotations, replication, etag, versions: shown };
    });
  }

  /** Performs one RPC. Throws `StatusError`. */
  call({ operation, secretId = null, version = null, query = {}, body = {} }: StoreCall): Record<string, unknown> {
    switch (operation) {
      case "CreateSecret":
        return this.#create(query["secretId"] ?? "", body);
      case "ListSecrets":
        return page("secrets", [...this.#secrets.values()], query, (secret) => this.#show(secret));
      case "GetSecret":
        return this.#show(this.#secret(secretId));
      case "UpdateSecret":
        return this.#update(this.#secret(secretId), query["updateMask"] ?? "", body);
      case "DeleteSecret": {
        const secret = this.#secret(secretId);
        this.#checkEtag(secret, query["etag"]);
        this.#secrets.delete(secret.id);
        return {};
      }
      case "AddSecretVersion":
        return this.#add(this.#secret(secretId), body["payload"]);
      case "ListSecretVersions": {
        const secret = this.#secret(secretId);
        return page("versions", secret.versions.toReversed(), query, (one) => this.#showVersion(secret, one));
      }
      case "GetSecretVersion":
      case "AccessSecretVersion":
      case "DestroySecretVersion":
      case "DisableSecretVersion":
      case "EnableSecretVersion":
        return this.#onVersion(operation, this.#secret(secretId), version ?? "", body);
      default:
        throw new Error(`the double has no operation ${operation}`);
    }
  }

  #secret(id: string | null): Secret {
    if (id === null || !idPattern.test(id))
      throw invalid(`The provided Secret ID [${id}] does not match the expected format`);
    const secret = this.#secrets.get(id);
    if (secret) return secret;
    throw new StatusError("NOT_FOUND", `Secret [${this.#name(id)}] not found.`);
  }

  #create(id: string, body: Record<string, unknown>): Record<string, unknown> {
    if (!idPattern.test(id)) throw invalid(`The provided Secret ID [${id}] does not match the expected format`);
    const { replication } = body;
    const refused = refusedReplication(replication);
    if (refused !== null) throw invalid(refused);
    for (const field of ["versionAliases", "tags"]) {
      if (Object.keys(body[field] ?? {}).length > 0) throw invalid(`The double keeps no ${field}`);
    }
    if (body["name"] !== undefined || body["etag"] !== undefined)
      throw invalid("name and etag are not input of a create");
    const secret: Secret = {
      id,
      replication,
      labels: checkLabels(body["labels"]),
      annotations: checkAnnotations(body["annotations"]),
      createTime: this.#time(),
      etag: this.#etag(),
      versions: [],
    };
    if (this.#secrets.has(id)) throw new StatusError("ALREADY_EXISTS", `Secret [${this.#name(id)}] already exists.`);
    this.#secrets.set(id, secret);
    return this.#show(secret);
  }

  #update(secret: Secret, mask: string, body: Record<string, unknown>): Record<string, unknown> {
    const fields = mask.split(",");
    if (fields.some((field) => field !== "labels" && field !== "annotations")) throw invalid(`Bad update mask ${mask}`);
    for (const [name, value] of Object.entries(body)) {
      const idle = name === "etag" || name === "name" || fields.includes(name);
      if (!idle && (!isObject(value) || Object.keys(value).length > 0))
        throw invalid(`${name} is not in the update mask`);
    }
    const labels = fields.includes("labels") ? checkLabels(body["labels"]) : secret.labels;
    const annotations = fields.includes("annotations") ? checkAnnotations(body["annotations"]) : secret.annotations;
    this.#checkEtag(secret, body["etag"]);
    this.#countWrite(secret);
    Object.assign(secret, { labels, annotations, etag: this.#etag() });
    return this.#show(secret);
  }

  #add(secret: Secret, payload: unknown): Record<string, unknown> {
    const { data, dataCrc32c } = checkFields(payload ?? {}, { data: "string", dataCrc32c: "string" });
    if (typeof data !== "string" || !base64.test(data)) throw invalid("Invalid value at 'payload.data': not base64");
    const value = Buffer.from(data, "base64");
    if (value.length === 0) throw invalid("Secret Payload cannot be empty.");
    if (value.length > maxPayload) throw invalid(`The secret payload is larger than ${maxPayload} bytes`);
    if (typeof dataCrc32c !== "string" || dataCrc32c !== String(crc32c(value))) {
      throw invalid("The payload's checksum does not match its data");
    }
    this.#countWrite(secret);
    const number = (secret.versions.at(-1)?.number ?? 0) + 1;
    const version: Version = {
      number,
      value,
      state: "ENABLED",
      createTime: this.#time(),
      destroyTime: null,
      etag: this.#etag(),
    };
    secret.versions.push(version);
    return this.#showVersion(secret, version);
  }

  #onVersion(
    operation: string,
    secret: Secret,
    wanted: string,
    body: Record<string, unknown>,
  ): Record<string, unknown> {
    const verb = operation.replace("SecretVersion", "");
    const alias = wanted === "latest" && (verb === "Get" || verb === "Access");
    if (!alias && !/^[1-9]\d{0,17}$/.test(wanted)) throw invalid(`${wanted} is not a version`);
    const version = alias ? secret.versions.at(-1) : secret.versions.find(({ number }) => String(number) === wanted);
    if (version === undefined) {
      throw new StatusError("NOT_FOUND", `Secret Version [${this.#name(secret.id)}/versions/${wanted}] not found.`);
    }
    if (verb === "Get") return this.#showVersion(secret, version);
    const name = `${this.#name(secret.id)}/versions/${version.number}`;
    const stateRefusal = new StatusError(
      "FAILED_PRECONDITION",
      `Secret Version [${name}] is in ${version.state} state.`,
    );
    if (verb === "Access") {
      if (version.state !== "ENABLED" || version.value === null) throw stateRefusal;
      const payload = { data: version.value.toString("base64"), dataCrc32c: String(crc32c(version.value)) };
      return { name, payload };
    }
    if (version.state === "DESTROYED") throw stateRefusal;
    this.#checkEtag(version, body["etag"]);
    if (verb === "Destroy") Object.assign(version, { state: "DESTROYED", value: null, destroyTime: this.#time() });
    else version.state = verb === "Disable" ? "DISABLED" : "ENABLED";
    version.etag = this.#etag();
    return this.#showVersion(secret, version);
  }

  #show({ id, replication, labels, annotations, createTime, etag }: Secret): Record<string, unknown> {
    const some = (of: Record<string, string>) => (Object.keys(of).length > 0 ? of : undefined);
    const name = this.#name(id);
    return { name, replication, createTime, labels: some(labels), etag, annotations: some(annotations) };
  }

  #showVersion({ id }: Secret, { number, createTime, destroyTime, state, etag }: Version): Record<string, unknown> {
    return {
      name: `${this.#name(id)}/versions/${number}`,
      createTime,
      destroyTime: destroyTime ?? undefined,
      state,
      replicationStatus: { automatic: {} },
      etag,
      clientSpecifiedPayloadChecksum: true,
    };
  }

  /** Responses name projects by number, for any name in the request. */
  #name(id: string): string {
    return `projects/${this.#options.projectNumber}/secrets/${id}`;
  }

  #time(): string {
    return new Date(this.#options.now()).toISOString();
  }

  #etag(): string {
    this.#etags += 7919;
    return `"${this.#etags.toString(16)}"`;
  }

  #checkEtag({ etag }: { etag: string }, given: unknown): void {
    if (given === undefined || given === etag) return;
    throw new StatusError(this.#options.etagMismatch, "The etag does not match the current one.");
  }

  #countWrite({ id }: Secret): void {
    const since = this.#options.now() - 60_000;
    const recent = (this.#writes.get(id) ?? []).filter((at) => at > since);
    if (recent.length >= this.#options.writesPerSecret) {
      throw new StatusError("RESOURCE_EXHAUSTED", "Too many writes of one secret.");
    }
    this.#writes.set(id, [...recent, this.#options.now()]);
  }
}

function page<T>(
  field: string,
  all: readonly T[],
  { pageSize = "0", pageToken = "0" }: Record<string, string>,
  show: (one: T) => Record<string, unknown>,
): Record<string, unknown> {
  if (!/^\d{1,5}$/.test(pageSize) || !/^\d{1,9}$/.test(pageToken)) throw invalid("Bad page");
  const end = Number(pageToken) + (Number(pageSize) || 25_000);
  const shown = all.slice(Number(pageToken), end).map(show);
  return {
    ...(shown.length > 0 ? { [field]: shown } : {}),
    ...(end < all.length ? { nextPageToken: String(end) } : {}),
    totalSize: all.length,
  };
}

function checkLabels(given: unknown = {}): Record<string, string> {
  const entries = Object.entries(given ?? {});
  if (entries.length > 64) throw invalid("No more than 64 labels");
  for (const [key, value] of entries) {
    const small = Buffer.byteLength(key) <= 128 && Buffer.byteLength(String(value)) <= 128;
    if (!small || !labelKey.test(key) || typeof value !== "string" || !labelValue.test(value)) {
      throw invalid(`The label ${key} does not conform`);
    }
  }
  return Object.fromEntries(entries) as Record<string, string>;
}

function checkAnnotations(given: unknown = {}): Record<string, string> {
  const entries = Object.entries(given ?? {});
  const bytes = entries.reduce((sum, [key, value]) => sum + Buffer.byteLength(key + String(value)), 0);
  const conform = entries.every(([key, value]) => annotationKey.test(key) && typeof value === "string");
  if (!conform || bytes >= 16_384) throw invalid("The annotations do not conform");
  return Object.fromEntries(entries) as Record<string, string>;
}
