import { type ClusterRights, MANAGEMENT } from "../../contracts/cluster-rights.ts";
import type { GoverningRule, PathRule, Policy, PolicyAttributes, VolumeRule } from "../../contracts/policies.ts";
import { ok, type Refusal, type Result, refuse } from "../../lib/result.ts";
import { hasClusterRules, mergeClusterRules } from "../../rights/cluster-rights.ts";
import { compilePaths, type PathAcl } from "../../rights/path-rules.ts";
import { isTemplated, resolveTemplate, type TemplateSubject } from "../paths/path-templates.ts";
import { column, firstRow } from "../rows.ts";
import type { PolicyApi } from "./policy-blocks.ts";
import { DEFAULT_POLICY, parsePolicy, WRAPPING_POLICY, WRAPPING_POLICY_NAME } from "./policy-parser.ts";

export interface PolicyRow extends Record<string, SqlStorageValue> {
  namespace: string;
  name: string;
  text: string;
  parsed: string;
  description: string;
  create_index: number | null;
  modify_index: number | null;
  /** The job of the policy, as JSON. Stored for clients; it has no effect here. */
  job_acl: string | null;
}

/** The compiled rights of a set of policies. */
export interface Grants {
  readonly root: boolean;
  readonly paths: PathAcl;
  readonly cluster: ClusterRights;
}

/** A checked policy that is not written. */
export interface PolicyDraft {
  readonly name: string;
  readonly policy: Policy;
}

/** A set of policies, loaded. */
interface PolicySet {
  readonly plain: readonly PathRule[];
  readonly templated: readonly PathRule[];
  readonly cluster: ClusterRights;
}

const builtIn = (namespace: string, name: string, text: string): PolicyRow => ({
  namespace,
  name,
  text,
  parsed: "",
  description: "",
  create_index: 1,
  modify_index: 1,
  job_acl: null,
});

/** Names by the API that writes them, in lower case: those of the secrets API are upstream's. */
const NAMES: Readonly<Record<PolicyApi, { readonly pattern: RegExp; readonly rule: string }>> = {
  cluster: { pattern: /^[a-z0-9._@ -]{1,128}$/, rule: "1 to 128 of a-z 0-9 . _ @ - and space, in lower case" },
  secrets: {
    pattern: /^(?![\s/])[^\p{Cc}\p{Cf}\p{Zl}\p{Zp}]{1,128}(?<![\s/])$/u,
    rule: "1 to 128 printable characters, with no space or slash at its ends",
  },
};
/** A row holds 2 MB: the text, its parsed form and its event must each fit. */
const MAX_TEXT_BYTES = 512 * 1024;
/** Bounds for all policies together, because every volume is checked against their rules. */
const MAX_VOLUME_RULES = 200;
const MAX_VOLUME_RULES_BYTES = 128 * 1024;
const MAX_CACHED_GRANTS = 1_000;
const ROOT: Grants = { root: true, paths: compilePaths([]), cluster: MANAGEMENT };

/**
 * The table of policies, and the compiled rights of sets of policies. Sets are cached until the next write: a cached
 * set costs no read, a new one costs one read per policy. Rights from templates are cached by their resolved paths.
 */
export class PolicyStore {
  readonly #sets = new Map<string, PolicySet>();
  readonly #grants = new Map<string, Grants>();

  constructor(private readonly sql: SqlStorage) {}

  find(namespace: string, name: string): PolicyRow | null {
    if (name === WRAPPING_POLICY_NAME) return builtIn(namespace, name, WRAPPING_POLICY);
    const query = "SELECT * FROM policies WHERE namespace = ? AND name = ?";
    const row = firstRow<PolicyRow>(this.sql, query, namespace, name);
    return row ?? (name === "default" ? builtIn(namespace, name, DEFAULT_POLICY) : null);
  }

  /** Names in one namespace, sorted, including built-in ones. */
  names(namespace: string): string[] {
    const stored = column(this.sql, "SELECT name FROM policies WHERE namespace = ?", namespace);
    const names = new Set([...stored, "default", ...(namespace === "" ? ["root"] : [])]);
    names.delete(WRAPPING_POLICY_NAME);
    return [...names].sort();
  }

