import type { Result } from "../lib/result.ts";

/** The name of a flat namespace (cluster routes). */
export const NAMESPACE_NAME = /^[a-zA-Z0-9-]{1,128}$/;

/** A path inside a namespace that exists. */
export interface Located {
  readonly namespace: string;
  readonly path: string;
}

export interface Namespace {
  readonly id: string;
  /** From the root, with a trailing slash; the root itself is the empty text. */
  readonly path: string;
  readonly custom_metadata: Readonly<Record<string, string>>;
}

/** A flat namespace of the cluster routes. */
export interface ClusterNamespace extends JobSettings {
  Name: string;
  Description: string;
  Meta: Record<string, string> | null;
  CreateIndex: number | null;
  ModifyIndex: number | null;
}

/** Job settings of a namespace: stored and returned; this service places no jobs. */
export interface JobSettings {
  readonly Quota?: string | undefined;
  readonly Capabilities?: Readonly<Record<string, Names>> | null | undefined;
  readonly NodePoolConfiguration?: Choice | null | undefined;
  readonly VaultConfiguration?: Choice | null | undefined;
  readonly ConsulConfiguration?: Choice | null | undefined;
  /** Claims of the identity tokens of workloads. */
  readonly RequiredExtraClaims?: Readonly<Record<string, string>> | null | undefined;
  readonly OptionalExtraClaims?: Readonly<Record<string, string>> | null | undefined;
}

export type Names = readonly string[] | null | undefined;

export type Choice = { readonly Default?: string | undefined; readonly Allowed?: Names; readonly Denied?: Names };

/** The methods of `AccessControl` about namespaces. */
export interface NamespacesApi {
  /** @param deep those below the children, too */
  listNamespaces(parent: string, deep?: boolean): Namespace[];
  /** Returns the children of a namespace in which a token has any capability. */
  visibleNamespaces(accessor: string, parent: string): string[];
  readNamespace(path: string): Result<Namespace>;
  putNamespace(parent: string, name: string, customMetadata: Record<string, string>): Promise<Result<Namespace>>;
  patchNamespace(path: string, changes: Record<string, string | null>): Result<Namespace>;
  /** Deletes an empty namespace with its policies and tokens. Idempotent. */
  deleteNamespace(path: string): Promise<Result<null>>;
  listClusterNamespaces(prefix: string): ClusterNamespace[];
  readClusterNamespace(name: string): Result<ClusterNamespace>;
  putClusterNamespace(
    name: string,
    description: string,
    meta: Record<string, string> | null,
    jobs: JobSettings,
  ): Promise<Result<ClusterNamespace>>;
  clusterNamespaceId(name: string): Result<string>;
  deleteClusterNamespace(name: string): Promise<Result<null>>;
}
