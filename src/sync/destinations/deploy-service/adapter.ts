import * as z from "zod";
import { memo } from "../../../lib/memo.ts";
import { type Meaning, type RestAnswer, restClient, unreadable } from "../../../providers/rest.ts";
import { EACH_KEY, ENVIRONMENT_NAMES, ENVIRONMENT_RULE } from "../defaults.ts";
import { fromDescription } from "../description.ts";
import type { CallContext, Listing, RemoteDestinationType } from "../destination-type.ts";
import { accessToken, optionalText, withoutUnset } from "../fields.ts";
import { checkVariable, readVariable, type VariablePlace, variableOperations, type Written } from "../variables.ts";
import { description } from "./description.ts";

/** A destination's connection to its service or environment group: one of the two. Unset fields are absent. */
interface DeployServiceConnection {
  api_key: string;
  service_id?: string;
  env_group_id?: string;
}

const defaultUrl = "https://api.render.com";
/** The provider states no limit of one value. */
const maxValueBytes = 64 * 1024;
/** The most variables of a page. */
const PAGE = 100;

const schemas = memo(() => {
  const variable = z.object({ key: z.string(), value: z.string() });
  return {
    connection: z
      .object({
        api_key: accessToken(),
        service_id: optionalText(/^[a-z]{3}-[a-z0-9]{1,64}$/, "must be the service's id, such as srv-d1a2b3c4e5f6"),
        env_group_id: optionalText(/^evg-[a-z0-9]{1,64}$/, "must be the group's id, such as evg-d1a2b3c4e5f6"),
      })
      .superRefine((given, context) => {
        const refuse = (field: string, message: string) => context.addIssue({ code: "custom", path: [field], message });
        if (!given.service_id && !given.env_group_id) refuse("service_id", "is required, or env_group_id");
        if (given.service_id && given.env_group_id) refuse("env_group_id", "cannot be set together with service_id");
        if (given.service_id?.startsWith("evg-")) refuse("service_id", "is an environment group: set env_group_id");
      })
      .transform((given) => withoutUnset(given) as unknown as DeployServiceConnection),
    variable,
    page: z.array(z.object({ envVar: variable, cursor: z.string() })),
    group: z.object({ envVars: z.array(variable) }),
  };
});

/**
 * Environment variables of Render. One external object is one variable of a service or an environment group. Each is
 * written by a call of its own, because a call for many replaces all variables, those of other writers included.
 */
export const deployService: RemoteDestinationType<DeployServiceConnection> = {
  kind: "remote",
  ...fromDescription(description),
  get connection() {
    return schemas().connection;
  },
  targets: ({ service_id: service, env_group_id: group = "" }) => [service ?? group],
  defaults: EACH_KEY,
  naming: ENVIRONMENT_NAMES,
  maxValueBytes,
  // Within the provider's 30 writes a minute.
  pace: { atOnce: 2, burst: 10, perMinute: 20 },
  reading: {
    list,
    read: (name, connection, context) => readVariable(placeOf(connection, context), name),
  },

  ...variableOperations(placeOf, (object) =>
    checkVariable(object, {
      ...ENVIRONMENT_RULE,
      maxBytes: maxValueBytes,
      notEmpty: true,
    }),
  ),

  /** Reads the place. A missing right to write shows at the first push. */
  async probe(connection, context) {
    const answer = await readPlace(connection, context);
    return answer.ok ? { outcome: "ok" } : answer.outcome;
  },
};

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
  if (!answer.ok) return answer.outcome;
  if (connection.service_id === undefined) {
    const group = schemas().group.safeParse(answer.body);
    if (!group.success) return unreadable("Reading the variables", "GET").outcome;
    return { outcome: "ok", names: group.data.envVars.map(({ key }) => key), next: null };
  }
  const page = schemas().page.safeParse(answer.body);
  if (!page.success) return unreadable("Reading the variables", "GET").outcome;
  // A page may have fewer variables than its limit, so the last one is empty.
  const next = page.data.at(-1)?.cursor ?? null;
  return { outcome: "ok", names: page.data.map(({ envVar }) => envVar.key), next };
}

function placeOf(connection: DeployServiceConnection, context: CallContext): VariablePlace {
  const call = callerOf(connection, context);
  const at = (name: string) => `${pathOf(connection)}/env-vars/${encodeURIComponent(name)}`;

  /** Creates or changes a variable. The answer is the variable, or the whole group with all its values. */
  async function write(name: string, value: string): Promise<Written> {
    const doing = `Writing ${name}`;
    const answer = await call(doing, "PUT", at(name), { value });
    if (!answer.ok) return { ok: false, why: null, outcome: answer.outcome };
    const one = schemas().variable.safeParse(answer.body).data;
    const many = schemas().group.safeParse(answer.body).data?.envVars ?? [];
    const isWritten = [...(one ? [one] : []), ...many].some((seen) => seen.key === name && seen.value === value);
    if (isWritten) return { ok: true, reference: "written" };
    return { ok: false, why: null, outcome: unreadable(doing, "PUT").outcome };
  }

  return {
    async find(name) {
      const doing = `Reading ${name}`;
      const answer = await call(doing, "GET", at(name));
      if (!answer.ok) {
        if (answer.status !== 404) return answer;
        // The status is the same for a missing service or group.
        const place = await readPlace(connection, context);
        return place.ok ? { ok: true, seen: null } : place;
      }
      const variable = schemas().variable.safeParse(answer.body);
      if (!variable.success || variable.data.key !== name) return unreadable(doing, "GET");
      return { ok: true, seen: { value: variable.data.value, owned: null } };
    },
    create: ({ name, value }) => write(name, value),
    change: ({ name, value }) => write(name, value),
    remove: (name) => call(`Deleting ${name}`, "DELETE", at(name)),
  };
}

const meaningOf = (status: number): Meaning | null =>
  status === 404 || status === 410
    ? ["client", "not_found", "there is no such service, group or variable, or the key's user may not see it"]
    : null;
