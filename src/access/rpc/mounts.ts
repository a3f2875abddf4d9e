import type {
  ListedMount,
  Located,
  Mount,
  MountsApi,
  MountType,
  Remount,
  VisibleAuthMount,
  VisibleAuthMounts,
} from "../../contracts/mount.ts";
import { ok, type Result } from "../../lib/result.ts";
import type { Outbox } from "../../platform/durable/outbox.ts";
import type { MountAdmin } from "../mounts/mount-admin.ts";
import type { MountViews } from "../mounts/mount-views.ts";
import type { MountRequest, TuneRequest } from "../mounts/mounts.ts";
import type { Remounts } from "../mounts/remounts.ts";
import type { TokenHolders } from "../tokens/token-holders.ts";

/** RPC methods about mounts. Changes resolve after one attempt to inform the mount's object. */
export class MountMethods implements MountsApi {
  readonly #views: MountViews;
  readonly #mounts: MountAdmin;
  readonly #remounts: Remounts;
  readonly #holders: TokenHolders;
  readonly #outbox: Outbox;

  constructor(views: MountViews, mounts: MountAdmin, remounts: Remounts, holders: TokenHolders, outbox: Outbox) {
    this.#views = views;
    this.#mounts = mounts;
    this.#remounts = remounts;
    this.#holders = holders;
    this.#outbox = outbox;
  }

  listMounts(namespace: string): ListedMount[] {
    return this.#views.list(namespace);
  }

  visibleMounts(accessor: string | null, namespace: string): ListedMount[] {
    return this.#views.visible(accessor === null ? null : this.#holders.viewer(accessor), namespace);
  }

  visibleMount(accessor: string, namespace: string, path: string): ListedMount | null {
    const viewer = this.#holders.viewer(accessor);
    return viewer && this.#views.visibleAt(viewer, namespace, path);
  }

  visibleAuthMounts(accessor: string | null, namespace: string): VisibleAuthMounts {
    return this.#views.visibleAuth(accessor === null ? null : this.#holders.viewer(accessor), namespace);
  }

  visibleAuthMount(accessor: string, namespace: string, path: string): VisibleAuthMount | null {
    const viewer = this.#holders.viewer(accessor);
    return viewer && this.#views.visibleAuthAt(viewer, namespace, path);
  }

  readMount(namespace: string, path: string): Result<ListedMount> {
    return this.#views.readListed(namespace, path);
  }

  findMount(namespace: string, path: string): Mount | null {
    return this.#views.resolve(namespace, path);
  }

  mountPlace(uuid: string): Located | null {
    return this.#views.place(uuid);
  }

  everyMount(limit: number): Record<MountType, { total: number; some: { name: string; uuid: string }[] }> {
    return this.#views.every(limit);
  }

  async enableMount(namespace: string, path: string, request: MountRequest): Promise<Result<Mount>> {
    await this.#vacated(namespace, path);
    return this.#mounts.enable(namespace, path, request);
  }

  async tuneMount(namespace: string, path: string, request: TuneRequest): Promise<Result<Mount>> {
    const tuned = this.#mounts.tune(namespace, path, request);
    await this.#outbox.drain("upgrade");
    return tuned;
  }

  async remount(from: Located, to: Located): Promise<Result<string>> {
    await this.#vacated(to.namespace, to.path);
    const moved = this.#remounts.move(from, to);
    if (moved.ok) await this.#outbox.drain("moved");
    return moved;
  }

  remountStatus(namespace: string, id: string): Remount | null {
    return this.#remounts.status(namespace, id);
  }

  mountsOfLease(namespace: string, id: string): { mount: Mount; id: string }[] {
    return this.#remounts.ofLease(namespace, id);
  }

  async disableMount(namespace: string, path: string): Promise<Result<null>> {
    const disabled = this.#mounts.disable(namespace, path);
    if (!disabled.ok) return disabled;
    if (disabled.value) await this.#outbox.drain("unmount");
    return ok(null);
  }

  /** Resolves once no isolate uses a cached grant for a mount that left this path. */
  async #vacated(namespace: string, path: string): Promise<void> {
    const until = this.#remounts.vacatedUntil(namespace, path);
    if (until > 0) await scheduler.wait(until - Date.now());
  }
}
