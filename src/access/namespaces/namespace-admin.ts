import type { Namespace } from "../../contracts/namespaces.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import { type CustomMetadataChange, changeCustomMetadata } from "../../platform/http/custom-metadata.ts";
import { syncControl } from "../../rpc/stubs.ts";
import type { AccessPublisher } from "../event-publisher.ts";
import type { DeletableNamespaces, NamespaceDeletions } from "./namespace-deletions.ts";
import type { NamespacePlaces } from "./namespace-places.ts";
import type { NamespaceRows } from "./namespace-rows.ts";
import type { NamespaceTree } from "./namespaces.ts";

interface NamespaceAdminDependencies {
  readonly tree: NamespaceTree;
  readonly places: NamespacePlaces;
  readonly rows: NamespaceRows;
  readonly publisher: AccessPublisher;
  readonly deletions: NamespaceDeletions;
}

/** Creates, changes and deletes the namespaces of the secrets API. */
export class NamespaceAdmin implements DeletableNamespaces {
  readonly kind = "secrets";

  constructor(
    private readonly env: Env,
    private readonly deps: NamespaceAdminDependencies,
  ) {}

  /** Creates `name` below `parent`, or replaces the metadata of the existing one. */
  async put(
    parent: string,
    name: string,
    customMetadata: Readonly<Record<string, string>>,
  ): Promise<Result<Namespace>> {
    const { tree, places } = this.deps;
    const path = places.place(parent, name);
    if (!path.ok) return path;
    if (!tree.has(path.value)) await syncControl(this.env).clearNamespace(path.value);
    // Checked again after the await: the parent or a conflicting mount may have changed.
    const still = places.place(parent, name);
    return still.ok ? this.#write(still.value, changeCustomMetadata(null, customMetadata, false)) : still;
  }

  /** Changes single keys of the metadata; null removes a key. */
  patch(path: string, changes: CustomMetadataChange): Result<Namespace> {
    const known = this.deps.tree.get(path);
    if (!known) return refuse("missing");
    return this.#write(path, changeCustomMetadata(JSON.stringify(known.custom_metadata), changes, true));
  }

  /** Deletes an empty namespace with its policies and tokens. An absent one counts as deleted. */
  async delete(path: string): Promise<Result<null>> {
    const { tree, places, deletions, publisher } = this.deps;
    if (!tree.get(path)) return ok(null);
    const empty = places.isEmpty(path);
    if (!empty.ok) return empty;
    const ended = await deletions.end(this, path);
    await publisher.published();
    return ended;
  }

  /** Asks the owner of the namespace's destinations to close it. Idempotent. */
  async close(path: string): Promise<Result<null>> {
    const id = this.deps.tree.idOf(path);
    return id === null ? ok(null) : syncControl(this.env).endNamespace(id, path);
  }

  /** Deletes the namespace's own rows inside the caller's transaction. */
  complete(path: string): void {
    this.deps.publisher.emit(this.deps.rows.delete(path));
  }

  #write(path: string, customMetadata: Result<string | null>): Result<Namespace> {
    if (!customMetadata.ok) return customMetadata;
    const metadata = JSON.parse(customMetadata.value ?? "{}") as Record<string, string>;
    return ok(this.deps.publisher.commit(() => this.deps.tree.put(path, metadata, Date.now())));
  }
}
