import * as z from "zod";
import { memo } from "../../../lib/memo.ts";
import { contentOf, type Meaning, type RestAnswer, restClient } from "../../../providers/rest.ts";
import { EACH_KEY, environmentNames, environmentRule } from "../defaults.ts";
import { type CallContext, doneBy, type Listing, remoteType } from "../destination-type.ts";
import { accessToken, connectionSchema, optionalText } from "../fields.ts";
import { checkObject } from "../object-rules.ts";
import { readVariable, type VariablePlace, variableOperations, writtenBy } from "../variables.ts";
import { description } from "./description.ts";

const defaultUrl = "https://api.render.com";
/** The provider states no limit of one value. */
const maxValueBytes = 64 * 1024;
const VARIABLE_RULE = { ...environmentRule(), maxBytes: maxValueBytes, notEmpty: true };
/** The most variables of a page. */
const PAGE = 100;

/** A destination's connection to its service or environment group: one of the two. */
const connection = connectionSchema(
  () => ({
    api_key: accessToken(),
    service_id: optionalText(/^[a-z]{3}-[a-z0-9]{1,64}$/, "must be the service's id, such as srv-d1a2b3c4e5f6"),
    env_group_id: optionalText(/^evg-[a-z0-9]{1,64}$/, "must be the group's id, such as evg-d1a2b3c4e5f6"),
  }),
  (given, refuse) => {
    if (!given.service_id && !given.env_group_id) refuse("service_id", "is required, or env_group_id");
    if (given.service_id && given.env_group_id) refuse("env_group_id", "cannot be set together with service_id");
    if (given.service_id?.startsWith("evg-")) refuse("service_id", "is an environment group: set env_group_id");
  },
);
type DeployServiceConnection = z.infer<ReturnType<typeof connection>>;

const schemas = memo(() => {
  const variable = z.object({ key: z.string(), value: z.string() });
  const group = z.object({ envVars: z.array(variable) });
  return {
    variable,
    page: z.array(z.object({ envVar: variable, cursor: z.string() })),
    group,
    /** The answer to a write: the variable, or the whole group with all its values. */
    written: z.union([variable.transform((one) => [one]), group.transform(({ envVars }) => envVars)]),
  };
});

/**
 * Environment variables of Render. One external object is one variable of a service or an environment group. Each is
 * written by a call of its own, because a call for many replaces all variables, those of other writers included.
 */
export const deployService = remoteType(description, connection, {
  targets: ({ service_id: service, env_group_id: group = "" }) => [service ?? group],
  defaults: EACH_KEY,
  naming: environmentNames(),
  maxValueBytes,
  // Within the provider's 30 writes a minute.
  pace: { atOnce: 2, burst: 10, perMinute: 20 },
  reading: {
    list,
    read: (name, connection, context) => readVariable(placeOf(connection, context), name),
  },

  ...variableOperations(placeOf, (object) => checkObject(object, VARIABLE_RULE)),

  /** Reads the place. A missing right to write shows at the first push. */
  probe: async (connection, context) => doneBy(await readPlace(connection, context)),
});

function callerOf({ api_key: key }: DeployServiceConnection, { settings, send }: CallContext) {
  const base = `${(settings.DEPLOY_SERVICE_URL || defaultUrl).replace(/\/+$/, "")}/v1`;
  return restClient({ base, headers: { authorization: `Bearer ${key}` }, send, meaningOf });
}

const pathOf = ({ service_id: service, env_group_id: group }: DeployServiceConnection) =>
  service === undefined ? `/env-groups/${group}` : `/services/${service}`;

/** Reads the group with its variables, or a page of the service's. */
function readPlace(connection: DeployServiceConnection, context: CallContext, query = "limit=1"): Promise<RestAnswer> {
  const path = pathOf(connection);
  const of = connection.service_id === undefined ? path : `${path}/env-vars?${query}`;
  return callerOf(connection, context)("Reading the variables", "GET", of);
}

async function list(cursor: string, connection: DeployServiceConnection, context: CallContext): Promise<Listing> {
  const query = new URLSearchParams({ limit: `${PAGE}`, ...(cursor && { cursor }) });
  const answer = await readPlace(connection, context, `${query}`);
  if (connection.service_id === undefined) {
    const group = contentOf(answer, schemas().group);
    if (!group.ok) return group.outcome;
    return { outcome: "ok", names: group.content.envVars.map(({ key }) => key), next: null };
  }
  const page = contentOf(answer, schemas().page);
  if (!page.ok) return page.outcome;
  // A page may have fewer variables than its limit, so the last one is empty.
  const next = page.content.at(-1)?.cursor ?? null;
  return { outcome: "ok", names: page.content.map(({ envVar }) => envVar.key), next };
}

function placeOf(connection: DeployServiceConnection, context: CallContext): VariablePlace {
  const call = callerOf(connection, context);
  const at = (name: string) => `${pathOf(connection)}/env-vars/${encodeURIComponent(name)}`;

  const write: VariablePlace["create"] = async ({ name, value }) =>
    writtenBy(await call(`Writing ${name}`, "PUT", at(name), { value }), schemas().written, (seen) =>
      seen.some((one) => one.key === name && one.value === value) ? "written" : null,
    );

  return {
    async find(name) {
      const answer = await call(`Reading ${name}`, "GET", at(name));
      if (!answer.ok) {
        if (answer.status !== 404) return answer;
        // The status is the same for a missing service or group.
        const place = await readPlace(connection, context);
        return place.ok ? { ok: true, seen: null } : place;
      }
      const variable = contentOf(answer, schemas().variable);
      if (!variable.ok) return variable;
      const { key, value } = variable.content;
      return key === name ? { ok: true, seen: { value, owned: null } } : answer.unreadable();
    },
    create: write,
    change: write,
    remove: (name) => call(`Deleting ${name}`, "DELETE", at(name)),
  };
}

const meaningOf = (status: number): Meaning | null =>
  status === 404 || status === 410
    ? ["client", "not_found", "there is no such service, group or variable, or the key's user may not see it"]
    : null;
