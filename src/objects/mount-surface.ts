import type { MountRequest, TuneRequest } from "../access/mounts.ts";
import type { Mount, MountType } from "../contracts/mount.ts";
import { ok, type Result } from "../lib/result.ts";
import { NamespaceSurface } from "./namespace-surface.ts";

/** What of `AccessControl` is about mounts. */
export abstract class MountSurface extends NamespaceSurface {
  listMounts(namespace: string): Mount[] {
    return this.parts.mountTable.list(namespace);
  }

  /** The mounts that a caller sees in a namespace; without a caller, those listed for everyone. */
  visibleMounts(accessor: string | null, namespace: string): Mount[] {
    return this.parts.mounts.visible(accessor === null ? null : this.parts.viewer(accessor), namespace);
  }

  /** The mount that a path falls under, if the caller may do anything on it. */
  visibleMount(accessor: string, namespace: string, path: string): Mount | null {
    const viewer = this.parts.viewer(accessor);
    return viewer && this.parts.mounts.visibleAt(viewer, namespace, path);
  }

  readMount(namespace: string, path: string): Result<Mount> {
    return this.parts.mounts.read(namespace, path);
  }

  /** The mount of a namespace that a path falls under. */
  findMount(namespace: string, path: string): Mount | null {
    return this.parts.mountTable.resolve(namespace, path);
  }

  /** Mounts of all namespaces by type: how many there are, and the first of them, each by its whole path. */
  everyMount(limit: number): Record<MountType, { total: number; some: { name: string; uuid: string }[] }> {
    const every = this.parts.mountTable.every();
    const of = (type: MountType) => {
      const mounts = every.filter((mount) => mount.type === type);
      const some = mounts.map(({ namespace, path, uuid }) => ({ name: namespace + path, uuid }));
      return { total: mounts.length, some: some.sort((a, b) => (a.name < b.name ? -1 : 1)).slice(0, limit) };
    };
    return { kv: of("kv"), "cloud-b": of("cloud-b") };
  }

  enableMount(namespace: string, path: string, request: MountRequest): Result<Mount> {
    return this.parts.mounts.enable(namespace, path, request);
  }

  tuneMount(namespace: string, path: string, request: TuneRequest): Result<Mount> {
    return this.parts.mounts.tune(namespace, path, request);
  }

  /** Takes a mount out of the table at once and has its data destroyed. One that is gone already counts as disabled. */
  async disableMount(namespace: string, path: string): Promise<Result<null>> {
    if (this.parts.mounts.disable(namespace, path)) await this.outbox.drain("unmount");
    return ok(null);
  }
}
