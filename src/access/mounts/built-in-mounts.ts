import { createHash } from "node:crypto";
import type { BuiltInType, ListedMount } from "../../contracts/mount.ts";
import { textBefore } from "../../lib/text-before.ts";

/** The engines that every namespace has, with the descriptions of https://developer.hashicorp.com/vault/docs/secrets. */
const BUILT_IN: readonly { path: string; type: BuiltInType; description: string; local: boolean }[] = [
  { path: "cubbyhole/", type: "cubbyhole", description: "per-token private secret storage", local: true },
  { path: "identity/", type: "identity", description: "identity store", local: false },
  {
    path: "sys/",
    type: "system",
    description: "system endpoints used for control, policy and debugging",
    local: false,
  },
];

const CONFIG = { default_lease_ttl: 0, max_lease_ttl: 0, force_no_cache: false, listing_visibility: "" } as const;

/**
 * The rows of these engines in a listing of mounts. Accessor and uuid are derived, and constant for the lifetime of the
 * namespace.
 * @param id the deployment and the namespace
 */
export function builtInMounts(namespace: string, id: string): ListedMount[] {
  return BUILT_IN.map(({ path, type, description, local }) => {
    const hash = createHash("sha256").update(`${type} ${id}`).digest("hex");
    const uuid = hash.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12}).*$/, "$1-$2-$3-$4-$5");
    const accessor = `${type}_${hash.slice(-8)}`;
    return { namespace, path, type, accessor, uuid, description, local, options: {}, seal_wrap: false, config: CONFIG };
  });
}

/** The built-in engine of a path, as `cubbyhole/`; null for other paths. */
export function builtInPath(path: string): string | null {
  const root = textBefore(path.replace(/^\/+/, ""), "/");
  return BUILT_IN.some((mount) => mount.path === `${root}/`) ? `${root}/` : null;
}
