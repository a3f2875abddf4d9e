import * as z from "zod";
import type { SurveyedSecret } from "../../contracts/kv-store.ts";
import type { RuleDefinition, SelectorCondition } from "../../contracts/sync-rules.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import { choiceOrDefault, flag, stringList } from "../../platform/http/fields.ts";
import { nullMeans } from "../../platform/http/nulls.ts";
import { valueTemplateProblem } from "../worker/value-template.ts";
import { matchesPathGlob, pathGlobProblem } from "./path-glob.ts";

/*
 * Rules: associations for all secrets of a mount that match, today and later. Pure: the body's schema, and whether a
 * secret matches. An empty selector is refused, because no rule may match all by omission.
 */

const MAX_SECRETS = 100_000;
const DEFAULT_SECRETS = 1_000;
/** Removals up to this number never need a confirmation, whatever the percentage. */
const LEAST_REMOVALS = 10;
const MAX_PATTERNS = 64;

const Condition = z.strictObject({
  key: z.string().min(1),
  operator: z.enum(["In", "NotIn", "Exists", "DoesNotExist"], "must be In, NotIn, Exists or DoesNotExist"),
  values: z.array(z.string()).default([]),
});

/** A list of globs over paths. */
export const globs = () =>
  stringList()
    .pipe(z.array(z.string()).max(MAX_PATTERNS, `must hold at most ${MAX_PATTERNS} patterns`))
    .superRefine((given, context) => {
      for (const glob of given) {
        const problem = pathGlobProblem(glob);
        if (problem) context.addIssue({ code: "custom", message: `invalid glob ${JSON.stringify(glob)}: ${problem}` });
      }
    })
    .nullish();

const whole = (least: number, most: number) =>
  z.coerce
    .number(`must be ${least} to ${most}`)
    .int()
    .min(least, `must be ${least} to ${most}`)
    .max(most, `must be ${least} to ${most}`);

/** A number whose null is the default: 0 is another setting, or none. */
const orDefault = <Schema extends z.ZodType>(schema: Schema) => nullMeans(schema.nullish(), undefined);

/** The create body of a rule. */
export const RuleBody = z.object({
  mount: z.string("mount: required").min(1, "mount: required").max(512),
  path_prefix: z.string("must be a text").max(2_048).nullish(),
  path_glob: globs(),
  exclude_glob: globs(),
  metadata_selector: z
    .union(
      [z.record(z.string(), z.string()), z.array(Condition)],
      "must be a map of texts, or a list of {key, operator, values}",
    )
    .nullish(),
  match_all: flag().nullish(),
  key_glob: globs(),
  exclude_key_glob: globs(),
  value_template: z.string("must be a text").nullish(),
  name_template: z.string("must be a text").nullish(),
  granularity: choiceOrDefault("must be secret-path or secret-key", "secret-path", "secret-key"),
  on_unmatch: choiceOrDefault("must be delete, retain or hold", "delete", "retain", "hold"),
  max_secrets: orDefault(whole(1, MAX_SECRETS)),
  max_removals: orDefault(
    z.union([
      whole(0, MAX_SECRETS),
      z.string().regex(/^(100|\d{1,2})%$/, "must be a number, or a percentage such as 10%"),
    ]),
  ),
  priority: orDefault(whole(0, 1_000_000)),
  paused: flag().nullish(),
  dry_run: flag().optional(),
});
export type RuleBody = z.infer<typeof RuleBody>;

const conditionsOf = (given: RuleBody["metadata_selector"]): readonly SelectorCondition[] =>
  Array.isArray(given)
    ? given
    : Object.entries(given ?? {}).map(([key, value]) => ({ key, operator: "In" as const, values: [value] }));

const isMap = (given: RuleBody["metadata_selector"]): boolean =>
  !Array.isArray(given) && Object.keys(given ?? {}).length > 0;