  /** The policies written in one namespace, without built-in ones. */
  stored(namespace: string): PolicyRow[] {
    return this.sql.exec<PolicyRow>("SELECT * FROM policies WHERE namespace = ?", namespace).toArray();
  }

  /**
   * Checks the name and the document of a policy.
   * @param api the API that writes it; the cluster API accepts a document without rules where no rights end by it
   */
  check(namespace: string, name: string, text: string, api: PolicyApi): Result<Policy> {
    const { pattern, rule } = NAMES[api];
    if (!pattern.test(name)) {
      return refuse("invalid", `policy name: ${JSON.stringify(name.slice(0, 130))} must be ${rule}`);
    }
    if (name === "root") return refuse("invalid", 'cannot update "root" policy');
    if (name === WRAPPING_POLICY_NAME) return refuse("invalid", `cannot update ${JSON.stringify(name)} policy`);
    if (Buffer.byteLength(text) > MAX_TEXT_BYTES) {
      return refuse("invalid", `policy: the document may have at most ${MAX_TEXT_BYTES} bytes`);
    }
    const parsed = parsePolicy(text, api);
    if (!parsed.ok) return refuse("invalid", parsed.message);
    if (isEmpty(parsed.policy)) {
      const before = this.#policy(namespace, name);
      if (api === "secrets" || (before && !isEmpty(before))) return refuse("invalid", NO_RULES);
    }
    // Events and volumes have no tree of namespaces: such a rule would have no effect, or would affect other tenants.
    if (namespace !== "" && hasRules(parsed.policy)) {
      return refuse("invalid", "Invalid policy: only policies of the root namespace may hold rules other than path");
    }
    return this.#tooManyVolumeRules(name, parsed.policy) ?? ok(parsed.policy);
  }

