import type { AclPolicy, GoverningRule, PolicyAttributes, PolicyWritten } from "../contracts/policies.ts";
import type { Result } from "../lib/result.ts";
import { TokenSurface } from "./token-surface.ts";

/** What of `AccessControl` is about policies. */
export abstract class PolicySurface extends TokenSurface {
  /** @param attributes absent: as they were */
  putPolicy(
    namespace: string,
    name: string,
    text: string,
    attributes?: PolicyAttributes,
  ): Promise<Result<PolicyWritten>> {
    return this.parts.policies.put(namespace, name, text, attributes);
  }

  readPolicy(namespace: string, name: string): Result<{ name: string; text: string }> {
    return this.parts.policies.read(namespace, name);
  }

  policyNames(namespace: string): string[] {
    return this.parts.policyStore.names(namespace);
  }

  /** The policies of areas C and D: those of the root namespace, all or by name. */
  clusterPolicies(names: readonly string[] | null, prefix: string): AclPolicy[] {
    return this.parts.policies.cluster(names, prefix);
  }

  /** The volume rules of all policies, which govern everyone. */
  volumeRules(): GoverningRule[] {
    return this.parts.policyStore.volumeRules();
  }

  deletePolicy(namespace: string, name: string): Promise<Result<PolicyWritten & { existed: boolean }>> {
    return this.parts.policies.delete(namespace, name);
  }
}
