import type { Mount, Remount } from "../../contracts/mount.ts";
import type { Located } from "../../contracts/namespaces.ts";
import { ok, type Refusal, type Result, refuse } from "../../lib/result.ts";
import { textBefore } from "../../lib/text-before.ts";
import type { Outbox } from "../../platform/durable/outbox.ts";
import { SERVICE_ROOTS } from "../../platform/http/areas.ts";
import { type AuthMountTable, authPath } from "../auth-methods/auth-mounts.ts";
import type { NamespaceTree } from "../namespaces/namespaces.ts";
import { type MountTable, mountPath } from "./mounts.ts";

interface RemountsDependencies {
  readonly sql: SqlStorage;
  readonly outbox: Outbox;
  commit<T>(change: () => T): T;
}

/**
 * Time after a move for which nothing is mounted at the old path, ms. Other isolates may use a cached grant for the old
 * path until then (see `authorize-cached.ts`). A write through it belongs to the mount that moved.
 */
const VACATED_MS = 2_000;
/** How long the result of a move can be read, ms. */
const KEPT_MS = 30 * 86_400_000;

/**
 * Moves mounts to other paths (https://developer.hashicorp.com/vault/api-docs/system/remount). A move changes one row:
 * the object with the mount's data is named by uuid, as are the entries, aliases and tokens of an auth method. Former
 * paths are kept as long as the mount, because ids of leases contain the path at which they were issued.
 */
export class Remounts {
  constructor(
    private readonly table: MountTable,
    private readonly authMounts: AuthMountTable,
    private readonly namespaces: NamespaceTree,
    private readonly deps: RemountsDependencies,
  ) {}

  /** Moves a mount inside its namespace. @returns the id under which `status` finds the result */
  move(from: Located, to: Located): Result<string> {
    const refused = protectedPath(from.path, to.path);
    if (refused) return refused;
    const admitted = this.namespaces.admit(from.namespace);
    if (!admitted.ok) return admitted;
    if (rootOf(from.path) === "auth") return this.#moveAuth(from, to);
    const target = mountPath(to.path);
    if (!target.ok) return refuse("invalid", `invalid destination mount: ${target.message}`);
    const source = mountPath(from.path);
    const mount = source.ok ? this.table.get(from.namespace, source.value) : null;
    if (!mount) return refuse("invalid", `no matching mount at ${quoted(slashed(from.path))}`);
    if (from.namespace !== to.namespace) return elsewhere();
    const free = this.table.conflict(to.namespace, target.value, (prefix) => this.namespaces.has(prefix));
    if (!free.ok) return inUse(free);
    const now = Date.now();
    const id = crypto.randomUUID();
    this.deps.commit(() => {
      this.#record(id, mount, target.value, now);
      this.deps.sql.exec(
        `INSERT INTO former_paths (namespace, path, uuid, moved) VALUES (?, ?, ?, ?)
         ON CONFLICT (namespace, path, uuid) DO UPDATE SET moved = excluded.moved`,
        mount.namespace,
        mount.path,
        mount.uuid,
        now,
      );
      this.table.move(mount.uuid, target.value);
      const path = target.value;
      this.deps.outbox.enlistLatest("moved", `${mount.type} ${mount.uuid}`, (seq: number) => ({ path, seq }));
    });
    return ok(id);
  }

  /**
   * The result of a move inside a namespace or one below it; null for an unknown id. Moves are complete when they are
   * answered.
   */
  status(namespace: string, id: string): Remount | null {
    const [row] = this.deps.sql
      .exec<{ source: string; target: string }>(
        `SELECT namespace || source AS source, namespace || target AS target FROM remounts
         WHERE id = ?1 AND substr(namespace, 1, length(?2)) = ?2`,
        id,
        namespace,
      )
      .toArray();
    return row ? { source_mount: row.source, target_mount: row.target, status: "success" } : null;
  }

  /**
   * The mounts that may have issued a lease, each with the part of the id inside it: the mount at its path, then those
   * that were there before, the last one first.
   */
  ofLease(namespace: string, id: string): { mount: Mount; id: string }[] {
    const current = this.table.resolve(namespace, id);
    const former = this.deps.sql
      .exec<{ path: string; uuid: string }>(
        "SELECT path, uuid FROM former_paths WHERE namespace = ? AND substr(?, 1, length(path)) = path ORDER BY moved DESC",
        namespace,
        id,
      )
      .toArray();
    const mounts = former.length === 0 ? [] : this.table.list(namespace);
    return [
      ...(current ? [{ mount: current, id: id.slice(current.path.length) }] : []),
      ...former.flatMap(({ path, uuid }) => {
        const mount = mounts.find((one) => one.uuid === uuid);
        return mount ? [{ mount, id: id.slice(path.length) }] : [];
      }),
    ];
  }

