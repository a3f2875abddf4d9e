import { createHash, randomBytes } from "node:crypto";
import { type Operation, VaultError } from "./requests.ts";

interface Version {
  id: string;
  value: string;
  contentType: string | null;
  tags: Record<string, string> | null;
  enabled: boolean;
  nbf: number | null;
  exp: number | null;
  /** Seconds since the epoch, both. */
  created: number;
  updated: number;
}

interface Secret {
  name: string;
  versions: Version[];
  state: "active" | "deleting" | "deleted" | "recovering";
  /** How many more operations see `deleting` or `recovering`. */
  polls: number;
  /** Seconds since the epoch. */
  deletedAt: number;
}

/** One secret in `GET /_double/secrets`; value, type and tags are the newest version's. */
export interface SecretView {
  name: string;
  state: Secret["state"];
  value: string;
  contentType: string | null;
  tags: Record<string, string>;
  enabled: boolean;
  versions: { id: string; sha256: string; tags: Record<string, string> }[];
}

export interface VaultOptions {
  /** Milliseconds since the epoch. */
  now(): number;
  /** How many operations on a name after its deletion, or its recovery, still find that going on. */
  deletePolls: number;
  recoverPolls: number;
  /** New versions that are taken within 10 seconds (300 with the real service). */
  createsPer10s: number;
}

const recoverableDays = 90;

/**
 * The rules of one Key Vault's secrets (REST reference, API version 7.5) that our adapter depends on, in memory. Names are
 * one whatever their case, every deletion is soft, deletion and recovery take a while. Parameters are already checked.
 */
export class Vault {
  readonly #options: VaultOptions;
  /** Without a trailing slash. */
  readonly #uri: () => string;
  readonly #secrets = new Map<string, Secret>();
  /** Times of the newest creates, milliseconds. */
  #creates: number[] = [];

  constructor(uri: () => string, options: VaultOptions) {
    this.#uri = uri;
    this.#options = options;
  }

  reset(): void {
    this.#secrets.clear();
    this.#creates = [];
  }

