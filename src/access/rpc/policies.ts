import type { AclPolicy, GoverningRule, PoliciesApi, PolicyWritten } from "../../contracts/policies.ts";
import type { Result } from "../../lib/result.ts";
import type { PolicyAdmin } from "../policies/policy-admin.ts";
import type { PolicyStore } from "../policies/policy-store.ts";

/** RPC methods about policies of both APIs. */
export class PolicyMethods implements PoliciesApi {
  readonly #policies: PolicyAdmin;
  readonly #store: PolicyStore;

  constructor(policies: PolicyAdmin, store: PolicyStore) {
    this.#policies = policies;
    this.#store = store;
  }

  putPolicy(...given: Parameters<PolicyAdmin["put"]>): Promise<Result<PolicyWritten>> {
    return this.#policies.put(...given);
  }

  readPolicy(namespace: string, name: string): Result<{ name: string; text: string }> {
    return this.#policies.read(namespace, name);
  }

  policyNames(namespace: string): string[] {
    return this.#store.names(namespace);
  }

  clusterPolicies(names: readonly string[] | null, prefix: string): AclPolicy[] {
    return this.#policies.cluster(names, prefix);
  }

  volumeRules(): GoverningRule[] {
    return this.#store.volumeRules();
  }

  deletePolicy(namespace: string, name: string): Promise<Result<PolicyWritten & { existed: boolean }>> {
    return this.#policies.delete(namespace, name);
  }
}
