import type { Result } from "../lib/result.ts";

/** A role as a token names it. The id decides; the name is the role's name at the time of the answer. */
export interface AclRoleLink {
  readonly ID: string;
  readonly Name: string;
}

/** A role of the cluster API: tokens that name it hold its policies. */
export interface AclRole {
  readonly ID: string;
  readonly Name: string;
  readonly Description: string;
  readonly Policies: readonly { readonly Name: string }[];
  readonly Hash: string;
  readonly CreateIndex: number | null;
  readonly ModifyIndex: number | null;
}

/** The body of `PUT acl/role`, read and checked. */
export interface AclRoleBody {
  readonly Name: string;
  readonly Description: string;
  readonly Policies: readonly { readonly Name: string }[];
}

/** The methods of `AccessControl` about roles of the cluster API. */
export interface ClusterAclApi {
  /** Roles sorted by id. @param prefix of the id; empty for all */
  listClusterRoles(prefix: string): AclRole[];
  readClusterRole(key: { readonly id: string } | { readonly name: string }): AclRole | null;
  /** Creates a role, or replaces the one with this id. @param id null creates a role */
  putClusterRole(id: string | null, body: AclRoleBody): Promise<Result<AclRole>>;
  /** Deletes a role: tokens that name it lose its policies. @returns the index of the event */
  deleteClusterRole(id: string): Promise<Result<{ index: number | null }>>;
}
