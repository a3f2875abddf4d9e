import type { BindingRule, BindingRuleBody, BindingRuleStub, LoginClaims } from "../../contracts/cluster-acl.ts";
import type { NewEvent } from "../../contracts/event.ts";
import { compileFilter } from "../../lib/bexpr/compile.ts";
import { FilterError } from "../../lib/bexpr/errors.ts";
import * as kind from "../../lib/bexpr/kinds.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import { filled, readTemplate, variablesOf } from "../../lib/template.ts";
import type { AccessPublisher } from "../event-publisher.ts";
import { clusterEvent, digest } from "./cluster-acl.ts";
import type { ClusterAuthMethods } from "./cluster-auth-methods.ts";

interface RuleRow extends Record<string, SqlStorageValue> {
  id: string;
  auth_method: string;
  /** Everything else, as JSON. */
  value: string;
  create_index: number | null;
  modify_index: number | null;
}

type Stored = Omit<BindingRule, "ID" | "AuthMethod" | "Hash" | "CreateIndex" | "ModifyIndex">;

/** Names of the roles and policies that the rules of an auth method give to a caller. */
export interface Bindings {
  readonly management: boolean;
  readonly roles: readonly string[];
  readonly policies: readonly string[];
}

const BIND_TYPES: readonly string[] = ["role", "policy", "management"];
const MAX_RULES = 1_000;
const MAX_SELECTOR = 4_096;
/** Work of one selector over one caller's claims. */
const MAX_STEPS = 1_000_000;
/** The fields of selectors: claims by the names that `ClaimMappings` and `ListClaimMappings` give them. */
const CLAIMS = kind.struct({ value: kind.map(kind.string), list: kind.map(kind.list(kind.string)) });
/** Claims that may become part of a name: as upstream's names of roles and policies. */
const NAME_PART = /^[a-zA-Z0-9-]*$/;
const NAME = /^[a-z0-9._@-][a-z0-9._@ -]{0,127}$/;
const ROLE_NAME = /^[a-zA-Z0-9-]{1,128}$/;

/**
 * Binding rules of auth methods (https://developer.hashicorp.com/nomad/api-docs/acl/binding-rules), one row each. They
 * turn the verified claims of a login into names of roles and policies.
 */
export class BindingRules {
  constructor(
    private readonly sql: SqlStorage,
    private readonly methods: ClusterAuthMethods,
    private readonly publisher: AccessPublisher,
  ) {}

  list(): BindingRuleStub[] {
    return this.#rows("SELECT * FROM binding_rules ORDER BY id").map((rule) => {
      const { ID, Description, AuthMethod, Hash, CreateIndex, ModifyIndex } = rule;
      return { ID, Description, AuthMethod, Hash, CreateIndex, ModifyIndex };
    });
  }

  read(id: string): BindingRule | null {
    return this.#rows("SELECT * FROM binding_rules WHERE id = ?", id)[0] ?? null;
  }

  /**
   * Creates a rule, or changes the one with this id: as upstream, an empty bind type or name keeps the stored one.
   * @param id null creates a rule
   */
  async put(id: string | null, body: BindingRuleBody): Promise<Result<BindingRule>> {
    const before = id === null ? null : this.read(id);
    if (id !== null && !before) return refuse("invalid", `cannot find binding rule ${id}`);
    const merged = mergedWith(body, before);
    if (before && merged.AuthMethod !== before.AuthMethod) {
      return refuse("invalid", "cannot update auth method for binding rule, create a new rule instead");
    }
    const problem = ruleProblem(merged);
    if (problem !== null) return refuse("invalid", `binding rule 0 invalid: ${problem}`);
    if (!this.methods.has(merged.AuthMethod)) {
      return refuse("invalid", `ACL auth method ${merged.AuthMethod} not found`);
    }
    if (!before && this.#count() >= MAX_RULES) return refuse("invalid", `there may be at most ${MAX_RULES} rules`);
    const now = new Date().toISOString();
    const { AuthMethod, ...rest } = merged;
    const value: Stored = { ...rest, CreateTime: before?.CreateTime ?? now, ModifyTime: now };
    const rule = id ?? crypto.randomUUID();
    this.publisher.commit(() => {
      const [written] = this.#rows(
        `INSERT INTO binding_rules (id, auth_method, value) VALUES (?, ?, ?)
         ON CONFLICT (id) DO UPDATE SET value = excluded.value, modify_index = NULL RETURNING *`,
        rule,
        AuthMethod,
        JSON.stringify(value),
      );
      const events = written ? [ruleEvent("ACLBindingRuleUpserted", { ...written, ModifyIndex: null })] : [];
      this.publisher.emit(events, [{ bindingRule: rule }]);
    });
    await this.publisher.published();
    const written = this.read(rule);
    return written ? ok(written) : missing();
  }

  async delete(id: string): Promise<Result<{ index: number | null }>> {
    const rule = this.read(id);
    if (!rule) return missing();
    const line = this.publisher.commit(() => {
      this.sql.exec("DELETE FROM binding_rules WHERE id = ?", id);
      return this.publisher.emitLine([ruleEvent("ACLBindingRuleDeleted", rule)], []);
    });
    return ok({ index: await this.publisher.indexOf(line) });
  }

  /**
   * The names that the rules of an auth method give to a caller.
   * @param mapped names that `ClaimMappings` defines; claims that a caller lacks are empty texts
   * @returns a refusal when a claim does not fit into a name
   */
  bind(method: string, claims: LoginClaims, mapped: readonly string[]): Result<Bindings> {
    const [roles, policies]: [Set<string>, Set<string>] = [new Set(), new Set()];
    for (const rule of this.#rows("SELECT * FROM binding_rules WHERE auth_method = ? ORDER BY id", method)) {
      if (!isSelected(rule.Selector, claims)) continue;
      if (rule.BindType === "management") return ok({ management: true, roles: [], policies: [] });
      const name = boundName(rule, claims, mapped);
      if (!name.ok) return name;
      (rule.BindType === "role" ? roles : policies).add(name.value);
    }
    return ok({ management: false, roles: [...roles], policies: [...policies] });
  }

  #count(): number {
    return this.sql.exec<{ n: number }>("SELECT count(*) AS n FROM binding_rules").one().n;
  }

  #rows(query: string, ...values: string[]): BindingRule[] {
    return this.sql
      .exec<RuleRow>(query, ...values)
      .toArray()
      .map((row) => {
        const stored = JSON.parse(row.value) as Stored;
        const { Description, Selector, BindType, BindName } = stored;
        return {
          ID: row.id,
          AuthMethod: row.auth_method,
          ...stored,
          Hash: digest(row.id, Description, row.auth_method, Selector, BindType, BindName),
          CreateIndex: row.create_index,
          ModifyIndex: row.modify_index,
        };
      });
  }
}

