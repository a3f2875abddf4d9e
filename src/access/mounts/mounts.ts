import { randomBytes } from "node:crypto";
import * as z from "zod";
import type { Mount, MountConfig, MountType } from "../../contracts/mount.ts";
import { withoutUndefined } from "../../lib/json.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import { CLUSTER_ROOTS, SERVICE_ROOTS } from "../../platform/http/areas.ts";
import { duration, flag, stringList, stringMap } from "../../platform/http/fields.ts";

/** The only key for signing identity tokens. */
const SIGNING_KEY = "default";

/** The stored config of a mount, with two fields of the record beside it. */
type StoredConfig = MountConfig & { readonly local?: boolean; readonly seal_wrap?: boolean };

/** Seconds; `system` or 0 means the system's TTL. */
const leaseTtl = () => z.preprocess((given) => (given === "system" ? 0 : given), duration()).optional();

const MAX_NAMES = 128;
const names = () =>
  stringList()
    .pipe(z.array(z.string().max(256)).max(MAX_NAMES))
    .optional();

const Config = z.object({
  default_lease_ttl: leaseTtl(),
  max_lease_ttl: leaseTtl(),
  force_no_cache: flag().optional(),
  listing_visibility: z.enum(["", "hidden", "unauth"]).optional(),
  passthrough_request_headers: names(),
  allowed_response_headers: names(),
  audit_non_hmac_request_keys: names(),
  audit_non_hmac_response_keys: names(),
  allowed_managed_keys: names(),
  delegated_auth_accessors: names(),
  identity_token_key: z.enum(["", SIGNING_KEY], `there is no key but ${JSON.stringify(SIGNING_KEY)}`).optional(),
  plugin_version: z.literal("", "engines have no versions here; leave it out").optional(),
});

/** Body of `POST sys/mounts/:path`. */
export const MountRequest = z.object({
  type: z.string("type: required, the engine to mount").min(1),
  description: z.string().max(4096).default(""),
  config: Config.nullish(),
  options: stringMap().nullish(),
  local: flag().default(false),
  seal_wrap: flag().default(false),
  external_entropy_access: flag()
    .refine((wanted) => !wanted, "there is no external source of entropy")
    .optional(),
});
export type MountRequest = z.infer<typeof MountRequest>;

/** Body of `POST sys/mounts/:path/tune`: only the settings that change. */
export const TuneRequest = Config.extend({
  description: z.string().max(4096).optional(),
  options: stringMap().nullish(),
});
export type TuneRequest = z.infer<typeof TuneRequest>;

const NEW_CONFIG: MountConfig = {
  default_lease_ttl: 0,
  max_lease_ttl: 0,
  force_no_cache: false,
  listing_visibility: "",
};

/** Merges settings into a config. An empty list or text removes a setting. */
export function configWith(before: MountConfig, given: Omit<TuneRequest, "description" | "options">): MountConfig {
  const { plugin_version: _, ...settings } = given;
  const merged = { ...before, ...withoutUndefined(settings) };
  const kept = Object.entries(merged).filter(([name, value]) => name in NEW_CONFIG || (value as string).length > 0);
  return Object.fromEntries(kept) as unknown as MountConfig;
}

const storedConfig = ({ config, local, seal_wrap }: Mount): string =>
  JSON.stringify({ ...config, ...(local && { local }), ...(seal_wrap && { seal_wrap }) } satisfies StoredConfig);

interface MountRow extends Record<string, SqlStorageValue> {
  namespace: string;
  path: string;
  type: string;
  accessor: string;
  uuid: string;
  description: string;
  options: string;
  config: string;
}

