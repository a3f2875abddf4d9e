import { neutralMountType } from "../compat/cloud-b-names.ts";
import { isVersioned, type ListedMount, MOUNT_TYPES, type Mount, type MountType } from "../contracts/mount.ts";
import { ok, type Refusal, type Result, refuse } from "../lib/result.ts";
import { builtInMounts, builtInPath } from "./built-in-mounts.ts";
import { configWith, type MountRequest, type MountTable, mountPath, type TuneRequest } from "./mounts.ts";
import type { NamespaceTree } from "./namespaces.ts";
import { mayBelow } from "./path-rules.ts";
import type { Grants } from "./policy-store.ts";
import { SYSTEM_MAX_TTL } from "./token.ts";

interface Dependencies {
  commit<T>(change: () => T): T;
  /** Enqueues the destruction of a mount's data. Call inside `commit`. */
  destroyLater(mount: Mount): void;
  /** Enqueues the end of version 1 writes in the store of an upgraded KV mount. Call inside `commit`. */
  upgradeLater(mount: Mount): void;
  /** The id of the deployment. */
  deploymentId(): string;
}

/** The rights and the namespace of a caller that reads mounts; it sees no mounts outside its namespace. */
export interface Viewer {
  readonly grants: Grants;
  readonly namespace: string;
}

/** Enables, tunes and disables mounts, and lists those visible to a caller. */
export class MountAdmin {
  readonly #table: MountTable;
  readonly #namespaces: NamespaceTree;
  readonly #deps: Dependencies;

  constructor(table: MountTable, namespaces: NamespaceTree, deps: Dependencies) {
    this.#table = table;
    this.#namespaces = namespaces;
    this.#deps = deps;
  }

  /** Mounts of a namespace, built-in ones included, by path. */
  list(namespace: string): ListedMount[] {
    const mounts: ListedMount[] = [...this.#table.list(namespace), ...this.#builtIn(namespace)];
    return mounts.sort((a, b) => (a.path < b.path ? -1 : 1));
  }

  #builtIn(namespace: string): ListedMount[] {
    const id = this.#namespaces.idOf(namespace);
    return id === null ? [] : builtInMounts(namespace, `${this.#deps.deploymentId()} ${id}`);
  }

  /** Mounts of a namespace with any right of the viewer; without a viewer, those listed for everyone. */
  visible(viewer: Viewer | null, namespace: string): ListedMount[] {
    return this.list(namespace).filter((mount) => isListed(mount) || (viewer !== null && sees(viewer, mount)));
  }

  /** The mount of a path, also below a child namespace, if the viewer has any right on it. */
  visibleAt(viewer: Viewer, namespace: string, path: string): ListedMount | null {
    const at = this.#namespaces.split(namespace, path);
    const builtIn = builtInPath(at.path);
    const mount =
      builtIn === null
        ? this.#table.resolve(at.namespace, at.path)
        : this.#builtIn(at.namespace).find((each) => each.path === builtIn);
    return mount && (isListed(mount) || sees(viewer, mount)) ? mount : null;
  }

  /** Removes a mount from the table; its data is destroyed later. @returns whether it existed */
  every(limit: number): Record<MountType, { total: number; some: { name: string; uuid: string }[] }> {
    const every = this.#table.every();
    const of = (type: MountType) => {
      const mounts = every.filter((mount) => mount.type === type);
      const some = mounts.map(({ namespace, path, uuid }) => ({ name: namespace + path, uuid }));
      return { total: mounts.length, some: some.sort((a, b) => (a.name < b.name ? -1 : 1)).slice(0, limit) };
    };
    return { kv: of("kv"), "cloud-b": of("cloud-b") };
  }

  read(namespace: string, path: string): Result<Mount> {
    const named = mountPath(path);
    const mount = named.ok ? this.#table.get(namespace, named.value) : null;
    return mount ? ok(mount) : refuse("invalid", `No secret engine mount at ${path.replace(/\/*$/, "/")}`);
  }

  /** Like `read`, built-in mounts included. */
  readListed(namespace: string, path: string): Result<ListedMount> {
    const builtIn = this.#builtIn(namespace).find((mount) => mount.path === `${path.replace(/\/+$/, "")}/`);
    return builtIn ? ok(builtIn) : this.read(namespace, path);
  }

