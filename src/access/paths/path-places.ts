import type { AuthMountTable } from "../auth-methods/auth-mounts.ts";
import type { MountTable } from "../mounts/mounts.ts";
import type { NamespaceTree } from "../namespaces/namespaces.ts";

/** Mounts that every namespace has. */
const SERVICE_MOUNTS = /^(?:sys|identity|cubbyhole|auth\/token)\//;

/** The places that paths lead to, for quotas. */
export class PathPlaces {
  readonly #namespaces: NamespaceTree;
  readonly #mounts: MountTable;
  readonly #authMounts: AuthMountTable;

  constructor(namespaces: NamespaceTree, mounts: MountTable, authMounts: AuthMountTable) {
    this.#namespaces = namespaces;
    this.#mounts = mounts;
    this.#authMounts = authMounts;
  }

  /** The place of a path from the root; null when there is neither a namespace nor a mount. */
  of(path: string): "namespace" | "mount" | "inside" | null {
    const folder = path.replace(/\/?$/, "/");
    if (this.#namespaces.has(folder)) return "namespace";
    const at = this.#namespaces.split("", folder);
    const auth = this.#authMounts.resolve(at.namespace, at.path);
    if (auth) return auth.path === "" ? "mount" : "inside";
    const mount = this.#mounts.resolve(at.namespace, at.path)?.path ?? SERVICE_MOUNTS.exec(at.path)?.[0];
    if (mount === undefined) return null;
    return mount === at.path ? "mount" : "inside";
  }
}
