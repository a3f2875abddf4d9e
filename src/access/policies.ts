import { ok, type Result, refuse } from "../result.ts";
import { type AclPolicy, aclPolicy, policyDeleted, policyUpserted } from "./cluster-acl.ts";
import type { Journal } from "./journal.ts";
import { type NamespaceTree, namespaceMissing } from "./namespaces.ts";
import type { PolicyStore } from "./policy-store.ts";

/** Writing and reading policies, as both families of routes do it. */
export class Policies {
  readonly #store: PolicyStore;
  readonly #namespaces: NamespaceTree;
  readonly #journal: Journal;

  constructor(store: PolicyStore, namespaces: NamespaceTree, journal: Journal) {
    this.#store = store;
    this.#namespaces = namespaces;
    this.#journal = journal;
  }

  async put(namespace: string, name: string, text: string, description: string): Promise<Result<null>> {
    if (!this.#namespaces.has(namespace)) return namespaceMissing(namespace);
    const checked = this.#store.check(namespace, name, text);
    if (!checked.ok) return checked;
    this.#journal.commit(() => {
      const row = this.#store.put(namespace, name, text, checked.value, description);
      this.#journal.emit([policyUpserted(row)], [{ policy: [namespace, name] }]);
    });
    await this.#journal.published();
    return ok(null);
  }

  /** The policy's text, or "missing". */
  read(namespace: string, name: string): Result<{ name: string; text: string }> {
    if (name === "root" && namespace === "") return ok({ name, text: "" });
    const row = this.#store.find(namespace, name);
    return row ? ok({ name, text: row.text }) : refuse("missing");
  }

  /** The policies of areas C and D, which are those of the root namespace: all, or those of a list of names. */
  cluster(names: readonly string[] | null, prefix: string): AclPolicy[] {
    return (names ?? this.#store.names(""))
      .filter((name) => name.startsWith(prefix))
      .flatMap((name) => this.#store.find("", name) ?? [])
      .map(aclPolicy);
  }

  async delete(namespace: string, name: string): Promise<Result<{ existed: boolean }>> {
    if (name === "root" || name === "default") return refuse("invalid", `cannot delete "${name}" policy`);
    const row = this.#store.find(namespace, name);
    if (!row) return ok({ existed: false });
    this.#journal.commit(() => {
      this.#store.delete(namespace, name);
      this.#journal.emit([policyDeleted(row)]);
    });
    await this.#journal.published();
    return ok({ existed: true });
  }
}
