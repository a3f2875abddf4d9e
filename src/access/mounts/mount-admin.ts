import { neutralMountType } from "../../compat/engine-names.ts";
import type { Mount, MountBody, TuneBody } from "../../contracts/mount.ts";
import { ok, type Refusal, type Result, refuse } from "../../lib/result.ts";
import type { Outbox } from "../../platform/durable/outbox.ts";
import { isVersioned, mountTypes } from "../../rights/mount-routes.ts";
import type { NamespaceTree } from "../namespaces/namespaces.ts";
import { SYSTEM_MAX_TTL } from "../tokens/token.ts";
import { builtInPath } from "./built-in-mounts.ts";
import type { DeletedMounts } from "./deleted-mounts.ts";
import { tuned } from "./mount-fields.ts";
import type { MountViews } from "./mount-views.ts";
import { configWith, type MountTable, mountPath, NEW_CONFIG } from "./mounts.ts";
import type { PublishedSecrets } from "./published-secrets.ts";

interface MountAdminDependencies {
  readonly table: MountTable;
  readonly views: MountViews;
  readonly namespaces: NamespaceTree;
  readonly deleted: DeletedMounts;
  readonly published: PublishedSecrets;
  readonly outbox: Outbox;
}

/** Enables, tunes and disables mounts. */
export class MountAdmin {
  constructor(
    private readonly deps: MountAdminDependencies,
    private readonly commit: <T>(change: () => T) => T,
  ) {}

  enable(namespace: string, path: string, request: MountBody): Result<Mount> {
    const admitted = this.deps.namespaces.admit(namespace);
    if (!admitted.ok) return admitted;
    const named = mountPath(path);
    if (!named.ok) return named;
    const type = neutralMountType(KV_ALIASES.has(request.type) ? "kv" : request.type);
    const known = mountTypes().find((name) => name === type);
    if (!known) return refuse("invalid", `plugin not found in the catalog: ${type.slice(0, 64)}`);
    const options = known === "kv" ? kvOptions(request.type, request.options ?? {}) : ok(request.options ?? {});
    if (!options.ok) return options;
    const refused = refusedTtls(request.config ?? {});
    if (refused) return refused;
    const free = this.deps.table.conflict(namespace, named.value, (prefix) => this.deps.namespaces.has(prefix));
    if (!free.ok) return free;
    const { description, local, seal_wrap, config } = request;
    const settings = {
      description,
      options: options.value,
      local,
      seal_wrap,
      config: configWith(NEW_CONFIG, config ?? {}),
    };
    return ok(
      this.commit(() => {
        const mount = this.deps.table.insert({ namespace, path: named.value, type: known, ...settings }, Date.now());
        if (known === "kv") this.deps.published.added(mount.uuid);
        return mount;
      }),
    );
  }

  /**
   * Changes settings of a mount. `options.version` 2 upgrades a KV mount of version 1 at once: its store holds every
   * secret as version 1 already.
   */
  tune(namespace: string, path: string, request: TuneBody): Result<Mount> {
    const builtIn = builtInPath(path);
    if (builtIn !== null) return refuse("invalid", `cannot tune ${JSON.stringify(builtIn)}`);
    const mount = this.deps.views.read(namespace, path);
    if (!mount.ok) return untuned(path);
    const { description: _description, options, force_no_cache: _, ...config } = request;
    const refusedVersion = mount.value.type === "kv" ? refusedChange(mount.value, options?.["version"]) : null;
    if (refusedVersion) return refusedVersion;
    const changed = tuned(mount.value, request, configWith(mount.value.config, config));
    if (!changed.ok) return changed;
    this.commit(() => {
      this.deps.table.update(changed.value);
      if (isVersioned(changed.value) && !isVersioned(mount.value))
        this.deps.outbox.enlistLatest("upgrade", mount.value.uuid, null);
    });
    return changed;
  }

  /** Removes a mount from the table; its data is destroyed later. @returns whether it existed */
  disable(namespace: string, path: string): Result<boolean> {
    const builtIn = builtInPath(path);
    if (builtIn !== null) return refuse("invalid", `cannot unmount ${JSON.stringify(builtIn)}`);
    const mount = this.deps.views.read(namespace, path);
    if (!mount.ok) return ok(false);
    this.commit(() => {
      this.deps.table.delete(mount.value.uuid);
      this.deps.deleted.add(mount.value, Date.now());
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

/** The refusal to tune a path without a mount. */
export const untuned = (path: string): Refusal =>
  refuse("invalid", `tune of path ${JSON.stringify(path.replace(/\/*$/, "/"))} failed: no mount entry found`);

/** Why a new mount or auth method cannot have these lease times; null when it can. */
export function refusedTtls(config: {
  default_lease_ttl?: number | undefined;
  max_lease_ttl?: number | undefined;
}): Refusal | null {
  const { default_lease_ttl: usual = 0, max_lease_ttl: most = 0 } = config;
  if (most > 0 && usual > most) {
    return refuse("invalid", "given default lease TTL greater than given max lease TTL");
  }
  return most === 0 && usual > SYSTEM_MAX_TTL
    ? refuse("invalid", `given default lease TTL greater than system max lease TTL of ${SYSTEM_MAX_TTL}`)
    : null;
}
