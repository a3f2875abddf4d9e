import type { ClusterRights } from "../../contracts/cluster-rights.ts";
import { ANONYMOUS } from "../../contracts/tokens.ts";
import { hasClusterRules } from "../../rights/cluster-rights.ts";
import type { ClusterRoles, HeldRoles } from "../cluster-acl/cluster-roles.ts";
import type { Entities } from "../identity/entities.ts";
import type { Viewer } from "../mounts/mount-views.ts";
import type { Grants, PolicyDraft, PolicyStore } from "../policies/policy-store.ts";
import { policiesOf, type TokenRow } from "./token.ts";
import type { TokenStore } from "./token-store.ts";

/** The rights of a token's holder: by its own policies, its entity, its groups and its roles. Reads rows, keeps none. */
export class TokenHolders {
  constructor(
    private readonly tokens: TokenStore,
    private readonly policies: PolicyStore,
    private readonly entities: Entities,
    private readonly roles: ClusterRoles,
  ) {}

  grantsOf(row: TokenRow): Grants {
    return this.policies.grants(row.namespace, this.#policyNames(row), this.#subjectOf(row));
  }

  /**
   * The rights of requests of the cluster API without a token, by the root namespace's policy `anonymous`; null where it
   * holds no rule of that API. Its path rules grant nothing.
   */
  anonymousRights(): ClusterRights | null {
    const { cluster } = this.policies.grants("", [ANONYMOUS]);
    return hasClusterRules(cluster) ? cluster : null;
  }

  /** The rights that a holder would have by a policy that is not written. */
  grantsWith(row: TokenRow, draft: PolicyDraft): Grants {
    return this.policies.grantsWith(row.namespace, this.#policyNames(row), draft, this.#subjectOf(row));
  }

  #policyNames(row: TokenRow): string[] {
    const identityPolicies = row.entity_id === "" ? [] : this.entities.policiesOf(row.entity_id, row.namespace);
    return [...policiesOf(row), ...identityPolicies, ...this.roles.of(row).policies];
  }

  #subjectOf(row: TokenRow) {
    return () => this.entities.templateSubject(row.entity_id, row.namespace);
  }

  /** The roles of the cluster API that a token names. */
  rolesOf(row: TokenRow): HeldRoles {
    return this.roles.of(row);
  }

  /** False while the holder's entity is disabled or deleted; true for tokens without an entity. */
  isEntityActive(row: TokenRow): boolean {
    return row.entity_id === "" || this.entities.isActive(row.entity_id);
  }

  /** The viewer of mount listings; null when the token is gone. */
  viewer(accessor: string): Viewer | null {
    const row = this.tokens.byAccessor(accessor, Date.now(), true);
    return row && { grants: this.grantsOf(row), namespace: row.namespace };
  }
}
