import type { ClusterNamespace, Namespace, NamespacesApi } from "../../contracts/namespaces.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import type { ClusterNamespaces } from "../namespaces/cluster-namespaces.ts";
import type { NamespaceAdmin } from "../namespaces/namespace-admin.ts";
import type { NamespaceTree } from "../namespaces/namespaces.ts";
import { visibleNamespaces } from "../paths/resultant-acl.ts";
import type { TokenHolders } from "../tokens/token-holders.ts";

/** RPC methods about namespaces: the tree of the secrets API, and the flat ones of the cluster API. */
export class NamespaceMethods implements NamespacesApi {
  readonly #tree: NamespaceTree;
  readonly #namespaces: NamespaceAdmin;
  readonly #clusterNamespaces: ClusterNamespaces;
  readonly #holders: TokenHolders;

  constructor(tree: NamespaceTree, namespaces: NamespaceAdmin, cluster: ClusterNamespaces, holders: TokenHolders) {
    this.#tree = tree;
    this.#namespaces = namespaces;
    this.#clusterNamespaces = cluster;
    this.#holders = holders;
  }

  listNamespaces(parent: string): Namespace[] {
    return this.#tree.children(parent);
  }

  visibleNamespaces(accessor: string, parent: string): string[] {
    const viewer = this.#holders.viewer(accessor);
    return viewer ? visibleNamespaces(viewer, this.#tree.children(parent)) : [];
  }

  readNamespace(path: string): Result<Namespace> {
    const namespace = this.#tree.get(path);
    return namespace ? ok(namespace) : refuse("missing");
  }

  putNamespace(parent: string, name: string, customMetadata: Record<string, string>): Promise<Result<Namespace>> {
    return this.#namespaces.put(parent, name, customMetadata);
  }

  patchNamespace(path: string, changes: Record<string, string | null>): Result<Namespace> {
    return this.#namespaces.patch(path, changes);
  }

  deleteNamespace(path: string): Promise<Result<null>> {
    return this.#namespaces.delete(path);
  }

  listClusterNamespaces(prefix: string): ClusterNamespace[] {
    return this.#clusterNamespaces.list(prefix);
  }

  readClusterNamespace(name: string): Result<ClusterNamespace> {
    return this.#clusterNamespaces.read(name);
  }

  putClusterNamespace(...given: Parameters<ClusterNamespaces["put"]>): Promise<Result<ClusterNamespace>> {
    return this.#clusterNamespaces.put(...given);
  }

  clusterNamespaceId(name: string): Result<string> {
    return this.#clusterNamespaces.identity(name);
  }

  deleteClusterNamespace(name: string): Promise<Result<null>> {
    return this.#clusterNamespaces.delete(name);
  }
}
