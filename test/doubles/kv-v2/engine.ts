import * as z from "zod";

/**
 * The state and rules of one KV v2 engine (https://developer.hashicorp.com/vault/api-docs/secret/kv/kv-v2): versions
 * that count on after deletions, check-and-set, soft deletion, and custom metadata; with OpenBao's check-and-set of
 * metadata (https://openbao.org/api-docs/secret/kv/kv-v2/).
 */

export class ApiError extends Error {
  readonly status: number;
  /** Vault answers a path without an object with an empty list. */
  readonly errors: readonly string[];
  readonly data: object | undefined;

  constructor(status: number, errors: readonly string[], data?: object) {
    super(errors.join());
    this.status = status;
    this.errors = errors;
    this.data = data;
  }
}

const none = (data?: object) => new ApiError(404, [], data);
const bad = (error: string) => new ApiError(400, [error]);

interface Version {
  data: object | null;
  created_time: string;
  deletion_time: string;
  destroyed: boolean;
}

interface Secret {
  current: number;
  oldest: number;
  created: string;
  updated: string;
  versions: Map<number, Version>;
  custom: Record<string, string>;
  /** The version of the metadata: 0 until it is written. */
  revision: number;
}

const MAX_VERSIONS = 10;
/** The limit of Raft for an entry. */
const MAX_BYTES = 1_048_576;

/** Stricter than Vault: `cas` is required, and no other field is taken. */
const Write = z.strictObject({
  options: z.strictObject({ cas: z.int().min(0) }),
  data: z.record(z.string(), z.unknown()),
});
const metadata_cas = z.int().min(0).optional();
const Announce = z.strictObject({ custom_metadata: z.record(z.string(), z.string()), metadata_cas });
const Patch = z.strictObject({ custom_metadata: z.record(z.string(), z.string().nullable()), metadata_cas });

function checked(custom: Record<string, string>): Record<string, string> {
  if (Object.keys(custom).length > 64)
    throw bad("custom_metadata validation failed: payload must contain at most 64 keys");
  for (const [key, value] of Object.entries(custom)) {
    if (key.length < 1 || key.length > 128) throw bad("custom_metadata validation failed: length of key");
    if (value.length < 1 || value.length > 512) throw bad("custom_metadata validation failed: length of value");
    if (/[^\x20-\x7e]/.test(key + value)) throw bad("custom_metadata validation failed: unprintable characters");
  }
  return custom;
}

export class Engine {
  readonly #secrets = new Map<string, Secret>();
  #lastTime = 0;
  /** OpenBao's check-and-set of metadata; Vault ignores the field. */
  metadataCas: "known" | "required" | "ignored" = "known";

  write(name: string, body: unknown): object {
    const parsed = Write.safeParse(body);
    if (!parsed.success) throw bad("invalid request body");
    const { options, data } = parsed.data;
    const secret = this.#secrets.get(name) ?? this.#new();
    if (options.cas !== secret.current) throw bad("check-and-set parameter did not match the current version");
    if (Buffer.byteLength(JSON.stringify(data)) > MAX_BYTES) {
      throw new ApiError(500, ["1 error occurred:\n\t* put failed due to value being too large; got 2, max: 1\n\n"]);
    }
    this.#secrets.set(name, secret);
    const created_time = this.#time();
    secret.current += 1;
    secret.updated = created_time;
    secret.versions.set(secret.current, { data, created_time, deletion_time: "", destroyed: false });
    for (const version of secret.versions.keys())
      if (version <= secret.current - MAX_VERSIONS) secret.versions.delete(version);
    return this.#shown(secret, secret.current);
  }

  read(name: string): object {
    const secret = this.#find(name);
    const version = secret.versions.get(secret.current);
    if (!version) throw none();
    const metadata = this.#shown(secret, secret.current);
    if (version.deletion_time !== "" || version.destroyed) throw none({ data: null, metadata });
    return { data: version.data, metadata };
  }

