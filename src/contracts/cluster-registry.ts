import type { Result } from "../lib/result.ts";
import type { KnownPage } from "../platform/durable/object-kinds.ts";
import type { CsiClaimsApi, CsiOperationsApi, CsiPluginsApi, CsiVolumesApi } from "./csi-volumes.ts";
import type { HostVolumesApi, VolumeClaimsApi } from "./host-volumes.ts";
import type { NodesApi } from "./node.ts";
import type { AgentsApi } from "./node-agents.ts";
import type { OperationResult } from "./node-operation.ts";
import type { ReportsApi } from "./reports.ts";
import type { StoredObjectApi } from "./stored-objects.ts";

/** The methods of `ClusterRegistry` that other objects and Workers call, by subject. */
export interface ClusterRegistryApi
  extends StoredObjectApi,
    AgentsApi,
    CsiClaimsApi,
    CsiOperationsApi,
    CsiPluginsApi,
    CsiVolumesApi,
    HostVolumesApi,
    NodesApi,
    ReportsApi,
    VolumeClaimsApi {
  /**
   * Blocking query: resolves with the newest index of the tables once it exceeds `since`, or after `waitMs`. Null at
   * once when too many queries wait.
   */
  changed(tables: readonly string[], since: number, waitMs: number): Promise<number | null>;
  /** Delivers the outcome of a node operation. At least once. */
  operationDone(nodeId: string, id: string, result: OperationResult): Promise<void>;
  /** Lists sessions of agents and of nodes with pending operations. */
  known(after: string): KnownPage;
  rekey(term: number): void;
  /** Ends an empty flat namespace and removes its terminal reports: see `EndedNamespaces`. */
  endNamespace(id: string, name: string): Result<null>;
}
