import * as z from "zod";
import { memo } from "../../../lib/memo.ts";
import { failure } from "../../../providers/outcome.ts";
import { type Meaning, notSent, type Rest, restClient, unreadable } from "../../../providers/rest.ts";
import { EACH_KEY } from "../defaults.ts";
import { fromDescription } from "../description.ts";
import type { CallContext, RemoteDestinationType } from "../destination-type.ts";
import { refuseListedHost } from "../listed-host.ts";
import { checkVariable, type VariablePlace, variableOperations, type Written } from "../variables.ts";
import { type CiContextConnection, ciContextConnection } from "./connection.ts";
import { description } from "./description.ts";

const defaultUrl = "https://circleci.com";
const maxValueBytes = 32_000;
/** A context holds 100 variables. */
const maxPages = 20;

const parsedConnection = memo(ciContextConnection);

/** A page of names. */
const namesOf = (item: z.ZodType<string>) =>
  z
    .object({ items: z.array(item), next_page_token: z.string().nullish() })
    .transform(({ items: names, next_page_token: next }) => ({ names, next: next || null }));

const schemas = memo(() => ({
  // Answers have the last characters of the value, too, which are not read.
  ofContext: z.object({ variable: z.string(), updated_at: z.string() }),
  ofProject: z.object({ name: z.string() }),
  page: z.object({
    items: z.array(z.object({ variable: z.string(), updated_at: z.string() })),
    next_page_token: z.string().nullish(),
  }),
  contextPage: namesOf(z.object({ variable: z.string() }).transform(({ variable }) => variable)),
  projectPage: namesOf(z.object({ name: z.string() }).transform(({ name }) => name)),
}));

/**
 * Environment variables of CircleCI. One external object is one variable of a context or a project. Writes create or
 * replace. Values cannot be read; a context shows the time of change, a project only names.
 */
export const ciContext: RemoteDestinationType<CiContextConnection> = {
  kind: "remote",
  ...fromDescription(description),
  get connection() {
    return parsedConnection();
  },
  targets: ({ address, context_id, project_slug }, { CI_CONTEXT_URL: url = defaultUrl }) => [
    JSON.stringify([address ?? url, context_id ?? project_slug?.toLowerCase()]),
  ],
  defaults: EACH_KEY,
  naming: {
    allowed: /^[A-Za-z0-9_]$/,
    maxLength: 300,
    replacement: "_",
    adapt: (name) => (/^\d/.test(name) ? `_${name}` : name),
  },
  maxValueBytes,
  pace: { atOnce: 2, burst: 20, perMinute: 120 },
  checkSettings: ({ address }, settings) => (address ? refuseListedHost("address", address, settings) : null),

  ...variableOperations(placeOf, (object, connection) =>
    checkVariable(object, {
      name: /^[A-Za-z_]\w{0,299}$/,
      rule: "1 to 300 letters, digits or _, not beginning with a digit",
      maxBytes: maxValueBytes,
      notEmpty: connection.project_slug !== undefined,
    }),
  ),

  reading: {
    /** Values are never shown, so a variable can be adopted only. */
    async list(cursor, connection, context) {
      const doing = "Listing the variables";
      const { context_id: id } = connection;
      const path = id === undefined ? projectPath(connection) : contextPath(connection);
      const from = cursor === "" ? "" : `?${new URLSearchParams({ "page-token": cursor })}`;
      const answer = await callerOf(connection, context)(doing, "GET", `${path}${from}`);
      if (!answer.ok) return answer.outcome;
      const { data } = (id === undefined ? schemas().projectPage : schemas().contextPage).safeParse(answer.body);
      return data ? { outcome: "ok", ...data } : unreadable(doing, "GET").outcome;
    },
  },

  /** Lists variables. A missing right to write shows at the first push. */
  async probe(connection, context) {
    const path = connection.context_id === undefined ? projectPath(connection) : contextPath(connection);
    const listed = await callerOf(connection, context)("Listing the variables", "GET", path);
    return listed.ok ? { outcome: "ok" } : listed.outcome;
  },
};

