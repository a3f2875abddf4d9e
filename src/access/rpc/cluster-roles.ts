import type { AclRole, AclRoleBody, ClusterRolesApi } from "../../contracts/cluster-acl.ts";
import type { Result } from "../../lib/result.ts";
import type { ClusterRoles } from "../cluster-acl/cluster-roles.ts";

/** RPC methods about roles of the cluster API. */
export class ClusterRoleMethods implements ClusterRolesApi {
  readonly #roles: ClusterRoles;

  constructor(roles: ClusterRoles) {
    this.#roles = roles;
  }

  listClusterRoles(prefix: string): AclRole[] {
    return this.#roles.list(prefix);
  }

  readClusterRole(key: { readonly id: string } | { readonly name: string }): AclRole | null {
    return this.#roles.read(key);
  }

  putClusterRole(id: string | null, body: AclRoleBody): Promise<Result<AclRole>> {
    return this.#roles.put(id, body);
  }

  deleteClusterRole(id: string): Promise<Result<{ index: number | null }>> {
    return this.#roles.delete(id);
  }
}