  view(): SecretView[] {
    return [...this.#secrets.values()].map((secret) => {
      const { value, contentType, tags, enabled } = newest(secret);
      const versions = secret.versions.map(({ id, value: of, tags: with_ }) => ({
        id,
        sha256: createHash("sha256").update(of).digest("hex"),
        tags: with_ ?? {},
      }));
      return { name: secret.name, state: secret.state, value, contentType, tags: tags ?? {}, enabled, versions };
    });
  }

  /** Performs one operation; undefined is an answer without a body. Throws `VaultError`. */
  perform(given: Operation): Record<string, unknown> | undefined {
    const { operation, name, version } = given;
    const secret = this.#settled(name);
    switch (operation) {
      case "SetSecret":
        return this.#set(secret, given);
      case "GetSecret":
        return this.#get(active(secret, name), version);
      case "UpdateSecret":
        return this.#update(active(secret, name), given);
      case "DeleteSecret":
        return this.#delete(secret, name);
      case "GetDeletedSecret":
        return this.#deletedBundle(deleted(secret, name));
      case "RecoverDeletedSecret":
        return this.#recover(secret, name);
      case "PurgeDeletedSecret":
        this.#secrets.delete(deleted(secret, name).name.toLowerCase());
        return undefined;
      case "GetSecretVersions":
        // A secret that does not exist, or is deleted, has an empty list.
        return this.#page(given, `secrets/${name}/versions`, this.#versionItems(secret));
      case "GetSecrets":
        return this.#page(given, "secrets", this.#secretItems("active"));
      case "GetDeletedSecrets":
        return this.#page(given, "deletedsecrets", this.#secretItems("deleted"));
      default:
        throw new VaultError(404, "NotFound", `There is no ${operation}`);
    }
  }

  /** The secret, after the delay that one more operation represents. */
  #settled(name: string): Secret | undefined {
    const secret = this.#secrets.get(name.toLowerCase());
    if (secret === undefined || secret.state === "active" || secret.state === "deleted") return secret;
    if (secret.polls-- > 0) return secret;
    secret.state = secret.state === "deleting" ? "deleted" : "active";
    return secret;
  }

  #set(existing: Secret | undefined, { name, body }: Operation): Record<string, unknown> {
    refuseHeld(existing);
    if (existing?.state === "deleted") {
      const message = `Secret ${name} is currently in a deleted but recoverable state, and its name cannot be reused; in this state, the secret can only be recovered or purged.`;
      throw new VaultError(409, "Conflict", message, "ObjectIsDeletedButRecoverable");
    }
    this.#throttle();
    const secret: Secret = existing ?? { name, versions: [], state: "active", polls: 0, deletedAt: 0 };
    const at = this.#seconds();
    const version: Version = {
      id: randomBytes(16).toString("hex"),
      value: String(body["value"]),
      created: at,
      updated: at,
      contentType: null,
      tags: null,
      enabled: true,
      nbf: null,
      exp: null,
    };
    apply(version, body);
    secret.versions.push(version);
    this.#secrets.set(name.toLowerCase(), secret);
    return { value: version.value, ...this.#item(secret, version) };
  }

  #get(secret: Secret, id: string): Record<string, unknown> {
    const version = versionOf(secret, id);
    if (!version.enabled) {
      throw new VaultError(403, "Forbidden", "Operation get is not allowed on a disabled secret.", "SecretDisabled");
    }
    return { value: version.value, ...this.#item(secret, version) };
  }

  #update(secret: Secret, { version: id, body }: Operation): Record<string, unknown> {
    const version = versionOf(secret, id);
    apply(version, body);
    version.updated = this.#seconds();
    return this.#item(secret, version);
  }

  #delete(secret: Secret | undefined, name: string): Record<string, unknown> {
    refuseHeld(secret);
    const found = active(secret, name);
    Object.assign(found, { state: "deleting", polls: this.#options.deletePolls, deletedAt: this.#seconds() });
    if (found.polls === 0) found.state = "deleted";
    return this.#deletedBundle(found);
  }

  #recover(secret: Secret | undefined, name: string): Record<string, unknown> {
    refuseHeld(secret);
    if (secret?.state !== "deleted") throw notFound(name);
    Object.assign(secret, { state: "recovering", polls: this.#options.recoverPolls });
    if (secret.polls === 0) secret.state = "active";
    return this.#item(secret, newest(secret));
  }

  #throttle(): void {
    const now = this.#options.now();
    this.#creates = this.#creates.filter((at) => at > now - 10_000);
    if (this.#creates.length >= this.#options.createsPer10s) {
      const message =
        "Request was not processed because too many requests were received. Reason: VaultRequestTypeLimitReached";
      throw new VaultError(429, "Throttled", message, null, { "retry-after": "10" });
    }
    this.#creates.push(now);
  }

  #seconds(): number {
    return Math.floor(this.#options.now() / 1000);
  }

  /** A version without its value; absent members are absent. */
  #item({ name }: Secret, version: Version, withVersion = true): Record<string, unknown> {
    const { id, enabled, nbf, exp, created, updated, contentType, tags } = version;
    return {
      id: `${this.#uri()}/secrets/${name}${withVersion ? `/${id}` : ""}`,
      ...(contentType !== null && { contentType }),
      attributes: {
        enabled,
        created,
        updated,
        recoveryLevel: "Recoverable+Purgeable",
        recoverableDays,
        ...(nbf !== null && { nbf }),
        ...(exp !== null && { exp }),
      },
      ...(tags !== null && { tags }),
    };
  }

  #deletedBundle(secret: Secret, withVersion = true): Record<string, unknown> {
    return {
      recoveryId: `${this.#uri()}/deletedsecrets/${secret.name}`,
      deletedDate: secret.deletedAt,
      scheduledPurgeDate: secret.deletedAt + recoverableDays * 86_400,
      ...this.#item(secret, newest(secret), withVersion),
    };
  }

  /** In the order of their ids, which is none. */
  #versionItems(secret: Secret | undefined): Record<string, unknown>[] {
    if (secret?.state !== "active") return [];
    return secret.versions.toSorted((a, b) => (a.id < b.id ? -1 : 1)).map((version) => this.#item(secret, version));
  }

  #secretItems(state: Secret["state"]): Record<string, unknown>[] {
    const secrets = [...this.#secrets.values()].filter((secret) => secret.state === state);
    return secrets.map((secret) =>
      state === "deleted" ? this.#deletedBundle(secret, false) : this.#item(secret, newest(secret), false),
    );
  }

  #page({ maxresults, skiptoken }: Operation, path: string, items: unknown[]): Record<string, unknown> {
    const from = skiptoken === null ? 0 : Number(Buffer.from(skiptoken, "base64url").toString());
    if (!Number.isInteger(from)) throw new VaultError(400, "BadParameter", "The skip token is not valid");
    const to = from + maxresults;
    const token = Buffer.from(String(to)).toString("base64url");
    const uri = new URL(this.#uri());
    // The port is always named, as the real service does.
    const origin = `${uri.protocol}//${uri.hostname}:${uri.port || 443}`;
    const nextLink = `${origin}/${path}?api-version=7.5&$skiptoken=${token}&maxresults=${maxresults}`;
    return { value: items.slice(from, to), nextLink: to < items.length ? nextLink : null };
  }
}

/** The version that was created last; every secret has one. */
function newest({ versions }: Secret): Version {
  const version = versions.at(-1);
  if (version === undefined) throw new Error("a secret without versions");
  return version;
}

function versionOf(secret: Secret, id: string): Version {
  const version = id === "" ? newest(secret) : secret.versions.find((one) => one.id === id);
  if (version === undefined) throw notFound(`${secret.name}/${id}`);
  return version;
}

const notFound = (name: string) =>
  new VaultError(404, "SecretNotFound", `A secret with (name/id) ${name} was not found in this key vault.`);

function active(secret: Secret | undefined, name: string): Secret {
  if (secret?.state !== "active") throw notFound(name);
  return secret;
}

function deleted(secret: Secret | undefined, name: string): Secret {
  if (secret?.state === "deleted") return secret;
  throw new VaultError(404, "SecretNotFound", `Deleted Secret not found: ${name}`);
}

/** Writes, deletions and recoveries wait for each other. */
function refuseHeld(secret: Secret | undefined): void {
  if (secret?.state !== "deleting" && secret?.state !== "recovering") return;
  const [doing, inner] =
    secret.state === "deleting" ? ["deleted", "ObjectIsBeingDeleted"] : ["recovered", "ObjectIsBeingRecovered"];
  const message = `Secret ${secret.name} is currently being ${doing} and cannot be re-created; retry later.`;
  throw new VaultError(409, "Conflict", message, inner);
}

/** Takes over the fields that are given; tags replace those that were. */
function apply(version: Version, body: Record<string, unknown>): void {
  const { contentType, tags, attributes } = body as Partial<Pick<Version, "contentType" | "tags">> & {
    attributes?: Partial<Pick<Version, "enabled" | "nbf" | "exp">>;
  };
  if (contentType !== undefined) version.contentType = contentType;
  if (tags !== undefined) version.tags = { ...tags };
  Object.assign(version, attributes);
}
