import * as z from "zod";
import { translateStatus } from "../compat/sync-names.ts";
import type { RuleDefinition, RuleView } from "../contracts/sync-rules.ts";
import { badRequest, unwrap } from "../platform/http/errors.ts";
import * as query from "../platform/http/query-fields.ts";
import { defineRule, RuleBody } from "../sync/rules/rule.ts";
import { envelope, keyList, noContent } from "./server/respond.ts";
import { type Asked, type AuthorisedCall, secrets } from "./server/route.ts";
import { destinationAt, keyOf, slashless } from "./sync-paths.ts";
import { selectedMount } from "./sync-selectors.ts";

/** Rules of a destination: associations for all secrets that match (docs/guides/sync.md). */

type RuleCall = AuthorisedCall<"name" | "type" | "rule">;

const PlanQuery = z.object({ dry_run: query.flag(), after: query.text() });
const DeletionQuery = z.object({
  on_unmatch: z.enum(["delete", "retain", "hold"], "must be delete, retain or hold").optional(),
});

const NAME = /^[a-z0-9][a-z0-9-]{0,62}$/;
const MATCHES = 1_000;

const Confirmation = z.object({ plan_id: z.string("plan_id: required").min(1, "plan_id: required") });

/** The rule in a path. @throws RequestError 400 */
function ruleName({ params: { rule } }: RuleCall): string {
  if (NAME.test(rule)) return rule;
  throw badRequest("rule: must be 1 to 63 lower-case letters, digits and -, and begin with a letter or digit");
}

/** A selector of equal values as the map that it was written as. */
const mapOf = (conditions: RuleDefinition["metadata_selector"]) =>
  Object.fromEntries(conditions.map(({ key, values }) => [key, values[0] ?? ""]));

function view(call: RuleCall, { definition, sync_operation_counters: counts, ...rule }: RuleView) {
  const { granularity, on_unmatch, given, metadata_selector: conditions, ...fields } = definition;
  const isGiven = slashless(given.mount) === slashless(rule.mount);
  return {
    ...rule,
    mount: isGiven ? given.mount : rule.mount,
    ...fields,
    metadata_selector: given.selector === "map" ? mapOf(conditions) : conditions,
    ...(granularity !== null && { granularity }),
    ...(on_unmatch !== null && { on_unmatch }),
    sync_operation_counters: Object.fromEntries(
      Object.entries(counts).map(([status, n]) => [translateStatus(call.dialect, status), n]),
    ),
  };
}

async function put(call: RuleCall & Asked<typeof PlanQuery>, body: RuleBody): Promise<Response> {
  const name = ruleName(call);
  const object = destinationAt(call, keyOf(call));
  unwrap(await object.read());
  const definition = unwrap(defineRule(name, body));
  const mount = await selectedMount(call, body.mount, definition, `rule ${JSON.stringify(name)}`);
  if (body.dry_run || call.asked.dry_run) {
    const plan = unwrap(await object.previewRule(name, mount, definition, call.asked.after));
    return envelope(call, { data: { dry_run: true, ...plan, next: plan.next ?? "" } });
  }
  return envelope(call, { data: view(call, unwrap(await object.putRule(name, mount, definition))) });
}

export const ruleRoutes = [
  secrets("LIST /sys/sync/destinations/:type/:name/rules", async (call) =>
    keyList(call, [...unwrap(await destinationAt(call, keyOf(call)).ruleNames())]),
  ),
  secrets("GET /sys/sync/destinations/:type/:name/rules/:rule", async (call) =>
    envelope(call, { data: view(call, unwrap(await destinationAt(call, keyOf(call)).readRule(ruleName(call)))) }),
  ),
  secrets("POST /sys/sync/destinations/:type/:name/rules/:rule", { body: RuleBody, query: PlanQuery }, put),
  secrets("DELETE /sys/sync/destinations/:type/:name/rules/:rule", { query: DeletionQuery }, async (call) => {
    const { on_unmatch = null } = call.asked;
    unwrap(await destinationAt(call, keyOf(call)).deleteRule(ruleName(call), on_unmatch));
    return noContent();
  }),
  secrets(
    "GET /sys/sync/destinations/:type/:name/rules/:rule/matches",
    { query: z.object({ after: query.text(), limit: query.limit(MATCHES).default(MATCHES) }) },
    async (call) => {
      const { after, limit } = call.asked;
      const page = unwrap(await destinationAt(call, keyOf(call)).ruleMatches(ruleName(call), after, limit));
      return envelope(call, { data: { matches: page.matches, next: page.next ?? "" } });
    },
  ),
  secrets(
    "POST /sys/sync/destinations/:type/:name/rules/:rule/confirm",
    { body: Confirmation },
    async (call, { plan_id }) => {
      const confirmed = unwrap(await destinationAt(call, keyOf(call)).confirmRule(ruleName(call), plan_id));
      return envelope(call, { data: view(call, confirmed) });
    },
  ),
];