const contextPath = ({ context_id: id }: CiContextConnection) => `/context/${id}/environment-variable`;
const projectPath = ({ project_slug: slug = "" }: CiContextConnection) => `/project/${slug}/envvar`;

function callerOf(connection: CiContextConnection, { settings, send }: CallContext): Rest {
  const { address, access_token: token } = connection;
  const refused = address ? refuseListedHost("address", address, settings) : null;
  if (refused !== null) return async () => notSent(failure("client", "host_not_allowed", `${refused}.`));
  const base = `${(address ?? (settings.CI_CONTEXT_URL || defaultUrl)).replace(/\/+$/, "")}/api/v2`;
  return restClient({ base, headers: { "circle-token": token }, send, meaningOf });
}

function placeOf(connection: CiContextConnection, context: CallContext): VariablePlace {
  const call = callerOf(connection, context);
  return connection.context_id === undefined
    ? projectPlace(call, projectPath(connection))
    : contextPlace(call, contextPath(connection));
}

function contextPlace(call: Rest, path: string): VariablePlace {
  async function write(name: string, value: string): Promise<Written> {
    const doing = `Writing ${name}`;
    const answer = await call(doing, "PUT", `${path}/${name}`, { value });
    if (!answer.ok) return { ok: false, why: null, outcome: answer.outcome };
    const parsed = schemas().ofContext.safeParse(answer.body);
    if (parsed.success && parsed.data.variable === name) return { ok: true, reference: parsed.data.updated_at };
    return { ok: false, why: null, outcome: unreadable(doing, "PUT").outcome };
  }
  return {
    async find(name) {
      const doing = "Listing the variables";
      let query = "";
      for (let page = 0; page < maxPages; page++) {
        const answer = await call(doing, "GET", `${path}${query}`);
        if (!answer.ok) return answer;
        const parsed = schemas().page.safeParse(answer.body);
        if (!parsed.success) return unreadable(doing, "GET");
        const { items, next_page_token: next } = parsed.data;
        const found = items.find(({ variable }) => variable === name);
        if (found) return { ok: true, seen: { version: found.updated_at, owned: null } };
        if (!next) return { ok: true, seen: null };
        query = `?${new URLSearchParams({ "page-token": next })}`;
      }
      return notSent(failure("client", "too_many_variables", `There are more than ${maxPages} pages of variables.`));
    },
    create: ({ name, value }) => write(name, value),
    change: ({ name, value }) => write(name, value),
    remove: (name) => call(`Deleting ${name}`, "DELETE", `${path}/${name}`),
  };
}

function projectPlace(call: Rest, path: string): VariablePlace {
  async function write(name: string, value: string): Promise<Written> {
    const doing = `Writing ${name}`;
    const answer = await call(doing, "POST", path, { name, value });
    if (!answer.ok) return { ok: false, why: null, outcome: answer.outcome };
    const parsed = schemas().ofProject.safeParse(answer.body);
    if (parsed.success && parsed.data.name === name) return { ok: true, reference: name };
    return { ok: false, why: null, outcome: unreadable(doing, "POST").outcome };
  }
  return {
    async find(name) {
      const answer = await call(`Reading ${name}`, "GET", `${path}/${name}`);
      if (answer.ok) return { ok: true, seen: { owned: null } };
      if (answer.status !== 404) return answer;
      // The status is the same for a missing project.
      const listed = await call("Listing the variables", "GET", path);
      return listed.ok ? { ok: true, seen: null } : listed;
    },
    create: ({ name, value }) => write(name, value),
    change: ({ name, value }) => write(name, value),
    remove: (name) => call(`Deleting ${name}`, "DELETE", `${path}/${name}`),
  };
}

const meaningOf = (status: number): Meaning | null =>
  status === 404
    ? ["client", "not_found", "there is no such context, project or variable, or the token's user may not see it"]
    : null;
