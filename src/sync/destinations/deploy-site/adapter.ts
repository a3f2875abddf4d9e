import * as z from "zod";
import { memo } from "../../../lib/memo.ts";
import { contentOf, type Meaning, type RestAnswer, restClient } from "../../../providers/rest.ts";
import { EACH_KEY, environmentNames, environmentRule } from "../defaults.ts";
import { type CallContext, doneBy, type Listing, remoteType } from "../destination-type.ts";
import { checkObject } from "../object-rules.ts";
import { readVariable, type VariablePlace, variableOperations, writtenBy } from "../variables.ts";
import { type DeploySiteConnection, deploySiteConnection, isSecret } from "./connection.ts";
import { description } from "./description.ts";

const defaultUrl = "https://api.netlify.com";
/** The provider states no limit of one value. */
const maxValueBytes = 64 * 1024;
const VARIABLE_RULE = { ...environmentRule(), maxBytes: maxValueBytes, notEmpty: true };

const schemas = memo(() => {
  const variable = z.object({
    key: z.string(),
    values: z.array(
      z.object({
        id: z.string(),
        context: z.string(),
        context_parameter: z.string().nullish(),
        value: z.string().nullish(),
      }),
    ),
    is_secret: z.boolean().nullish(),
    updated_at: z.string().nullish(),
  });
  const many = z.array(variable);
  return { variable, many, created: many.transform(([first]) => first), message: z.object({ message: z.string() }) };
});

type Variable = z.infer<ReturnType<typeof schemas>["variable"]>;

/**
 * Environment variables of Netlify. One external object is the value of one variable in one deploy context; values of
 * other contexts stay, so variables are never replaced as a whole.
 */
export const deploySite = remoteType(description, deploySiteConnection, {
  targets: ({ account_id: account, site_id: site = "", deploy_context: context }) => [
    JSON.stringify([account, site, context]),
  ],
  defaults: EACH_KEY,
  naming: environmentNames(),
  maxValueBytes,
  pace: { atOnce: 2, burst: 30, perMinute: 200 },
  reading: { list, read: (name, connection, context) => readVariable(placeOf(connection, context), name) },

  ...variableOperations(placeOf, (object) => checkObject(object, VARIABLE_RULE)),

  /** Lists variables. A missing right to write shows at the first push. */
  probe: async (connection, context) => doneBy(await listOf(connection, context)),
});

function callerOf({ access_token: token }: DeploySiteConnection, { settings, send }: CallContext) {
  const base = `${(settings.DEPLOY_SITE_URL || defaultUrl).replace(/\/+$/, "")}/api/v1`;
  return restClient({ base, headers: { authorization: `Bearer ${token}` }, send, meaningOf });
}

const pathOf = ({ account_id: account }: DeploySiteConnection) => `/accounts/${encodeURIComponent(account)}/env`;
const queryOf = ({ site_id: site }: DeploySiteConnection) =>
  site === undefined ? "" : `?${new URLSearchParams({ site_id: site })}`;

const listOf = (connection: DeploySiteConnection, context: CallContext): Promise<RestAnswer> =>
  callerOf(connection, context)("Listing the variables", "GET", `${pathOf(connection)}${queryOf(connection)}`);

/** Whether a value is that of the connection's context. */
function isIn({ deploy_context: at }: DeploySiteConnection, value: Variable["values"][number]): boolean {
  const [of, parameter] = at.split(/:(.*)/s);
  return value.context === of && (parameter === undefined || value.context_parameter === parameter);
}

/** Variables with a value in the context that is shown. The provider answers all of them at once. */
async function list(_cursor: string, connection: DeploySiteConnection, context: CallContext): Promise<Listing> {
  const listed = contentOf(await listOf(connection, context), schemas().many);
  if (!listed.ok) return listed.outcome;
  const shown = listed.content.filter(
    (each) => !each.is_secret && each.values.some((value) => isIn(connection, value)),
  );
  return { outcome: "ok", names: shown.map(({ key }) => key), next: null };
}

function placeOf(connection: DeploySiteConnection, context: CallContext): VariablePlace {
  const call = callerOf(connection, context);
  const query = queryOf(connection);
  const at = (name: string, rest = "") => `${pathOf(connection)}/${encodeURIComponent(name)}${rest}${query}`;
  const [of = "", parameter] = connection.deploy_context.split(/:(.*)/s);
  const where = { context: of, ...(parameter !== undefined && { context_parameter: parameter }) };
  /** Variables without a value in another context, by the id of ours. */
  const alone = new Set<string>();

  /** Sets the value of our context; a variable without any is created. */
  const write: VariablePlace["create"] = async ({ name, value }) => {
    const referenceOf = (variable: Variable | undefined) =>
      variable?.key === name ? (variable.updated_at ?? name) : null;
    const changed = await call(`Writing ${name}`, "PATCH", at(name), { ...where, value });
    if (changed.ok || changed.status !== 404) return writtenBy(changed, schemas().variable, referenceOf);
    const { scopes } = connection;
    const variable = {
      key: name,
      is_secret: isSecret(connection),
      values: [{ ...where, value }],
      ...(scopes && { scopes }),
    };
    const created = await call(`Creating ${name}`, "POST", `${pathOf(connection)}${query}`, [variable]);
    return writtenBy(created, schemas().created, referenceOf);
  };

  return {
    hasIds: true,
    async find(name) {
      const answer = await call(`Reading ${name}`, "GET", at(name));
      if (!answer.ok) {
        if (answer.status !== 404) return answer;
        // The status is the same for a missing team or site.
        const listed = await listOf(connection, context);
        return listed.ok ? { ok: true, seen: null } : listed;
      }
      const read = contentOf(answer, schemas().variable);
      if (!read.ok) return read;
      const { values, is_secret: hides, updated_at: version } = read.content;
      const ours = values.find((value) => isIn(connection, value));
      if (ours === undefined) {
        // A value for all contexts and values of single ones exclude each other.
        const displaces = of === "all" ? values.length > 0 : values.some((value) => value.context === "all");
        return { ok: true, seen: null, ...(displaces && { displaces }) };
      }
      if (values.length === 1) alone.add(ours.id);
      const value = hides ? undefined : (ours.value ?? undefined);
      return { ok: true, seen: { id: ours.id, value, version: version ?? undefined, owned: null } };
    },
    create: write,
    change: write,
    remove(name, seen) {
      const id = seen?.id ?? "";
      const path = alone.has(id) ? at(name) : at(name, `/value/${encodeURIComponent(id)}`);
      return call(`Deleting ${name}`, "DELETE", path);
    },
  };
}

function meaningOf(status: number, body: unknown): Meaning | null {
  if (status === 403 && /upgrade/i.test(schemas().message.safeParse(body).data?.message ?? "")) {
    return ["client", "plan_required", "the team's plan has no scopes"];
  }
  if (status === 404)
    return ["client", "not_found", "there is no such team, site or variable, or the token may not see it"];
  return null;
}
