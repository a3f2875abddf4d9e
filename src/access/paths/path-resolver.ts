import type { AuthPlace } from "../../contracts/auth.ts";
import type { Mount } from "../../contracts/mount.ts";
import type { Located } from "../../contracts/namespaces.ts";
import type { AuthMountTable } from "../auth-methods/auth-mounts.ts";
import type { MountTable } from "../mounts/mounts.ts";
import type { NamespaceTree } from "../namespaces/namespaces.ts";

/** Mounts that every namespace has. */
const SERVICE_MOUNTS = /^(?:sys|identity|cubbyhole|auth\/token)\//;

/**
 * Resolves the paths of requests to namespaces and mounts. Read by the evaluation of rules for every request, and by
 * rate-limit quotas. Costs no read of rows: the tables keep theirs in memory.
 */
export class PathResolver {
  constructor(
    private readonly namespaces: NamespaceTree,
    private readonly mounts: MountTable,
    private readonly authMounts: AuthMountTable,
  ) {}

  hasNamespace(namespace: string): boolean {
    return this.namespaces.has(namespace);
  }

  /** The id of a namespace; empty when it does not exist. */
  namespaceId(namespace: string): string {
    return this.namespaces.idOf(namespace) ?? "";
  }

  /** Splits a path into the deepest namespace that leads it, and the rest. */
  split(namespace: string, path: string): Located {
    return this.namespaces.split(namespace, path);
  }

  /** The mount that contains a path, or null. */
  mountAt({ namespace, path }: Located): Mount | null {
    return this.mounts.resolve(namespace, path);
  }

  /** The auth mount that contains a path, and the path inside it; or null. */
  authMountAt({ namespace, path }: Located): AuthPlace | null {
    return this.authMounts.resolve(namespace, path);
  }

  /** The kind of place that a path from the root names; null when there is neither a namespace nor a mount. */
  kindOf(path: string): "namespace" | "mount" | "inside" | null {
    const folder = path.replace(/\/?$/, "/");
    if (this.namespaces.has(folder)) return "namespace";
    const at = this.split("", folder);
    const auth = this.authMountAt(at);
    if (auth) return auth.path === "" ? "mount" : "inside";
    const mount = this.mountAt(at)?.path ?? SERVICE_MOUNTS.exec(at.path)?.[0];
    if (mount === undefined) return null;
    return mount === at.path ? "mount" : "inside";
  }
}
