import type { ClusterNamespace, JobSettings, Namespace } from "../contracts/access-control.ts";
import { ok, type Result, refuse } from "../lib/result.ts";
import { PolicySurface } from "./policy-surface.ts";

/** What of `AccessControl` is about namespaces: the tree of areas A and B, and the flat ones of C and D. */
export abstract class NamespaceSurface extends PolicySurface {
  listNamespaces(parent: string): Namespace[] {
    return this.parts.namespaceTree.children(parent);
  }

  readNamespace(path: string): Result<Namespace> {
    const namespace = this.parts.namespaceTree.get(path);
    return namespace ? ok(namespace) : refuse("missing");
  }

  putNamespace(parent: string, name: string, customMetadata: Record<string, string>): Promise<Result<Namespace>> {
    return this.parts.namespaces.put(parent, name, customMetadata);
  }

  patchNamespace(path: string, changes: Record<string, string | null>): Result<Namespace> {
    return this.parts.namespaces.patch(path, changes);
  }

  /** Deletes an empty namespace with its policies and tokens. One that is gone already counts as deleted. */
  deleteNamespace(path: string): Promise<Result<null>> {
    return this.parts.namespaces.delete(path);
  }

  // ---- of areas C and D ----

  listClusterNamespaces(prefix: string): ClusterNamespace[] {
    return this.parts.clusterNamespaces.list(prefix);
  }

  readClusterNamespace(name: string): Result<ClusterNamespace> {
    return this.parts.clusterNamespaces.read(name);
  }

  putClusterNamespace(
    name: string,
    description: string,
    meta: Record<string, string> | null,
    jobs: JobSettings,
  ): Promise<Result<ClusterNamespace>> {
    return this.parts.clusterNamespaces.put(name, description, meta, jobs);
  }

  clusterNamespaceId(name: string): Result<string> {
    return this.parts.clusterNamespaces.identity(name);
  }

  deleteClusterNamespace(name: string): Promise<Result<null>> {
    return this.parts.clusterNamespaces.delete(name);
  }
}
