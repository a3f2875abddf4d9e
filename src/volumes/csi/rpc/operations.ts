import type { CsiOperation, CsiOperationsApi, CsiOutcome, Name } from "../../../contracts/csi-volumes.ts";
import type { CsiOperations } from "../csi-operations.ts";
import type { CsiDispatcher } from "../dispatcher.ts";
import type { ProviderCalls } from "../provider-calls.ts";

/** RPC methods of `ClusterRegistry` about calls to CSI plugins: snapshots, volumes of the provider, and outcomes. */
export class CsiOperationMethods implements CsiOperationsApi {
  readonly #calls: ProviderCalls;
  readonly #dispatcher: CsiDispatcher;
  readonly #operations: CsiOperations;

  constructor(calls: ProviderCalls, dispatcher: CsiDispatcher, operations: CsiOperations) {
    this.#calls = calls;
    this.#dispatcher = dispatcher;
    this.#operations = operations;
  }

  listExternalVolumes(...given: Parameters<ProviderCalls["listVolumes"]>): ReturnType<ProviderCalls["listVolumes"]> {
    return this.#calls.listVolumes(...given);
  }

  createSnapshot(...given: Parameters<ProviderCalls["createSnapshot"]>): ReturnType<ProviderCalls["createSnapshot"]> {
    return this.#calls.createSnapshot(...given);
  }

  deleteSnapshot(...given: Parameters<ProviderCalls["deleteSnapshot"]>): ReturnType<ProviderCalls["deleteSnapshot"]> {
    return this.#calls.deleteSnapshot(...given);
  }

  listSnapshots(...given: Parameters<ProviderCalls["listSnapshots"]>): ReturnType<ProviderCalls["listSnapshots"]> {
    return this.#calls.listSnapshots(...given);
  }

  csiOutcome(...given: Parameters<CsiDispatcher["outcome"]>): Promise<CsiOutcome | null> {
    return this.#dispatcher.outcome(...given);
  }

  csiOperations({ namespace, id }: Name, from: number, limit: number): Omit<CsiOperation, "sealed">[] {
    return this.#operations
      .ofVolume(namespace, id, from + 1, limit)
      .map(({ sealed: _sealed, ...operation }) => operation);
  }
}
