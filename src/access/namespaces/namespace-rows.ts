import type { NewEvent } from "../../contracts/event.ts";
import { policyDeleted, tokenDeleted } from "../cluster-acl/cluster-acl.ts";
import type { Entities } from "../identity/entities.ts";
import type { PolicyStore } from "../policies/policy-store.ts";
import type { TokenRoles } from "../tokens/token-roles.ts";
import type { TokenStore } from "../tokens/token-store.ts";
import type { NamespaceTree } from "./namespaces.ts";

/** The rows that end with a namespace: tokens, policies, roles of tokens, entities, and its own. */
export class NamespaceRows {
  constructor(
    private readonly tree: NamespaceTree,
    private readonly policies: PolicyStore,
    private readonly tokens: TokenStore,
    private readonly tokenRoles: TokenRoles,
    private readonly entities: Entities,
  ) {}

  /** Runs inside a transaction. @returns the events of the deletion */
  delete(path: string): NewEvent[] {
    const accessors = this.tokens.ofNamespace(path);
    const stored = this.policies.stored(path);
    this.tokens.delete(accessors);
    for (const { name } of stored) this.policies.delete(path, name);
    this.tokenRoles.deleteNamespace(path);
    this.entities.deleteNamespace(path);
    this.tree.delete(path);
    return [...accessors.map(tokenDeleted), ...stored.map(policyDeleted)];
  }
}