  enable(namespace: string, path: string, request: MountRequest): Result<Mount> {
    const admitted = this.#namespaces.admit(namespace);
    if (!admitted.ok) return admitted;
    const named = mountPath(path);
    if (!named.ok) return named;
    const type = neutralMountType(KV_ALIASES.has(request.type) ? "kv" : request.type);
    const known = MOUNT_TYPES.find((name) => name === type);
    if (!known) return refuse("invalid", `plugin not found in the catalog: ${type.slice(0, 64)}`);
    const options = known === "kv" ? kvOptions(request.type, request.options ?? {}) : ok(request.options ?? {});
    if (!options.ok) return options;
    const refused = refusedTtls(request.config ?? {});
    if (refused) return refused;
    const free = this.#table.conflict(namespace, named.value, (prefix) => this.#namespaces.has(prefix));
    if (!free.ok) return free;
    const whole = { ...request, options: options.value };
    return ok(this.#deps.commit(() => this.#table.insert(namespace, named.value, known, whole, Date.now())));
  }

  /**
   * Changes settings of a mount. `options.version` 2 upgrades a KV mount of version 1 at once: its store holds every
   * secret as version 1 already.
   */
  tune(namespace: string, path: string, request: TuneRequest): Result<Mount> {
    const builtIn = builtInPath(path);
    if (builtIn !== null) return refuse("invalid", `cannot tune ${JSON.stringify(builtIn)}`);
    const mount = this.read(namespace, path);
    if (!mount.ok) return mount;
    const { description, options, ...config } = request;
    const refusedVersion = mount.value.type === "kv" ? refusedChange(mount.value, options?.["version"]) : null;
    if (refusedVersion) return refusedVersion;
    const changed: Mount = {
      ...mount.value,
      description: description ?? mount.value.description,
      options: { ...mount.value.options, ...options },
      config: configWith(mount.value.config, config),
    };
    const refused = refusedTtls(changed.config);
    if (refused) return refused;
    this.#deps.commit(() => {
      this.#table.update(changed);
      if (isVersioned(changed) && !isVersioned(mount.value)) this.#deps.upgradeLater(changed);
    });
    return ok(changed);
  }

  /** The refusal of invalid lease TTLs; null for valid ones. */
  disable(namespace: string, path: string): Result<boolean> {
    const builtIn = builtInPath(path);
    if (builtIn !== null) return refuse("invalid", `cannot unmount ${JSON.stringify(builtIn)}`);
    const mount = this.read(namespace, path);
    if (!mount.ok) return ok(false);
    this.#deps.commit(() => {
      this.#table.delete(mount.value.uuid);
      this.#deps.destroyLater(mount.value);
    });
    return ok(true);
  }
}

/** Versions of the KV engine that a type names. Without a version, `kv` is version 1, as upstream. */
const KV_VERSIONS: Readonly<Record<string, string>> = { "kv-v1": "1", "kv-v2": "2" };

/** Other names of the KV engine; `generic` is its oldest one, which upstream still accepts. */
const KV_ALIASES: ReadonlySet<string> = new Set(["generic", ...Object.keys(KV_VERSIONS)]);

const badVersion = (): Refusal => refuse("invalid", 'options.version: must be "1" or "2"');

/** The options of a new KV mount. */
function kvOptions(type: string, given: Readonly<Record<string, string>>): Result<Readonly<Record<string, string>>> {
  const { version, ...options } = given;
  const named = KV_VERSIONS[type];
  if (named !== undefined && version && version !== named)
    return refuse("invalid", `options.version: the type ${type} is version ${named}`);
  const chosen = version || named;
  if (chosen === undefined) return ok(options);
  return chosen === "1" || chosen === "2" ? ok({ ...options, version: chosen }) : badVersion();
}

/** Why a KV mount cannot change to a version; null when it can. */
function refusedChange(mount: Mount, version: string | undefined): Refusal | null {
  if (version === undefined || version === "2") return null;
  if (version !== "1") return badVersion();
  return isVersioned(mount) ? refuse("invalid", "cannot downgrade mount from version 2") : null;
}

/** Why a mount cannot have these lease times; null when it can. */
function refusedTtls(config: {
  default_lease_ttl?: number | undefined;
  max_lease_ttl?: number | undefined;
}): Refusal | null {
  const { default_lease_ttl: usual = 0, max_lease_ttl: most = 0 } = config;
  if (most > 0 && usual > most) {
    return refuse("invalid", "given default lease TTL greater than given max lease TTL");
  }
  return most === 0 && usual > SYSTEM_MAX_TTL
    ? refuse("invalid", `given default lease TTL greater than system max lease TTL of ${SYSTEM_MAX_TTL} seconds`)
    : null;
}

const isListed = (mount: ListedMount): boolean => mount.config.listing_visibility === "unauth";

const sees = ({ grants, namespace }: Viewer, mount: ListedMount): boolean =>
  mount.namespace.startsWith(namespace) && (grants.root || mayBelow(grants.paths, mount.namespace + mount.path));
