import type { Namespace } from "../../contracts/namespaces.ts";
import { randomText } from "../../lib/random-text.ts";
import { ok, type Refusal, type Result, refuse } from "../../lib/result.ts";
import { CLUSTER_ROOTS, SERVICE_ROOTS } from "../../platform/http/areas.ts";

interface NamespaceRow extends Record<string, SqlStorageValue> {
  path: string;
  id: string;
  custom_metadata: string;
}

const SEGMENT = /^[A-Za-z0-9_.@-]{1,128}$/;
/** Names with another meaning at the start of a path. */
const RESERVED: ReadonlySet<string> = new Set([...SERVICE_ROOTS, ...CLUSTER_ROOTS, "root", "audit", "."]);
const MAX_DEPTH = 16;

/** Normalizes a namespace (`a`, `/a/b/`, `root`, empty) to the stored form (`a/`, `a/b/`, empty). */
export function namespacePath(text: string): Result<string> {
  const segments = text.split("/").filter((segment) => segment !== "");
  if (segments.length === 0 || (segments.length === 1 && segments[0] === "root")) return ok("");
  if (segments.length > MAX_DEPTH || segments.some((segment) => !SEGMENT.test(segment) || segment === "..")) {
    return refuse("invalid", `namespace: segments must be 1 to 128 of A-Z a-z 0-9 _ . @ -, at most ${MAX_DEPTH} deep`);
  }
  return ok(`${segments.join("/")}/`);
}

export const namespaceMissing = (path: string): Refusal =>
  refuse("missing", `namespace not found: ${JSON.stringify(path)}`);

/** Paths about the deployment as a whole; they exist only in the root namespace (docs/internals/wire/vault.md). */
const ROOT_ONLY =
  /^(?:sys\/(?:init|seal|unseal|seal-status|health|leader|step-down|listings|snapshot|rekey|generate-root|metrics|notifications|rotate|config|audit|audit-hash|host-info|ha-status|version|version-history|quotas|plugins|license|replication|internal\/counters\/(?:requests|tokens|entities|config))|identity\/oidc\/(?:config|key))(?:\/|$)/;

export const isRootOnly = (path: string): boolean => ROOT_ONLY.test(path);

/**
 * The tree of namespaces of the secrets API, held in memory, because every request reads it. A write drops the copy.
 */
export class NamespaceTree {
  #paths: Map<string, Namespace> | undefined;

  constructor(private readonly sql: SqlStorage) {}

  /** Drops the copy, after a rollback. */
  forget(): void {
    this.#paths = undefined;
  }

  has(path: string): boolean {
    return path === "" || this.#all().has(path);
  }

  /** Id of a namespace, unique over its lifetime: a later one at its path has another. Null for an unknown path. */
  idOf(path: string): string | null {
    return path === "" ? "root" : (this.get(path)?.id ?? null);
  }

  /** Refuses content for unknown namespaces and for those being deleted. */
  admit(path: string): Result<null> {
    if (!this.has(path)) return namespaceMissing(path);
    const ending = this.sql.exec("SELECT 1 FROM ending_namespaces WHERE kind = 'secrets' AND name = ?", path);
    return ending.toArray().length === 0
      ? ok(null)
      : refuse("conflict", `namespace ${JSON.stringify(path)} is being deleted`);
  }

  get(path: string): Namespace | null {
    return this.#all().get(path) ?? null;
  }

  /** Splits `path` into the deepest namespace below `from` that leads it, and the rest. */
  split(from: string, path: string): { namespace: string; path: string } {
    let namespace = from;
    let rest = path;
    for (;;) {
      const end = rest.indexOf("/");
      const next = namespace + (end < 0 ? "" : rest.slice(0, end + 1));
      if (end <= 0 || !this.#all().has(next)) return { namespace, path: rest };
      namespace = next;
      rest = rest.slice(end + 1);
    }
  }

  /** The direct children of `parent`. */
  children(parent: string, deep = false): Namespace[] {
    return [...this.#all().values()]
      .filter(({ path }) => path.startsWith(parent) && path !== parent)
      .filter(({ path }) => deep || path.indexOf("/", parent.length) === path.length - 1)
      .sort((a, b) => (a.path < b.path ? -1 : 1));
  }

  /** The path of a namespace to create below `parent`, or the refusal of its name. */
  check(parent: string, path: string): Result<string> {
    const named = namespacePath(path);
    if (!named.ok) return named;
    const first = named.value.slice(0, -1);
    if (first === "" || first.includes("/") || RESERVED.has(first)) {
      return refuse(
        "invalid",
        `namespace: ${JSON.stringify(path.slice(0, 130))} must be one segment and not a reserved word`,
      );
    }
    return namespacePath(parent + named.value);
  }

  put(path: string, customMetadata: Readonly<Record<string, string>>, now: number): Namespace {
    const namespace: Namespace = { id: this.get(path)?.id ?? randomText(5), path, custom_metadata: customMetadata };
    this.sql.exec(
      `INSERT INTO namespaces (path, id, custom_metadata, created) VALUES (?, ?, ?, ?)
       ON CONFLICT (path) DO UPDATE SET custom_metadata = excluded.custom_metadata`,
      path,
      namespace.id,
      JSON.stringify(customMetadata),
      now,
    );
    this.forget();
    return namespace;
  }

  delete(path: string): void {
    this.sql.exec("DELETE FROM namespaces WHERE path = ?", path);
    this.forget();
  }

  #all(): Map<string, Namespace> {
    this.#paths ??= new Map(
      this.sql
        .exec<NamespaceRow>("SELECT path, id, custom_metadata FROM namespaces")
        .toArray()
        .map((row) => [
          row.path,
          { id: row.id, path: row.path, custom_metadata: JSON.parse(row.custom_metadata) as Record<string, string> },
        ]),
    );
    return this.#paths;
  }
}