  /** The volume rules of all policies; `check` bounds their number. */
  volumeRules(): GoverningRule[] {
    return this.#withVolumeRules().flatMap(({ name, rules }) =>
      (JSON.parse(rules) as VolumeRule[]).map((rule) => ({ ...rule, policy: name })),
    );
  }

  #withVolumeRules() {
    return this.sql
      .exec<{ name: string; rules: string }>(
        `SELECT name, json_extract(parsed, '$.volumeRules') AS rules FROM policies
         WHERE json_extract(parsed, '$.volumeRules') IS NOT NULL ORDER BY name`,
      )
      .toArray();
  }

  #tooManyVolumeRules(name: string, { volumeRules = [] }: Policy): Refusal | null {
    if (volumeRules.length === 0) return null;
    const others = this.#withVolumeRules().filter((policy) => policy.name !== name);
    const rules = [...others.flatMap((policy) => JSON.parse(policy.rules) as VolumeRule[]), ...volumeRules];
    if (rules.length <= MAX_VOLUME_RULES && Buffer.byteLength(JSON.stringify(rules)) <= MAX_VOLUME_RULES_BYTES)
      return null;
    return refuse(
      "invalid",
      `Invalid policy: volume_rule: all policies together may hold ${MAX_VOLUME_RULES} rules and ${MAX_VOLUME_RULES_BYTES} bytes of them`,
    );
  }

  /**
   * Writes a checked policy. Runs inside the object's transaction.
   * @param attributes null to keep the stored ones
   */
  put(
    namespace: string,
    name: string,
    text: string,
    policy: Policy,
    attributes: PolicyAttributes | null = null,
  ): PolicyRow {
    const kept = attributes === null ? "" : "description = excluded.description, job_acl = excluded.job_acl,";
    const jobAcl = attributes?.jobAcl ?? null;
    const row = this.sql.exec<PolicyRow>(
      `INSERT INTO policies (namespace, name, text, parsed, description, job_acl) VALUES (?, ?, ?, ?, ?, ?)
       ON CONFLICT (namespace, name) DO UPDATE SET text = excluded.text, parsed = excluded.parsed, ${kept}
         modify_index = NULL RETURNING *`,
      namespace,
      name,
      text,
      JSON.stringify(policy),
      attributes?.description ?? "",
      jobAcl === null ? null : JSON.stringify(jobAcl),
    );
    this.forget();
    return row.one();
  }

  delete(namespace: string, name: string): void {
    this.sql.exec("DELETE FROM policies WHERE namespace = ? AND name = ?", namespace, name);
    this.forget();
  }

  /** Drops cached rights, after a write or a rollback. */
  forget(): void {
    this.#sets.clear();
    this.#grants.clear();
  }

  /**
   * The rights of a token with these policies of `namespace`. Unknown names grant nothing.
   * @param subject the token's entity, for templates; asked only if a policy has one
   */
  grants(namespace: string, names: readonly string[], subject: () => TemplateSubject | null = () => null): Grants {
    if (names.includes("root")) return ROOT;
    const key = JSON.stringify([namespace, [...names].sort()]);
    const set = this.#sets.get(key) ?? this.#load(key, namespace, names);
    const resolved = resolvedRules(set, subject);
    const resolvedKey = key + JSON.stringify(resolved.map((rule) => rule?.path ?? null));
    const cached = this.#grants.get(resolvedKey);
    if (cached) return cached;
    const grants = compile(namespace, set, resolved);
    if (this.#grants.size >= MAX_CACHED_GRANTS) this.#grants.clear();
    this.#grants.set(resolvedKey, grants);
    return grants;
  }

  /** The same with a draft in the place of the policy of its name. Nothing is cached. */
  grantsWith(
    namespace: string,
    names: readonly string[],
    draft: PolicyDraft,
    subject: () => TemplateSubject | null = () => null,
  ): Grants {
    if (names.includes("root")) return ROOT;
    const others = names.filter((name) => name !== draft.name).flatMap((name) => this.#policy(namespace, name) ?? []);
    const set = setOf([...others, draft.policy]);
    return compile(namespace, set, resolvedRules(set, subject));
  }

  #load(key: string, namespace: string, names: readonly string[]): PolicySet {
    const set = setOf(names.flatMap((name) => this.#policy(namespace, name) ?? []));
    if (this.#sets.size >= MAX_CACHED_GRANTS) this.#sets.clear();
    this.#sets.set(key, set);
    return set;
  }

  #policy(namespace: string, name: string): Policy | null {
    const row = this.find(namespace, name);
    if (!row) return null;
    if (row.parsed !== "") return JSON.parse(row.parsed) as Policy;
    const builtIn = parsePolicy(row.text);
    return builtIn.ok ? builtIn.policy : null;
  }
}

function setOf(policies: readonly Policy[]): PolicySet {
  const rules = policies.flatMap(({ paths }) => paths);
  return {
    plain: rules.filter(({ path }) => !isTemplated(path)),
    templated: rules.filter(({ path }) => isTemplated(path)),
    cluster: mergeClusterRules(policies.map(({ cluster }) => cluster)),
  };
}

/** Rules with templates for a subject; null where the subject lacks a value. */
function resolvedRules(set: PolicySet, subject: () => TemplateSubject | null): (PathRule | null)[] {
  const entity = set.templated.length > 0 ? subject() : null;
  return entity === null ? [] : set.templated.map((rule) => resolveTemplate(rule, entity));
}

function compile(namespace: string, set: PolicySet, resolved: readonly (PathRule | null)[]): Grants {
  const paths = [...set.plain, ...resolved.filter((rule) => rule !== null)];
  return { root: false, paths: compilePaths([{ namespace, paths }]), cluster: set.cluster };
}

/** An empty variable or a file of comments would otherwise silently remove all rights. */
const NO_RULES = "Invalid policy: the document holds no rule; delete the policy to take its rights away";

const isEmpty = (policy: Policy): boolean => policy.paths.length === 0 && !hasRules(policy);

/** Whether a policy holds rules other than `path`. */
const hasRules = ({ cluster, volumeRules }: Policy): boolean => volumeRules !== undefined || hasClusterRules(cluster);
