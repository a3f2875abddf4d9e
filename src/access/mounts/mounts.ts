import * as z from "zod";
import type { Mount, MountConfig, MountSettings } from "../../contracts/mount.ts";
import { withoutUndefined } from "../../lib/json.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import { CLUSTER_ROOTS, SERVICE_ROOTS } from "../../platform/http/areas.ts";
import { mountRequest, mountSettings, names, tunedFields } from "./mount-fields.ts";
import { MountRows } from "./mount-rows.ts";

/** The only key for signing identity tokens. */
const SIGNING_KEY = "default";

const Config = z.object({
  ...mountSettings,
  allowed_managed_keys: names(),
  delegated_auth_accessors: names(),
  identity_token_key: z.enum(["", SIGNING_KEY], `there is no key but ${JSON.stringify(SIGNING_KEY)}`).optional(),
  plugin_version: z.literal("", "engines have no versions here; leave it out").optional(),
});

/** Body of `POST sys/mounts/:path`. */
export const MountRequest = mountRequest(Config);

/** Body of `POST sys/mounts/:path/tune`: only the settings that change. */
export const TuneRequest = Config.extend(tunedFields);

/** The config of a mount without settings. */
export const NEW_CONFIG: MountConfig = {
  default_lease_ttl: 0,
  max_lease_ttl: 0,
  force_no_cache: false,
  listing_visibility: "",
};

/** Merges settings into a config. An empty list or text removes a setting. */
export function configWith(
  before: MountConfig,
  given: MountSettings & { readonly plugin_version?: unknown },
): MountConfig {
  const { plugin_version: _, ...settings } = given;
  const merged = { ...before, ...withoutUndefined(settings) };
  const kept = Object.entries(merged).filter(([name, value]) => name in NEW_CONFIG || (value as string).length > 0);
  return Object.fromEntries(kept) as unknown as MountConfig;
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
  const path = `${segments.join("/")}/`;
  if (SERVICE_ROOTS.has(first) || CLUSTER_ROOTS.has(first))
    return refuse("invalid", `cannot mount ${JSON.stringify(path)}`);
  return ok(path);
}

/** Mounts by path, by the namespace they belong to. */
type ByNamespace = ReadonlyMap<string, ReadonlyMap<string, Mount>>;

function byNamespace(mounts: readonly Mount[]): ByNamespace {
  const all = new Map<string, Map<string, Mount>>();
  for (const mount of mounts) {
    const found = all.get(mount.namespace) ?? new Map<string, Mount>();
    all.set(mount.namespace, found.set(mount.path, mount));
  }
  return all;
}

/** The mount table. */
export class MountTable extends MountRows<Mount, ByNamespace> {
  constructor(sql: SqlStorage) {
    super(sql, "mounts", "", byNamespace);
  }

  /** The mount of `path` (relative to the namespace): the longest mount path that is a prefix by whole segments. */
  resolve(namespace: string, path: string): Mount | null {
    const mounts = this.index.get(namespace);
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
    return [...(this.index.get(namespace)?.values() ?? [])].sort((a, b) => (a.path < b.path ? -1 : 1));
  }

  get(namespace: string, path: string): Mount | null {
    return this.index.get(namespace)?.get(path) ?? null;
  }

  every(): Mount[] {
    return [...this.index.values()].flatMap((mounts) => [...mounts.values()]);
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
}