const missing = () => refuse("missing", "ACL binding rule not found");

const mergedWith = (body: BindingRuleBody, before: BindingRule | null): BindingRuleBody => ({
  ...body,
  AuthMethod: body.AuthMethod || (before?.AuthMethod ?? ""),
  BindType: body.BindType || (before?.BindType ?? ""),
  BindName: body.BindName || (before?.BindName ?? ""),
});

/** Why a rule cannot be stored; null when it can. */
function ruleProblem({ AuthMethod, Description, BindType, BindName, Selector }: BindingRuleBody): string | null {
  if (AuthMethod === "") return "auth method is missing";
  if (Description.length > 256) return "description longer than 256";
  if (BindType === "") return "bind type is missing";
  if (!BIND_TYPES.includes(BindType)) return `unsupported bind type: ${JSON.stringify(BindType.slice(0, 64))}`;
  if (BindType === "management" && BindName !== "") return "bind name should be empty";
  if (BindType !== "management" && BindName === "") return "bind name is missing";
  if (BindName.length > 1_024) return "bind name longer than 1024";
  const template = readTemplate(BindName);
  if (!template || !variablesOf(template).every((name) => name.startsWith("value."))) {
    return "bind name: only claims can be interpolated, each as value.<name>";
  }
  if (BindType === "policy" && template.length === 1 && !NAME.test(BindName)) return "bind name is no name of a policy";
  if (BindType === "role" && template.length === 1 && !ROLE_NAME.test(BindName))
    return "bind name is no name of a role";
  if (Selector.length > MAX_SELECTOR) return `selector longer than ${MAX_SELECTOR}`;
  const selector = Selector === "" ? null : compiled(Selector);
  return typeof selector === "string" ? `selector is invalid: ${selector}` : null;
}

/** A selector, or why it cannot be one. */
function compiled(selector: string): ((claims: LoginClaims) => boolean) | string {
  try {
    return compileFilter<LoginClaims>(selector, CLAIMS, MAX_STEPS);
  } catch (failure) {
    if (!(failure instanceof FilterError)) throw failure;
    return failure.message.replace(/^failed to (?:create result paginator|read result page): /, "");
  }
}

/** Whether a selector selects a caller. One that takes too much work does not. */
function isSelected(selector: string, claims: LoginClaims): boolean {
  if (selector === "") return true;
  const test = compiled(selector);
  try {
    return typeof test !== "string" && test(claims);
  } catch (failure) {
    if (!(failure instanceof FilterError)) throw failure;
    return false;
  }
}

/** The name that a rule gives to a caller. Claims are lower case in it, and never more than a part of a name. */
function boundName(
  { BindType, BindName }: BindingRule,
  { value }: LoginClaims,
  mapped: readonly string[],
): Result<string> {
  const template = readTemplate(BindName) ?? [];
  const names = variablesOf(template).map((name) => name.slice("value.".length));
  const unknown = names.find((name) => !mapped.includes(name));
  if (unknown !== undefined) {
    return refuse("invalid", `cannot compute ${BindType} bind name: ClaimMappings maps no claim to ${unknown}`);
  }
  const claimOf = (name: string): string => (Object.hasOwn(value, name) ? (value[name] ?? "") : "");
  const name = filled(template, (variable) => claimOf(variable.slice("value.".length)).toLowerCase());
  const fits = names.every((claim) => NAME_PART.test(claimOf(claim)));
  if (!fits || !(BindType === "role" ? ROLE_NAME : NAME).test(name)) {
    return refuse("invalid", `computed ${BindType} bind name for bind target is invalid`);
  }
  return ok(name);
}

const ruleEvent = (type: "ACLBindingRuleUpserted" | "ACLBindingRuleDeleted", rule: BindingRule): NewEvent => ({
  ...clusterEvent("ACLBindingRule", type, rule.ID, "", rule),
  FilterKeys: [rule.AuthMethod],
});
