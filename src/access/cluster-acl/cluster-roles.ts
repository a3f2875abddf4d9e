import type { AclRole, AclRoleBody } from "../../contracts/cluster-acl.ts";
import type { NewEvent } from "../../contracts/event.ts";
import type { AclRoleLink } from "../../contracts/tokens.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import { upperBound } from "../../lib/text-range.ts";
import type { AccessPublisher } from "../event-publisher.ts";
import type { PolicyStore } from "../policies/policy-store.ts";
import { clusterPolicyNames, type TokenRow } from "../tokens/token.ts";
import { clusterEvent, digest } from "./cluster-acl.ts";

interface RoleRow extends Record<string, SqlStorageValue> {
  id: string;
  name: string;
  description: string;
  /** Names of policies, as JSON. */
  policies: string;
  create_index: number | null;
  modify_index: number | null;
}

/** The roles of a token: those that exist, and the policies that they hold. */
export interface HeldRoles {
  readonly links: readonly AclRoleLink[];
  readonly policies: readonly string[];
}

const NONE: HeldRoles = { links: [], policies: [] };
const NAME = /^[a-zA-Z0-9-]{1,128}$/;
/** Roles are rows of one table, and a listing is one answer. */
const MAX_ROLES = 10_000;

/**
 * The roles of the cluster API (https://developer.hashicorp.com/nomad/api-docs/acl/roles), one row each. Tokens name
 * roles by id; the policies of a role are read when a token is judged, so that a change applies to the next request.
 */
export class ClusterRoles {
  constructor(
    private readonly sql: SqlStorage,
    private readonly policies: PolicyStore,
    private readonly publisher: AccessPublisher,
  ) {}

  /** Roles sorted by id. @param prefix of the id; empty for all */
  list(prefix: string): AclRole[] {
    return this.sql
      .exec<RoleRow>("SELECT * FROM cluster_roles WHERE id >= ? AND id < ? ORDER BY id", prefix, upperBound(prefix))
      .toArray()
      .map(aclRole);
  }

  read(key: { readonly id: string } | { readonly name: string }): AclRole | null {
    const row = "id" in key ? this.#byId(key.id) : this.#byName(key.name);
    return row && aclRole(row);
  }

  /**
   * Creates a role, or replaces the one with this id. Refuses policies that do not exist.
   * @param id null creates a role
   */
  async put(id: string | null, body: AclRoleBody): Promise<Result<AclRole>> {
    const policies = this.#checked(body);
    if (!policies.ok) return policies;
    const before = id === null ? null : this.#byId(id);
    if (id !== null && !before) return refuse("invalid", `cannot find role ${id}`);
    const named = this.#byName(body.Name);
    if (named && named.id !== id) return refuse("invalid", `role with name ${body.Name} already exists`);
    if (!before && this.#count() >= MAX_ROLES) return refuse("invalid", `there may be at most ${MAX_ROLES} roles`);
    const role = id ?? crypto.randomUUID();
    this.publisher.commit(() => {
      const row = this.sql
        .exec<RoleRow>(
          `INSERT INTO cluster_roles (id, name, description, policies) VALUES (?, ?, ?, ?)
           ON CONFLICT (id) DO UPDATE SET name = excluded.name, description = excluded.description,
             policies = excluded.policies, modify_index = NULL RETURNING *`,
          role,
          body.Name,
          body.Description,
          JSON.stringify(policies.value),
        )
        .one();
      this.publisher.emit([roleEvent("ACLRoleUpserted", row)], [{ clusterRole: role }]);
    });
    await this.publisher.published();
    const written = this.read({ id: role });
    return written ? ok(written) : missing();
  }

  /** Deletes a role. Tokens keep its id, which names nothing from then on. */
  async delete(id: string): Promise<Result<{ index: number | null }>> {
    const row = this.#byId(id);
    if (!row) return missing();
    const line = this.publisher.commit(() => {
      this.sql.exec("DELETE FROM cluster_roles WHERE id = ?", id);
      return this.publisher.emitLine([roleEvent("ACLRoleDeleted", row)], []);
    });
    return ok({ index: await this.publisher.indexOf(line) });
  }

  /** The ids of roles that a token's body names by id or, without one, by name. */
  resolve(links: readonly { readonly ID: string; readonly Name: string }[]): Result<string[]> {
    const ids = new Set<string>();
    for (const { ID, Name } of links) {
      const row = ID === "" ? this.#byName(Name) : this.#byId(ID);
      if (!row) return refuse("invalid", `cannot find role ${ID || Name}`);
      ids.add(row.id);
    }
    return ok([...ids]);
  }

  /** The roles of a token. Costs one read of each role. */
  of({ roles }: Pick<TokenRow, "roles">): HeldRoles {
    if (roles === null) return NONE;
    const rows = (JSON.parse(roles) as string[]).flatMap((id) => this.#byId(id) ?? []);
    return {
      links: rows.map(({ id, name }) => ({ ID: id, Name: name })),
      policies: [...new Set(rows.flatMap(policiesOfRole))],
    };
  }

  /** The policies of a body, without repetitions. */
  #checked({ Name, Description, Policies }: AclRoleBody): Result<string[]> {
    if (!NAME.test(Name)) return invalid(`invalid name '${Name.slice(0, 130)}'`);
    if (Description.length > 256) return invalid("description longer than 256");
    const names = clusterPolicyNames(Policies.map((policy) => policy.Name));
    if (!names.ok) return invalid(names.message ?? "policies");
    if (names.value.length === 0) return invalid("at least one policy should be specified");
    // `root` is no policy that a role could hold: it makes management tokens.
    const unknown = names.value.find((name) => name === "root" || !this.policies.find("", name));
    return unknown === undefined ? names : refuse("invalid", `cannot find policy ${unknown}`);
  }

  #count(): number {
    return this.sql.exec<{ n: number }>("SELECT count(*) AS n FROM cluster_roles").one().n;
  }

  #byId(id: string): RoleRow | null {
    return this.sql.exec<RoleRow>("SELECT * FROM cluster_roles WHERE id = ?", id).toArray()[0] ?? null;
  }

  #byName(name: string): RoleRow | null {
    return this.sql.exec<RoleRow>("SELECT * FROM cluster_roles WHERE name = ?", name).toArray()[0] ?? null;
  }
}

const invalid = (why: string) => refuse("invalid", `role 0 invalid: ${why}`);
const missing = () => refuse("missing", "ACL role not found");
const policiesOfRole = ({ policies }: RoleRow): string[] => JSON.parse(policies) as string[];

const aclRole = (row: RoleRow): AclRole => ({
  ID: row.id,
  Name: row.name,
  Description: row.description,
  Policies: policiesOfRole(row).map((Name) => ({ Name })),
  Hash: digest(row.name, row.description, row.policies),
  CreateIndex: row.create_index,
  ModifyIndex: row.modify_index,
});

const roleEvent = (type: "ACLRoleUpserted" | "ACLRoleDeleted", row: RoleRow): NewEvent => ({
  ...clusterEvent("ACLRole", type, row.id, "", {
    ...aclRole(row),
    ...(type === "ACLRoleUpserted" && { ModifyIndex: null }),
  }),
  FilterKeys: [row.name],
});
