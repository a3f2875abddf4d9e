import type {
  AclPolicy,
  GoverningRule,
  PoliciesApi,
  PolicyWritten,
  VolumeNamespace,
} from "../../contracts/policies.ts";
import { ok, type Result } from "../../lib/result.ts";
import type { ClusterNamespaces } from "../namespaces/cluster-namespaces.ts";
import type { PolicyAdmin } from "../policies/policy-admin.ts";
import type { PolicyStore } from "../policies/policy-store.ts";
import { governs } from "../policies/volume-rules.ts";

/** RPC methods about policies of both APIs. */
export class PolicyMethods implements PoliciesApi {
  readonly #policies: PolicyAdmin;
  readonly #store: PolicyStore;
  readonly #namespaces: Pick<ClusterNamespaces, "identity">;

  constructor(policies: PolicyAdmin, store: PolicyStore, namespaces: Pick<ClusterNamespaces, "identity">) {
    this.#policies = policies;
    this.#store = store;
    this.#namespaces = namespaces;
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

  volumeNamespace(name: string): Result<VolumeNamespace> {
    const id = this.#namespaces.identity(name);
    if (!id.ok) return id;
    return ok({ id: id.value, rules: this.#store.volumeRules().filter((rule) => governs(rule, name)) });
  }

  deletePolicy(namespace: string, name: string): Promise<Result<PolicyWritten & { existed: boolean }>> {
    return this.#policies.delete(namespace, name);
  }
}