/** The rule that a body states. Fields that are left out have their default. */
export function defineRule(name: string, body: RuleBody): Result<RuleDefinition> {
  const definition: RuleDefinition = {
    path_prefix: body.path_prefix ?? "",
    path_glob: body.path_glob ?? [],
    exclude_glob: body.exclude_glob ?? [],
    metadata_selector: conditionsOf(body.metadata_selector),
    match_all: body.match_all ?? false,
    key_glob: body.key_glob ?? [],
    exclude_key_glob: body.exclude_key_glob ?? [],
    value_template: body.value_template ?? "",
    name_template: body.name_template ?? "",
    granularity: body.granularity ?? null,
    on_unmatch: body.on_unmatch ?? null,
    max_secrets: body.max_secrets ?? DEFAULT_SECRETS,
    max_removals: body.max_removals ?? "10%",
    priority: body.priority ?? 100,
    paused: body.paused ?? false,
    given: { mount: body.mount, selector: isMap(body.metadata_selector) ? "map" : "list" },
  };
  const { path_prefix, path_glob, metadata_selector, match_all } = definition;
  if (path_prefix === "" && path_glob.length === 0 && metadata_selector.length === 0 && !match_all) {
    return refuse(
      "invalid",
      `rule ${JSON.stringify(name)} matches every secret of the mount; set match_all=true to do that, or narrow it by path_prefix, path_glob or metadata_selector`,
    );
  }
  if (
    path_prefix === "" &&
    path_glob.every((glob) => staticPart(glob) === "") &&
    metadata_selector.length > 0 &&
    !match_all
  ) {
    return refuse(
      "invalid",
      "metadata_selector: writers of metadata decide about matches; name a path_prefix too, or set match_all=true",
    );
  }
  const template = definition.value_template === "" ? null : valueTemplateProblem(definition.value_template);
  if (template !== null) return refuse("invalid", `value_template: ${template}`);
  const wrong = metadata_selector.find(({ operator, values }) => operator.endsWith("In") !== values.length > 0);
  if (wrong)
    return refuse("invalid", `metadata_selector: values are for In and NotIn, which need one or more: ${wrong.key}`);
  return ok(definition);
}

/** The text that all paths of a glob begin with. */
const staticPart = (glob: string): string => /^[^*?]*/.exec(glob)?.[0] ?? "";

/** The text that each matching path begins with: what a caller must be allowed to read. */
export function staticPrefix({ path_prefix, path_glob }: RuleDefinition): string {
  const parts = path_glob.map(staticPart);
  const [first = ""] = parts;
  let common = first;
  for (const part of parts) while (!part.startsWith(common)) common = common.slice(0, -1);
  return common.startsWith(path_prefix) ? common : path_prefix;
}

/** Why a secret does not match, as a sentence; null when it matches. */
export function mismatch(rule: RuleDefinition, { path, customMetadata }: SurveyedSecret): string | null {
  const { path_prefix: prefix } = rule;
  if (prefix !== "" && !isBelow(path, prefix)) return "the path is not below path_prefix";
  if (rule.path_glob.length > 0 && !rule.path_glob.some((glob) => matchesPathGlob(path, glob))) {
    return "the path matches no path_glob";
  }
  if (rule.exclude_glob.some((glob) => matchesPathGlob(path, glob))) return "the path matches an exclude_glob";
  if (rule.metadata_selector.length === 0) return null;
  const metadata = (customMetadata === null ? {} : JSON.parse(customMetadata)) as Readonly<Record<string, string>>;
  const failed = rule.metadata_selector.find((condition) => !holds(condition, metadata));
  return failed ? `custom_metadata ${failed.key} does not satisfy ${failed.operator}` : null;
}

/** Whole segments: `app` holds `app` and `app/db`, never `apple`; `app/` only what is below it. */
const isBelow = (path: string, prefix: string): boolean =>
  prefix.endsWith("/") ? path.startsWith(prefix) : path === prefix || path.startsWith(`${prefix}/`);

function holds({ key, operator, values }: SelectorCondition, metadata: Readonly<Record<string, string>>): boolean {
  const value = Object.hasOwn(metadata, key) ? metadata[key] : undefined;
  if (operator === "Exists") return value !== undefined;
  if (operator === "DoesNotExist") return value === undefined;
  const isListed = value !== undefined && values.includes(value);
  return operator === "In" ? isListed : !isListed;
}

/** Removals that need no confirmation, of a rule with so many matches. */
export function removalsAllowed({ max_removals: most }: RuleDefinition, matches: number): number {
  if (typeof most === "number") return most;
  return Math.max(LEAST_REMOVALS, Math.floor((matches * Number(most.slice(0, -1))) / 100));
}
