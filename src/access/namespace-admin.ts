import { type CustomMetadataChange, changeCustomMetadata } from "../kv/custom-metadata.ts";
import { ok, type Result, refuse } from "../result.ts";
import { policyDeleted, tokenDeleted } from "./cluster-acl.ts";
import type { Journal } from "./journal.ts";
import type { KeyTerms } from "./key-terms.ts";
import type { MountTable } from "./mounts.ts";
import { type Namespace, type NamespaceTree, namespaceMissing } from "./namespaces.ts";
import type { PolicyStore } from "./policy-store.ts";
import type { TokenStore } from "./token-store.ts";

/** Making, changing and removing the namespaces of areas A and B. */
export class NamespaceAdmin {
  readonly #tree: NamespaceTree;
  readonly #mounts: MountTable;
  readonly #policies: PolicyStore;
  readonly #tokens: TokenStore;
  readonly #terms: KeyTerms;
  readonly #journal: Journal;

  constructor(
    tree: NamespaceTree,
    mounts: MountTable,
    policies: PolicyStore,
    tokens: TokenStore,
    terms: KeyTerms,
    journal: Journal,
  ) {
    this.#tree = tree;
    this.#terms = terms;
    this.#mounts = mounts;
    this.#policies = policies;
    this.#tokens = tokens;
    this.#journal = journal;
  }

  /** Makes `name` below `parent`, or replaces the metadata of the one that exists. */
  put(parent: string, name: string, customMetadata: Readonly<Record<string, string>>): Result<Namespace> {
    if (!this.#tree.has(parent)) return namespaceMissing(parent);
    const path = this.#tree.check(parent, name);
    if (!path.ok) return path;
    if (!this.#tree.has(path.value)) {
      const free = this.#mounts.conflict(parent, path.value.slice(parent.length), () => false);
      if (!free.ok) return free;
    }
    return this.#write(path.value, changeCustomMetadata(null, customMetadata, false));
  }

  /** Changes single keys of the metadata; null removes one. */
  patch(path: string, changes: CustomMetadataChange): Result<Namespace> {
    const known = this.#tree.get(path);
    if (!known) return refuse("missing");
    return this.#write(path, changeCustomMetadata(JSON.stringify(known.custom_metadata), changes, true));
  }

  /** Deletes an empty namespace with its policies and tokens. One that is gone already counts as deleted. */
  async delete(path: string): Promise<Result<null>> {
    if (!this.#tree.get(path)) return ok(null);
    if (this.#tree.children(path).length > 0) {
      return refuse("invalid", `child namespaces exist under path ${JSON.stringify(path)}, cannot remove`);
    }
    const mounts = this.#mounts.list(path).map((mount) => mount.path);
    if (mounts.length > 0) {
      const named = mounts.slice(0, 10).join(", ");
      return refuse("in-use", `mounts exist in namespace ${JSON.stringify(path)}, cannot remove: ${named}`);
    }
    const destinations = this.#terms.destinationsIn(path);
    if (destinations.length > 0) {
      const named = destinations.slice(0, 10).join(", ");
      return refuse("in-use", `sync destinations exist in namespace ${JSON.stringify(path)}, cannot remove: ${named}`);
    }
    this.#journal.commit(() => {
      const tokens = this.#tokens.ofNamespace(path);
      const policies = this.#policies.stored(path);
      this.#tokens.delete(tokens);
      for (const { name } of policies) this.#policies.delete(path, name);
      this.#tree.delete(path);
      this.#journal.emit([...tokens.map(tokenDeleted), ...policies.map(policyDeleted)]);
    });
    await this.#journal.published();
    return ok(null);
  }

  #write(path: string, customMetadata: Result<string | null>): Result<Namespace> {
    if (!customMetadata.ok) return customMetadata;
    const metadata = JSON.parse(customMetadata.value ?? "{}") as Record<string, string>;
    return ok(this.#journal.commit(() => this.#tree.put(path, metadata, Date.now())));
  }
}