  metadata(name: string): object {
    const secret = this.#find(name);
    const versions = [...secret.versions].map(([number, { created_time, deletion_time, destroyed }]) => [
      number,
      { created_time, deletion_time, destroyed },
    ]);
    return {
      cas_required: false,
      created_time: secret.created,
      current_version: secret.current,
      ...(this.metadataCas !== "ignored" && { current_metadata_version: secret.revision }),
      custom_metadata: Object.keys(secret.custom).length === 0 ? null : secret.custom,
      delete_version_after: "0s",
      max_versions: 0,
      oldest_version: secret.oldest,
      updated_time: secret.updated,
      versions: Object.fromEntries(versions),
    };
  }

  patch(name: string, body: unknown): void {
    const parsed = Patch.safeParse(body);
    if (!parsed.success) throw bad("invalid request body");
    const secret = this.#find(name);
    this.#checkRevision(secret, parsed.data);
    const custom = { ...secret.custom };
    for (const [key, value] of Object.entries(parsed.data.custom_metadata)) {
      if (value === null) delete custom[key];
      else custom[key] = value;
    }
    secret.custom = checked(custom);
    secret.revision += 1;
  }

  /** Replaces the custom metadata; without a secret it begins one that has no version. */
  announce(name: string, body: unknown): void {
    const parsed = Announce.safeParse(body);
    if (!parsed.success) throw bad("invalid request body");
    const secret = this.#secrets.get(name) ?? this.#new();
    this.#checkRevision(secret, parsed.data);
    secret.custom = checked(parsed.data.custom_metadata);
    secret.revision += 1;
    this.#secrets.set(name, secret);
  }

  /** Deletes the newest version; another deletion keeps its time. */
  deleteNewest(name: string): void {
    const version = this.#secrets.get(name)?.versions.get(this.#secrets.get(name)?.current ?? 0);
    if (version && version.deletion_time === "") version.deletion_time = new Date().toISOString();
  }

  deleteAll(name: string): void {
    this.#secrets.delete(name);
  }

  /** The names directly in a folder, deleted ones included. */
  list(folder: string): string[] {
    if (folder !== "" && !folder.endsWith("/")) throw new ApiError(404, []);
    const below = [...this.#secrets.keys()].filter((name) => name.startsWith(folder));
    const names = below.map((name) => name.slice(folder.length).replace(/\/.*$/, "/"));
    if (names.length === 0) throw new ApiError(404, []);
    return [...new Set(names)].sort();
  }

  /** The living secrets. */
  all(): Map<string, { data: object; custom: Readonly<Record<string, string>>; version: number }> {
    const living = [...this.#secrets].flatMap(([name, { current, versions, custom }]) => {
      const version = versions.get(current);
      const data = version && !version.destroyed && version.deletion_time === "" ? version.data : null;
      return data === null ? [] : [[name, { data, custom, version: current }] as const];
    });
    return new Map(living);
  }

  /** The names of secrets that were never written. */
  announced(): string[] {
    return [...this.#secrets].flatMap(([name, { current }]) => (current === 0 ? [name] : []));
  }

  #checkRevision({ revision }: Secret, { metadata_cas: given }: { metadata_cas?: number | undefined }): void {
    if (this.metadataCas === "ignored" || given === revision) return;
    if (given !== undefined) throw bad("metadata check-and-set parameter does not match the current version");
    if (this.metadataCas === "required") throw bad("metadata check-and-set parameter required for this call");
  }

  #new(): Secret {
    const created = this.#time();
    return { current: 0, oldest: 0, created, updated: created, versions: new Map(), custom: {}, revision: 0 };
  }

  #find(name: string): Secret {
    const secret = this.#secrets.get(name);
    if (!secret) throw none();
    return secret;
  }

  #shown({ custom, versions }: Secret, version: number): object {
    const { created_time = "", deletion_time = "", destroyed = false } = versions.get(version) ?? {};
    const custom_metadata = Object.keys(custom).length === 0 ? null : custom;
    return { created_time, custom_metadata, deletion_time, destroyed, version };
  }

  /** Never the same twice. */
  #time(): string {
    this.#lastTime = Math.max(Date.now(), this.#lastTime + 1);
    return new Date(this.#lastTime).toISOString().replace("Z", "000000Z");
  }
}
