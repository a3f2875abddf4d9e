import type { Result } from "../lib/result.ts";
import type { Wire } from "../wire/infer.ts";
import type * as schemas from "../wire/sync.ts";
import type { Granularity, PlannedObject } from "./sync-tasks.ts";

/**
 * `scanning`: compares all secrets of the mount. `active`: follows changes. `paused`: evaluates nothing and pushes
 * nothing new. `limit_exceeded`: more secrets match than `max_secrets`, nothing is added. `confirmation_required`: a
 * change would remove more than `max_removals`. `error`: the mount cannot be read. `deleting`: its associations end.
 */
export type RuleStatus =
  | "scanning"
  | "active"
  | "paused"
  | "limit_exceeded"
  | "confirmation_required"
  | "error"
  | "deleting";

/** A condition on `custom_metadata`; all of a rule hold. */
export interface SelectorCondition {
  readonly key: string;
  readonly operator: "In" | "NotIn" | "Exists" | "DoesNotExist";
  readonly values: readonly string[];
}

/**
 * The end of the object of a secret that no longer matches. `retain`: it stays and is forgotten. `hold`: it stays,
 * is not pushed any more, and its association waits for a set, a removal or another match.
 */
export type Unmatched = "delete" | "retain" | "hold";

/** A rule as stored: every field has its value. */
export interface RuleDefinition {
  readonly path_prefix: string;
  readonly path_glob: readonly string[];
  readonly exclude_glob: readonly string[];
  readonly metadata_selector: readonly SelectorCondition[];
  readonly match_all: boolean;
  /** Keys that are pushed; empty: all. */
  readonly key_glob: readonly string[];
  readonly exclude_key_glob: readonly string[];
  /** The text of an object; empty: the secret as JSON. */
  readonly value_template: string;
  /** Empty: the destination's. */
  readonly name_template: string;
  /** Null: the destination's. */
  readonly granularity: Granularity | null;
  /** Null: as the destination's `deletion_policy` says. */
  readonly on_unmatch: Unmatched | null;
  readonly max_secrets: number;
  readonly max_removals: number | string;
  readonly priority: number;
  readonly paused: boolean;
  /** How the body spelled what has two forms: reads show the same, so that clients which compare see no change. */
  readonly given: { readonly mount: string; readonly selector: "map" | "list" };
}

/** The mount of a rule, which survives a move by its uuid. */
export interface RuleMount {
  readonly uuid: string;
  readonly accessor: string;
  readonly path: string;
}

/** A rule as reads show it. */
export interface RuleView {
  readonly name: string;
  readonly mount: string;
  readonly definition: RuleDefinition;
  readonly status: RuleStatus;
  readonly generation: number;
  readonly progress: { readonly matched: number; readonly applied: number; readonly pending_removals: number };
  /** Counts of the sync status of its associations. */
  readonly sync_operation_counters: Readonly<Record<string, number>>;
  /** The newest problems, one sentence each: of the rule, and of secrets that cannot be set. */
  readonly problems: readonly string[];
  /** The plan for `confirm`, while a confirmation is required. */
  readonly plan_id?: string;
  readonly evaluated_at?: string;
}

export type RuleMatch = Wire<typeof schemas.RuleMatch>;

/** The effect that a rule would have. */
export interface RulePlan {
  readonly summary: Readonly<Record<"matched" | "create" | "keep" | "delete" | "retain" | "hold" | "refused", number>>;
  readonly planned: readonly PlannedObject[];
  /** The secret after which the next page begins; null on the last one. */
  readonly next: string | null;
}

/** The outcome of a set by selector. */
export interface Selected {
  /** Ids of associations. */
  readonly set: readonly string[];
  readonly skipped: readonly { readonly secret_name: string; readonly reason: string }[];
}

/** The rules of a destination; part of `SyncDestinationApi`. */
export interface SyncRulesApi {
  putRule(name: string, mount: RuleMount, definition: RuleDefinition): Promise<Result<RuleView>>;
  previewRule(name: string, mount: RuleMount, definition: RuleDefinition, after: string): Promise<Result<RulePlan>>;
  readRule(name: string): Result<RuleView>;
  ruleNames(): Result<readonly string[]>;
  ruleMatches(
    name: string,
    after: string,
    limit: number,
  ): Result<{ matches: readonly RuleMatch[]; next: string | null }>;
  confirmRule(name: string, plan: string): Promise<Result<RuleView>>;
  /** @param onUnmatch what becomes of the objects; null: as the rule says */
  deleteRule(name: string, onUnmatch: Unmatched | null): Promise<Result<null>>;
  /** Sets associations of the secrets that match now, as requests do. */
  setSelected(mount: RuleMount, definition: RuleDefinition): Promise<Result<Selected>>;
  /** A mount reports changed secrets to a destination with rules. */
  matching(mountUuid: string, paths: readonly string[]): Promise<void>;
}