  /** When a path, with those above and below it, may be mounted, ms since 1970; 0 = at once. */
  vacatedUntil(namespace: string, path: string): number {
    const named = mountPath(path);
    if (!named.ok) return 0;
    const { at } = this.deps.sql
      .exec<{ at: number | null }>(
        `SELECT max(moved) AS at FROM former_paths WHERE namespace = ?1 AND moved > ?2
         AND (substr(?3, 1, length(path)) = path OR substr(path, 1, length(?3)) = ?3)`,
        namespace,
        Date.now() - VACATED_MS,
        named.value,
      )
      .one();
    return at === null ? 0 : at + VACATED_MS;
  }

  /** Forgets a deleted mount. Runs inside a transaction. */
  forget(uuid: string): void {
    this.deps.sql.exec("DELETE FROM former_paths WHERE uuid = ?", uuid);
  }

  /** Moves an auth method. Its tokens stay valid, and show the path of their login. */
  #moveAuth(from: Located, to: Located): Result<string> {
    const [source, target] = [from, to].map(({ path }) => authPath(slashed(path).slice("auth/".length)));
    if (!target?.ok) return refuse("invalid", `invalid destination mount: ${target?.message}`);
    const mount = source?.ok ? this.authMounts.get(from.namespace, source.value) : null;
    if (!mount) return refuse("invalid", `no matching mount at ${quoted(slashed(from.path))}`);
    if (from.namespace !== to.namespace) return elsewhere();
    const taken = this.authMounts.overlapping(to.namespace, target.value);
    if (taken) return refuse("invalid", `path already in use at ${quoted(`auth/${taken.path}`)}`);
    const id = crypto.randomUUID();
    this.deps.commit(() => {
      this.#record(id, { ...mount, path: `auth/${mount.path}` }, `auth/${target.value}`, Date.now());
      this.authMounts.move(mount.uuid, target.value);
    });
    return ok(id);
  }

  #record(id: string, { namespace, path }: Located, target: string, now: number): void {
    const { sql } = this.deps;
    sql.exec("DELETE FROM remounts WHERE at < ?", now - KEPT_MS);
    sql.exec(
      "INSERT INTO remounts (id, namespace, source, target, at) VALUES (?, ?, ?, ?, ?)",
      id,
      namespace,
      path,
      target,
      now,
    );
  }
}

const elsewhere = (): Refusal =>
  refuse(
    "invalid",
    "to: a mount cannot move to another namespace, because its leases, associations and identity tokens belong to its own",
  );

const slashed = (path: string): string => `${path.replace(/^\/+|\/+$/g, "")}/`;
const quoted = (path: string): string => JSON.stringify(path.slice(0, 256));
const rootOf = (path: string): string => textBefore(slashed(path), "/");

/** The refusal of a path of the service itself, in upstream's texts; null for others. */
function protectedPath(from: string, to: string): Refusal | null {
  const [source, target] = [rootOf(from), rootOf(to)];
  if (source === "auth") {
    if (target !== "auth") {
      return refuse("invalid", `cannot remount auth mount to non-auth mount ${quoted(slashed(to))}`);
    }
    for (const [path, text] of [
      [from, "cannot remount"],
      [to, "cannot remount to destination"],
    ] as const) {
      if (slashed(path) === "auth/token/") return refuse("invalid", `${text} ${quoted(slashed(path))}`);
    }
    return null;
  }
  if (SERVICE_ROOTS.has(source)) return refuse("invalid", `cannot remount ${quoted(slashed(from))}`);
  if (SERVICE_ROOTS.has(target)) return refuse("invalid", `cannot remount to destination ${slashed(to).slice(0, 256)}`);
  return null;
}

/** The refusal of a path in use, in the words of a remount. */
function inUse(refusal: Refusal): Refusal {
  const [, path] = /^path is already in use at (.*)$/.exec(refusal.message) ?? [];
  return path === undefined ? refusal : refuse("invalid", `path already in use at ${quoted(path)}`);
}
