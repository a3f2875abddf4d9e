import type { ClusterAclIndexApi } from "../../contracts/cluster-acl.ts";
import type { AclIndex } from "../cluster-acl/acl-index.ts";

/** RPC methods about the common index of the cluster API's ACL objects. */
export class ClusterAclIndexMethods implements ClusterAclIndexApi {
  readonly #index: AclIndex;

  constructor(index: AclIndex) {
    this.#index = index;
  }

  clusterAclIndex(): Promise<number> {
    return this.#index.newest();
  }

  clusterAclChanged(since: number, waitMs: number): Promise<number> {
    return this.#index.changed(since, waitMs);
  }
}
