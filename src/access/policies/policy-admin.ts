import type { AclPolicy, PolicyAttributes } from "../../contracts/policies.ts";
import type { Written } from "../../contracts/rows.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import { aclPolicy, policyDeleted, policyUpserted } from "../cluster-acl/cluster-acl.ts";
import type { AccessPublisher } from "../event-publisher.ts";
import { type NamespaceTree, namespaceMissing } from "../namespaces/namespaces.ts";
import { WRAPPING_POLICY_NAME } from "./policy-parser.ts";
import type { PolicyStore } from "./policy-store.ts";

/** Writes and reads policies for the secrets API and the cluster API. */
export class PolicyAdmin {
  constructor(
    private readonly store: PolicyStore,
    private readonly namespaces: NamespaceTree,
    private readonly publisher: AccessPublisher,
  ) {}

  /**
   * @param attributes null to keep the stored ones
   * @returns `index` of the event; null if the event log was not reachable yet
   */
  async put(
    namespace: string,
    name: string,
    text: string,
    attributes: PolicyAttributes | null = null,
  ): Promise<Result<Written>> {
    if (!this.namespaces.has(namespace)) return namespaceMissing(namespace);
    const checked = this.store.check(namespace, name, text, attributes === null ? "secrets" : "cluster");
    if (!checked.ok) return checked;
    const line = this.publisher.commit(() => {
      const row = this.store.put(namespace, name, text, checked.value, attributes);
      return this.publisher.emitLine([policyUpserted(row)], [{ policy: [namespace, name] }]);
    });
    return ok({ index: await this.publisher.indexOf(line) });
  }

  /** The policy's text, or "missing". */
  read(namespace: string, name: string): Result<{ name: string; text: string }> {
    if (name === "root" && namespace === "") return ok({ name, text: "" });
    const row = this.store.find(namespace, name);
    return row ? ok({ name, text: row.text }) : refuse("missing");
  }

  /** The policies of the cluster API, which are those of the root namespace: all, or those with the given names. */
  cluster(names: readonly string[] | null, prefix: string): AclPolicy[] {
    return [...new Set(names ?? this.store.names(""))]
      .filter((name) => name.startsWith(prefix))
      .flatMap((name) => this.store.find("", name) ?? [])
      .map(aclPolicy);
  }

  async delete(namespace: string, name: string): Promise<Result<Written & { existed: boolean }>> {
    if (name === "root" || name === "default" || name === WRAPPING_POLICY_NAME)
      return refuse("invalid", `cannot delete "${name}" policy`);
    const row = this.store.find(namespace, name);
    if (!row) return ok({ existed: false, index: null });
    const line = this.publisher.commit(() => {
      this.store.delete(namespace, name);
      return this.publisher.emitLine([policyDeleted(row)], []);
    });
    return ok({ existed: true, index: await this.publisher.indexOf(line) });
  }
}
