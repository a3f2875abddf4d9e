import * as z from "zod";
import { keysOf, time } from "../../wire/shapes.ts";
import { Planned, RuleMatch } from "../../wire/sync.ts";
import { data, group } from "../operation.ts";

const Condition = z.object({
  key: z.string(),
  operator: z.enum(["In", "NotIn", "Exists", "DoesNotExist"]),
  values: z.array(z.string()),
});

const Rule = z
  .object({
    name: z.string(),
    mount: z.string(),
    path_prefix: z.string(),
    path_glob: z.array(z.string()),
    exclude_glob: z.array(z.string()),
    metadata_selector: z.union([z.array(Condition), z.record(z.string(), z.string())]).describe("As it was written."),
    match_all: z.boolean(),
    key_glob: z.array(z.string()),
    exclude_key_glob: z.array(z.string()),
    value_template: z.string().describe("Empty: the secret as JSON."),
    name_template: z.string().describe("Empty: the destination's."),
    granularity: z.enum(["secret-path", "secret-key"]).optional().describe("Absent: the destination's."),
    on_unmatch: z
      .enum(["delete", "retain", "hold"])
      .optional()
      .describe("Absent: as the destination's `deletion_policy`."),
    max_secrets: z.int(),
    max_removals: z.union([z.int(), z.string()]),
    priority: z.int(),
    paused: z.boolean(),
    status: z.enum(["scanning", "active", "paused", "limit_exceeded", "confirmation_required", "error", "deleting"]),
    generation: z.int().describe("Grows with each evaluation of all secrets."),
    progress: z.object({ matched: z.int(), applied: z.int(), pending_removals: z.int() }),
    sync_operation_counters: z.record(z.string(), z.int()).describe("Statuses of its associations."),
    problems: z.array(z.string()),
    plan_id: z.string().optional().describe("For `confirm`, while a confirmation is required."),
    evaluated_at: time.optional(),
  })
  .meta({ id: "SyncRule" });

const Plan = z.object({
  dry_run: z.literal(true),
  summary: z.object({
    matched: z.int(),
    create: z.int(),
    keep: z.int(),
    delete: z.int(),
    retain: z.int(),
    hold: z.int(),
    refused: z.int(),
  }),
  planned: z.array(Planned),
  next: z.string().describe("The value of `after` for the next page; empty on the last one."),
});

const Matches = z.object({
  matches: z.array(RuleMatch),
  next: z.string().describe("The value of `after` for the next page; empty on the last one."),
});

const fields = {
  mount: "The path of a KV version 2 mount. Cannot change.",
  path_prefix: "Whole segments: `app` matches `app` and all below `app/`.",
  path_glob: "Any of these: `*` is a part of a segment, `**` any depth, `?` one character.",
  exclude_glob: "Secrets that never match.",
  metadata_selector: "Conditions on `custom_metadata`: a map of equal values, or a list.",
  match_all: "Required for a rule without prefix, glob and selector.",
  key_glob: "Keys that are pushed; default: all. A secret without any has no object.",
  exclude_key_glob: "Keys that are not pushed.",
  value_template: "The text of the object of a secret, such as `{{ .Data.user }}:{{ .Data.password }}`.",
  name_template: "Names of the objects; default: the destination's template.",
  granularity: "Default: the destination's.",
  on_unmatch: "What becomes of the object of a secret that no longer matches.",
  max_secrets: "With more matches the rule adds nothing.",
  max_removals: "More removals in an hour wait for `confirm`: a number, or a percentage of the matches, at least 10.",
  priority: "Of two rules for one secret the lower one names the object.",
  paused: "Nothing is evaluated, set, pushed or removed.",
  dry_run: "Returns a plan without changes.",
};

const rule = { rule: "The rule's name." };

export const syncRules = group(
  "Sync",
  { type: "The destination's type.", name: "The destination's name." },
  {
    "LIST /sys/sync/destinations/:type/:name/rules": {
      id: "listSyncRules",
      summary: "List rules of a destination",
      answers: data("Names of rules.", keysOf({})),
    },
    "GET /sys/sync/destinations/:type/:name/rules/:rule": {
      id: "readSyncRule",
      summary: "Read a rule",
      path: rule,
      answers: data("The rule.", Rule),
    },
    "POST /sys/sync/destinations/:type/:name/rules/:rule": {
      id: "writeSyncRule",
      summary: "Sync all secrets that match",
      description:
        "Also requires read access to every path that the rule can match. Left out fields have their default.",
      path: rule,
      query: { dry_run: "Returns a plan without changes.", after: "Planned secrets after this one." },
      body: { fields },
      answers: data("The rule; of a dry run its plan.", z.union([Rule, Plan])),
    },
    "DELETE /sys/sync/destinations/:type/:name/rules/:rule": {
      id: "deleteSyncRule",
      summary: "Delete a rule",
      description:
        "Its associations end, unless another rule or a request has set them. A missing rule counts as deleted.",
      path: rule,
      query: { on_unmatch: "What happens to its secrets there; default: as the rule says." },
    },
    "GET /sys/sync/destinations/:type/:name/rules/:rule/matches": {
      id: "readSyncRuleMatches",
      summary: "List secrets of a rule",
      path: rule,
      query: {
        after: "Secrets after this one.",
        limit: "Page size.",
      },
      answers: data("Secrets, sorted.", Matches),
    },
    "POST /sys/sync/destinations/:type/:name/rules/:rule/confirm": {
      id: "confirmSyncRule",
      summary: "Confirm removals of a rule",
      path: rule,
      body: { fields: { plan_id: "As the read shows it." } },
      answers: data("The rule.", Rule),
      errors: [409],
    },
  },
);
