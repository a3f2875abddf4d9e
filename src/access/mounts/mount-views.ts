import type { ListedAuthMount } from "../../contracts/auth.ts";
import type {
  ListedMount,
  Mount,
  MountPlace,
  MountType,
  VisibleAuthMount,
  VisibleAuthMounts,
} from "../../contracts/mount.ts";
import type { Located } from "../../contracts/namespaces.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import type { DeploymentState } from "../../platform/durable/deployment-state.ts";
import { mountTypes } from "../../rights/mount-routes.ts";
import { mayBelow } from "../../rights/path-rules.ts";
import type { AuthMountTable } from "../auth-methods/auth-mounts.ts";
import type { TokenMethods } from "../auth-methods/token-methods.ts";
import type { NamespaceTree } from "../namespaces/namespaces.ts";
import type { Grants } from "../policies/policy-store.ts";
import { builtInMounts, builtInPath } from "./built-in-mounts.ts";
import { type MountTable, mountPath } from "./mounts.ts";

/** The rights and the namespace of a caller that reads mounts; it sees no mounts outside its namespace. */
export interface Viewer {
  readonly grants: Grants;
  readonly namespace: string;
}

/** Reads mounts for listings, built-in ones included. */
export class MountViews {
  constructor(
    private readonly table: MountTable,
    private readonly authMounts: AuthMountTable,
    private readonly tokenMethods: TokenMethods,
    private readonly namespaces: NamespaceTree,
    private readonly state: DeploymentState,
  ) {}

  /** Mounts of a namespace, built-in ones included, by path. */
  list(namespace: string): ListedMount[] {
    const mounts: ListedMount[] = [...this.table.list(namespace), ...this.#builtIn(namespace)];
    return mounts.sort((a, b) => (a.path < b.path ? -1 : 1));
  }

  #builtIn(namespace: string): ListedMount[] {
    const id = this.namespaces.idOf(namespace);
    return id === null ? [] : builtInMounts(namespace, `${this.state.get("cluster_id") ?? ""} ${id}`);
  }

  /** Mounts of a namespace with any right of the viewer; without a viewer, those listed for everyone. */
  visible(viewer: Viewer | null, namespace: string): ListedMount[] {
    return this.list(namespace).filter((mount) => isPublic(mount) || (viewer !== null && sees(viewer, mount)));
  }

  /** Mounts of a namespace and of those below it with any right of the viewer, by uuid. @param after the uuid before */
  searchable(viewer: Viewer, namespace: string, after: string, limit: number): Mount[] {
    return this.table
      .every()
      .filter((mount) => mount.uuid > after && mount.namespace.startsWith(namespace) && sees(viewer, mount))
      .sort((a, b) => (a.uuid < b.uuid ? -1 : 1))
      .slice(0, limit);
  }

  /** The mount of a path, also below a child namespace, if the viewer has any right on it. */
  visibleAt(viewer: Viewer, namespace: string, path: string): ListedMount | null {
    const at = this.namespaces.split(namespace, path);
    const builtIn = builtInPath(at.path);
    const mount =
      builtIn === null
        ? this.table.resolve(at.namespace, at.path)
        : this.#builtIn(at.namespace).find((each) => each.path === builtIn);
    return mount && (isPublic(mount) || sees(viewer, mount)) ? mount : null;
  }

  /** Like `visible`, for auth methods. */
  visibleAuth(viewer: Viewer | null, namespace: string): VisibleAuthMounts {
    const methods = [...this.authMounts.list(namespace), this.tokenMethods.get(namespace)];
    const isSeen = (path: string) => viewer !== null && seesPath(viewer, namespace, `auth/${path}`);
    return { methods: methods.filter((method) => isPublic(method) || isSeen(method.path)) };
  }

  /** Like `visibleAt`, for auth methods. */
  visibleAuthAt(viewer: Viewer, namespace: string, path: string): VisibleAuthMount | null {
    const at = this.namespaces.split(namespace, path);
    const mount = this.#authMount(at);
    if (mount === null) return null;
    const isSeen = isPublic(mount) || seesPath(viewer, at.namespace, `auth/${mount.path}`);
    return isSeen ? { namespace: at.namespace, mount } : null;
  }

  #authMount({ namespace, path }: Located): ListedAuthMount | null {
    if (`${path}/`.startsWith("auth/token/")) return this.tokenMethods.get(namespace);
    return this.authMounts.resolve(namespace, path)?.mount ?? null;
  }

  /** The place of a mount; null after its deletion. */
  place(uuid: string): MountPlace | null {
    const mount = this.table.every().find((each) => each.uuid === uuid);
    if (!mount) return null;
    const { namespace, path, type, accessor } = mount;
    return { namespace, path, type, accessor };
  }

  /** Counts the mounts of all namespaces by type, with the first `limit` of each by full path. */
  every(limit: number): Record<MountType, { total: number; some: { name: string; uuid: string }[] }> {
    const every = this.table.every();
    const of = (type: MountType) => {
      const mounts = every.filter((mount) => mount.type === type);
      const some = mounts.map(({ namespace, path, uuid }) => ({ name: namespace + path, uuid }));
      return { total: mounts.length, some: some.sort((a, b) => (a.name < b.name ? -1 : 1)).slice(0, limit) };
    };
    return Object.fromEntries(mountTypes().map((type) => [type, of(type)]));
  }

  read(namespace: string, path: string): Result<Mount> {
    const named = mountPath(path);
    const mount = named.ok ? this.table.get(namespace, named.value) : null;
    return mount ? ok(mount) : refuse("invalid", `No secret engine mount at ${path.replace(/\/*$/, "/")}`);
  }

  /** Like `read`, built-in mounts included. */
  readListed(namespace: string, path: string): Result<ListedMount> {
    const builtIn = this.#builtIn(namespace).find((mount) => mount.path === `${path.replace(/\/+$/, "")}/`);
    return builtIn ? ok(builtIn) : this.read(namespace, path);
  }
}

/** Whether listings for callers without a token show a mount. */
const isPublic = ({ config }: Pick<ListedMount | ListedAuthMount, "config">): boolean =>
  config.listing_visibility === "unauth";

const sees = (viewer: Viewer, { namespace, path }: ListedMount): boolean => seesPath(viewer, namespace, path);

const seesPath = (viewer: Viewer, namespace: string, path: string): boolean =>
  namespace.startsWith(viewer.namespace) && (viewer.grants.root || mayBelow(viewer.grants.paths, namespace + path));
