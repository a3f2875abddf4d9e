import { ok, type Result, refuse } from "../../lib/result.ts";
import type { AuthMountTable } from "../auth-methods/auth-mounts.ts";
import type { MountTable } from "../mounts/mounts.ts";
import type { KeyRotation } from "../system/key-rotation.ts";
import type { NamespaceTree } from "./namespaces.ts";

/** Rules for the places of namespaces: where one may be created, and whether one is empty. */
export class NamespacePlaces {
  constructor(
    private readonly tree: NamespaceTree,
    private readonly mounts: MountTable,
    private readonly authMounts: AuthMountTable,
    private readonly keys: KeyRotation,
  ) {}

  /** The path of `name` below `parent`, if a namespace exists or may be created there. */
  place(parent: string, name: string): Result<string> {
    const within = this.tree.admit(parent);
    if (!within.ok) return within;
    const path = this.tree.check(parent, name);
    if (!path.ok) return path;
    const free = this.tree.has(path.value)
      ? this.tree.admit(path.value)
      : this.mounts.conflict(parent, path.value.slice(parent.length), () => false);
    return free.ok ? path : free;
  }

  /** Refused for a namespace with children, mounts, auth methods or destinations. */
  isEmpty(path: string): Result<null> {
    if (this.tree.children(path).length > 0) {
      return refuse("invalid", `child namespaces exist under path ${JSON.stringify(path)}, cannot remove`);
    }
    const mounted = this.mounts.list(path).map((mount) => mount.path);
    if (mounted.length > 0) return contains(path, "mounts", mounted);
    const methods = this.authMounts.list(path).map((mount) => `auth/${mount.path}`);
    if (methods.length > 0) return contains(path, "auth methods", methods);
    const destinations = this.keys.destinationsIn(path);
    return destinations.length > 0 ? contains(path, "sync destinations", destinations) : ok(null);
  }
}

const contains = (path: string, what: string, names: readonly string[]): Result<null> =>
  refuse(
    "in-use",
    `${what} exist in namespace ${JSON.stringify(path)}, cannot remove: ${names.slice(0, 10).join(", ")}`,
  );
