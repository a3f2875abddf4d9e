import type { Namespace } from "../contracts/access-control.ts";
import { ok, type Result, refuse } from "../lib/result.ts";
import { type CustomMetadataChange, changeCustomMetadata } from "../platform/http/custom-metadata.ts";
import type { AuthMountTable } from "./auth-mounts.ts";
import { policyDeleted, tokenDeleted } from "./cluster-acl.ts";
import type { Entities } from "./entities.ts";
import type { AccessPublisher } from "./event-publisher.ts";
import type { KeyRotation } from "./key-rotation.ts";
import type { MountTable } from "./mounts.ts";
import type { NamespaceDeletions } from "./namespace-deletions.ts";
import type { NamespaceTree } from "./namespaces.ts";
import type { PolicyStore } from "./policy-store.ts";
import type { TokenRoles } from "./token-roles.ts";
import type { TokenStore } from "./token-store.ts";

interface Dependencies {
  readonly tree: NamespaceTree;
  readonly mounts: MountTable;
  readonly policies: PolicyStore;
  readonly tokens: TokenStore;
  readonly terms: KeyRotation;
  readonly authMounts: AuthMountTable;
  readonly entities: Entities;
  readonly tokenRoles: TokenRoles;
  readonly publisher: AccessPublisher;
  readonly deletions: NamespaceDeletions;
  /** Clears remains of an earlier namespace at a path, in all objects with content. Idempotent. */
  clear(path: string): Promise<void>;
}

/** Creates, changes and deletes the namespaces of the secrets API. */
export class NamespaceAdmin {
  readonly #deps: Dependencies;

  constructor(deps: Dependencies) {
    this.#deps = deps;
  }

  /** Creates `name` below `parent`, or replaces the metadata of the existing one. */
  async put(
    parent: string,
    name: string,
    customMetadata: Readonly<Record<string, string>>,
  ): Promise<Result<Namespace>> {
    const { tree, clear } = this.#deps;
    const path = this.#place(parent, name);
    if (!path.ok) return path;
    if (!tree.has(path.value)) await clear(path.value);
    // Checked again after the await: the parent or a conflicting mount may have changed.
    const still = this.#place(parent, name);
    return still.ok ? this.#write(still.value, changeCustomMetadata(null, customMetadata, false)) : still;
  }

  /** The path of `name` below `parent`, if a namespace exists or may be created there. */
  #place(parent: string, name: string): Result<string> {
    const { tree, mounts } = this.#deps;
    const within = tree.admit(parent);
    if (!within.ok) return within;
    const path = tree.check(parent, name);
    if (!path.ok) return path;
    const free = tree.has(path.value)
      ? tree.admit(path.value)
      : mounts.conflict(parent, path.value.slice(parent.length), () => false);
    return free.ok ? path : free;
  }

  /** Changes single keys of the metadata; null removes a key. */
  patch(path: string, changes: CustomMetadataChange): Result<Namespace> {
    const known = this.#deps.tree.get(path);
    if (!known) return refuse("missing");
    return this.#write(path, changeCustomMetadata(JSON.stringify(known.custom_metadata), changes, true));
  }

  /** Deletes an empty namespace with its policies and tokens. An absent one counts as deleted. */
  async delete(path: string): Promise<Result<null>> {
    const { tree, deletions, publisher } = this.#deps;
    if (!tree.get(path)) return ok(null);
    const empty = this.#isEmpty(path);
    if (!empty.ok) return empty;
    const ended = await deletions.end("secrets", path);
    await publisher.published();
    return ended;
  }

  /** Deletes the namespace's own rows inside the caller's transaction. */
  remove(path: string): void {
    const { tree, policies, tokens, tokenRoles, entities, publisher } = this.#deps;
    const accessors = tokens.ofNamespace(path);
    const stored = policies.stored(path);
    tokens.delete(accessors);
    for (const { name } of stored) policies.delete(path, name);
    tokenRoles.deleteNamespace(path);
    entities.deleteNamespace(path);
    tree.delete(path);
    publisher.emit([...accessors.map(tokenDeleted), ...stored.map(policyDeleted)]);
  }

  #isEmpty(path: string): Result<null> {
    const { tree, mounts, authMounts, terms } = this.#deps;
    if (tree.children(path).length > 0) {
      return refuse("invalid", `child namespaces exist under path ${JSON.stringify(path)}, cannot remove`);
    }
    const mounted = mounts.list(path).map((mount) => mount.path);
    if (mounted.length > 0) return contains(path, "mounts", mounted);
    const methods = authMounts.list(path).map((mount) => `auth/${mount.path}`);
    if (methods.length > 0) return contains(path, "auth methods", methods);
    const destinations = terms.destinationsIn(path);
    return destinations.length > 0 ? contains(path, "sync destinations", destinations) : ok(null);
  }

  #write(path: string, customMetadata: Result<string | null>): Result<Namespace> {
    if (!customMetadata.ok) return customMetadata;
    const metadata = JSON.parse(customMetadata.value ?? "{}") as Record<string, string>;
    return ok(this.#deps.publisher.commit(() => this.#deps.tree.put(path, metadata, Date.now())));
  }
}

const contains = (path: string, what: string, names: readonly string[]): Result<null> =>
  refuse(
    "in-use",
    `${what} exist in namespace ${JSON.stringify(path)}, cannot remove: ${names.slice(0, 10).join(", ")}`,
  );