const SEGMENT = /^[^\p{Cc}/?#%+*]{1,128}$/u;

/** Normalizes a mount path to the stored form `a/b/`, or refuses it. */
export function mountPath(text: string): Result<string> {
  const segments = text.split("/").filter((segment) => segment !== "");
  const [first] = segments;
  if (first === undefined) return refuse("invalid", "mount path: must not be empty");
  if (text.length > 512 || segments.length > 16)
    return refuse("invalid", "mount path: at most 512 characters and 16 segments");
  if (segments.some((segment) => !SEGMENT.test(segment) || segment === "." || segment === "..")) {
    return refuse(
      "invalid",
      "mount path: segments must not hold control characters or any of ? # % + *, nor be . or ..",
    );
  }
  if (SERVICE_ROOTS.has(first) || CLUSTER_ROOTS.has(first))
    return refuse("invalid", `mount path: ${JSON.stringify(first)} is reserved`);
  return ok(`${segments.join("/")}/`);
}

/** The mount table. It is small and held in memory, because every request resolves a mount. A write drops the copy. */
export class MountTable {
  readonly #sql: SqlStorage;
  #byNamespace: Map<string, Map<string, Mount>> | undefined;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  /** The mount of `path` (relative to the namespace): the longest mount path that is a prefix by whole segments. */
  resolve(namespace: string, path: string): Mount | null {
    const mounts = this.#all().get(namespace);
    if (!mounts) return null;
    for (let end = path.indexOf("/"); ; end = path.indexOf("/", end + 1)) {
      const prefix = end < 0 ? `${path}/` : path.slice(0, end + 1);
      const mount = mounts.get(prefix);
      // Mounts never nest, so the first match is the only one.
      if (mount) return mount;
      if (end < 0) return null;
    }
  }

  list(namespace: string): Mount[] {
    return [...(this.#all().get(namespace)?.values() ?? [])].sort((a, b) => (a.path < b.path ? -1 : 1));
  }

  get(namespace: string, path: string): Mount | null {
    return this.#all().get(namespace)?.get(path) ?? null;
  }

  every(): Mount[] {
    return [...this.#all().values()].flatMap((mounts) => [...mounts.values()]);
  }

  /** Refuses a path that overlaps with a mount, or leads into a namespace. */
  conflict(namespace: string, path: string, isNamespace: (path: string) => boolean): Result<null> {
    for (const mount of this.list(namespace)) {
      if (mount.path.startsWith(path) || path.startsWith(mount.path)) {
        return refuse("invalid", `path is already in use at ${mount.path}`);
      }
    }
    // Requests below such a path would be routed to the namespace.
    for (let end = path.indexOf("/"); end >= 0; end = path.indexOf("/", end + 1)) {
      const prefix = path.slice(0, end + 1);
      if (isNamespace(namespace + prefix))
        return refuse("invalid", `path is already in use by the namespace ${prefix}`);
    }
    return ok(null);
  }

  insert(namespace: string, path: string, type: MountType, request: MountRequest, now: number): Mount {
    const mount: Mount = {
      namespace,
      path,
      type,
      accessor: `${type}_${randomBytes(4).toString("hex")}`,
      uuid: crypto.randomUUID(),
      description: request.description,
      options: request.options ?? {},
      local: request.local,
      seal_wrap: request.seal_wrap,
      config: configWith(NEW_CONFIG, request.config ?? {}),
    };
    this.#sql.exec(
      `INSERT INTO mounts (namespace, path, type, accessor, uuid, description, options, config, created)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      namespace,
      path,
      type,
      mount.accessor,
      mount.uuid,
      mount.description,
      JSON.stringify(mount.options),
      storedConfig(mount),
      now,
    );
    this.#byNamespace = undefined;
    return mount;
  }

  update(mount: Mount): void {
    this.#sql.exec(
      "UPDATE mounts SET description = ?, options = ?, config = ? WHERE uuid = ?",
      mount.description,
      JSON.stringify(mount.options),
      storedConfig(mount),
      mount.uuid,
    );
    this.#byNamespace = undefined;
  }

  /** Moves a mount inside its namespace. Runs inside a transaction. @returns the mount at its new path */
  move(mount: Mount, path: string): Mount {
    this.#sql.exec("UPDATE mounts SET path = ? WHERE uuid = ?", path, mount.uuid);
    this.#byNamespace = undefined;
    return { ...mount, path };
  }

  delete(uuid: string): void {
    this.#sql.exec("DELETE FROM mounts WHERE uuid = ?", uuid);
    this.#byNamespace = undefined;
  }

  #all(): Map<string, Map<string, Mount>> {
    if (this.#byNamespace) return this.#byNamespace;
    const all = new Map<string, Map<string, Mount>>();
    for (const row of this.#sql.exec<MountRow>("SELECT * FROM mounts")) {
      const mounts = all.get(row.namespace) ?? new Map<string, Mount>();
      all.set(row.namespace, mounts);
      const { local = false, seal_wrap = false, ...config } = JSON.parse(row.config) as StoredConfig;
      mounts.set(row.path, {
        namespace: row.namespace,
        path: row.path,
        type: row.type as MountType,
        accessor: row.accessor,
        uuid: row.uuid,
        description: row.description,
        options: JSON.parse(row.options) as Record<string, string>,
        ...{ local, seal_wrap, config },
      });
    }
    this.#byNamespace = all;
    return all;
  }
}
