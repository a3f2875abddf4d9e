import type { Capability, PolicyTrial, TriedCapabilities } from "../../contracts/policies.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import type { PathEvaluator } from "../paths/path-evaluator.ts";
import type { TokenCapabilities } from "../tokens/token-capabilities.ts";
import type { TokenHolders } from "../tokens/token-holders.ts";
import type { Grants, PolicyStore } from "./policy-store.ts";

/** Judges a policy that is not written yet, for one token or alone. Changes nothing. */
export class PolicyTrials {
  constructor(
    private readonly policies: PolicyStore,
    private readonly holders: TokenHolders,
    private readonly tokens: TokenCapabilities,
    private readonly evaluator: PathEvaluator,
  ) {}

  /** Refuses a text that a write refuses, and a caller without the rights. */
  run({ namespace, name, text, accessor, paths, rights }: PolicyTrial): Result<Record<string, TriedCapabilities>> {
    for (const check of rights) {
      const may = this.tokens.mayAlso(check);
      if (!may.ok) return may;
    }
    const checked = this.policies.check(namespace, name ?? NEW, text, "secrets");
    if (!checked.ok) return checked;
    const draft = { name: name ?? "", policy: checked.value };
    if (accessor === null) {
      const before = this.policies.grants(namespace, name === null ? [] : [name]);
      return ok(this.#judge(namespace, paths, before, this.policies.grantsWith(namespace, [], draft)));
    }
    const token = this.tokens.named({ accessor, within: namespace });
    if (!token.ok) return token;
    if (token.value === null) return refuse("invalid", "invalid accessor");
    if (token.value.namespace !== namespace)
      return refuse("invalid", "accessor: the token is of another namespace than the policy");
    const after = this.holders.grantsWith(token.value, draft);
    return ok(this.#judge(namespace, paths, this.holders.grantsOf(token.value), after));
  }

  #judge(namespace: string, paths: readonly string[], before: Grants, after: Grants) {
    const of = (grants: Grants, path: string): (Capability | "root")[] => [
      ...this.evaluator.capabilities(grants, namespace, path),
    ];
    return Object.fromEntries(paths.map((path) => [path, { before: of(before, path), after: of(after, path) }]));
  }
}

/** Stands for the name in the check of a text without one. */
const NEW = "new";
