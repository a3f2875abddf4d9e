import * as z from "zod";
import { memo } from "../../../lib/memo.ts";
import { failure } from "../../../providers/outcome.ts";
import { contentOf, type Meaning, notSent, type Rest } from "../../../providers/rest.ts";
import { EACH_KEY, environmentNames, environmentRule } from "../defaults.ts";
import { type CallContext, doneBy, remoteType } from "../destination-type.ts";
import { accessToken, connectionSchema, optionalText } from "../fields.ts";
import { addressedClient, optionalAddress, refuseAddress } from "../listed-host.ts";
import { checkObject } from "../object-rules.ts";
import { type VariablePlace, variableOperations, writtenBy } from "../variables.ts";
import { description } from "./description.ts";

const defaultUrl = "https://circleci.com";
const maxValueBytes = 32_000;
const VARIABLE_RULE = { ...environmentRule(300), maxBytes: maxValueBytes };
/** A context holds 100 variables. */
const maxPages = 20;

/** A destination's connection to its context or project: one of the two. */
const connection = connectionSchema(
  () => ({
    access_token: accessToken(),
    context_id: optionalText(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/, "must be the context's id, a UUID"),
    project_slug: optionalText(
      /^(?!.*\.\.)[\w-]{1,32}(\/[\w.-]{1,128}){2}$/,
      "must look like gh/acme/web: a system, an organization and a project",
    ),
    address: optionalAddress(),
  }),
  (given, refuse) => {
    if (!given.context_id && !given.project_slug) refuse("context_id", "is required, or project_slug");
    if (given.context_id && given.project_slug) refuse("project_slug", "cannot be set together with context_id");
  },
);
type CiContextConnection = z.infer<ReturnType<typeof connection>>;

/** A page of names. */
const namesOf = (item: z.ZodType<string>) =>
  z
    .object({ items: z.array(item), next_page_token: z.string().nullish() })
    .transform(({ items: names, next_page_token: next }) => ({ names, next: next || null }));

const schemas = memo(() => {
  // Answers have the last characters of the value, too, which are not read.
  const ofContext = z.object({ variable: z.string(), updated_at: z.string() });
  const ofProject = z.object({ name: z.string() });
  return {
    ofContext,
    ofProject,
    page: z.object({ items: z.array(ofContext), next_page_token: z.string().nullish() }),
    contextNames: namesOf(z.object({ variable: z.string() }).transform(({ variable }) => variable)),
    projectNames: namesOf(ofProject.transform(({ name }) => name)),
  };
});

/**
 * Environment variables of CircleCI. One external object is one variable of a context or a project. Writes create or
 * replace. Values cannot be read; a context shows the time of change, a project only names.
 */
export const ciContext = remoteType(description, connection, {
  targets: ({ address, context_id, project_slug }, { CI_CONTEXT_URL: url = defaultUrl }) => [
    JSON.stringify([address ?? url, context_id ?? project_slug?.toLowerCase()]),
  ],
  defaults: EACH_KEY,
  naming: environmentNames(300),
  maxValueBytes,
  pace: { atOnce: 2, burst: 20, perMinute: 120 },
  checkSettings: refuseAddress,

  ...variableOperations(placeOf, (object, { project_slug: slug }) =>
    checkObject(object, { ...VARIABLE_RULE, notEmpty: slug !== undefined }),
  ),

  reading: {
    /** Values are never shown, so a variable can be adopted only. */
    async list(cursor, connection, context) {
      const from = cursor === "" ? "" : `?${new URLSearchParams({ "page-token": cursor })}`;
      const answer = await listOf(callerOf(connection, context), connection, from);
      const { contextNames, projectNames } = schemas();
      const listed = contentOf(answer, connection.context_id === undefined ? projectNames : contextNames);
      return listed.ok ? { outcome: "ok", ...listed.content } : listed.outcome;
    },
  },

  /** Lists variables. A missing right to write shows at the first push. */
  probe: async (connection, context) => doneBy(await listOf(callerOf(connection, context), connection)),
});

const pathOf = ({ context_id: id, project_slug: slug = "" }: CiContextConnection): string =>
  id === undefined ? `/project/${slug}/envvar` : `/context/${id}/environment-variable`;

const listOf = (call: Rest, connection: CiContextConnection, query = "") =>
  call("Listing the variables", "GET", `${pathOf(connection)}${query}`);

const callerOf = (connection: CiContextConnection, context: CallContext): Rest =>
  addressedClient(connection, context, context.settings.CI_CONTEXT_URL || defaultUrl, "/api/v2", {
    headers: { "circle-token": connection.access_token },
    meaningOf,
  });

function placeOf(connection: CiContextConnection, context: CallContext): VariablePlace {
  const call = callerOf(connection, context);
  const at = (name: string) => `${pathOf(connection)}/${name}`;
  const remove: VariablePlace["remove"] = (name) => call(`Deleting ${name}`, "DELETE", at(name));

  async function findInContext(name: string): ReturnType<VariablePlace["find"]> {
    let query = "";
    for (let page = 0; page < maxPages; page++) {
      const listed = contentOf(await listOf(call, connection, query), schemas().page);
      if (!listed.ok) return listed;
      const { items, next_page_token: next } = listed.content;
      const found = items.find(({ variable }) => variable === name);
      if (found) return { ok: true, seen: { version: found.updated_at, owned: null } };
      if (!next) return { ok: true, seen: null };
      query = `?${new URLSearchParams({ "page-token": next })}`;
    }
    return notSent(failure("client", "too_many_variables", `There are more than ${maxPages} pages of variables.`));
  }

  async function findInProject(name: string): ReturnType<VariablePlace["find"]> {
    const answer = await call(`Reading ${name}`, "GET", at(name));
    if (answer.ok) return { ok: true, seen: { owned: null } };
    if (answer.status !== 404) return answer;
    // The status is the same for a missing project.
    const listed = await listOf(call, connection);
    return listed.ok ? { ok: true, seen: null } : listed;
  }

  const writeInContext: VariablePlace["create"] = async ({ name, value }) =>
    writtenBy(await call(`Writing ${name}`, "PUT", at(name), { value }), schemas().ofContext, (written) =>
      written.variable === name ? written.updated_at : null,
    );

  const writeInProject: VariablePlace["create"] = async ({ name, value }) =>
    writtenBy(
      await call(`Writing ${name}`, "POST", pathOf(connection), { name, value }),
      schemas().ofProject,
      (written) => (written.name === name ? name : null),
    );

  return connection.context_id === undefined
    ? { find: findInProject, create: writeInProject, change: writeInProject, remove }
    : { find: findInContext, create: writeInContext, change: writeInContext, remove };
}

const meaningOf = (status: number): Meaning | null =>
  status === 404
    ? ["client", "not_found", "there is no such context, project or variable, or the token's user may not see it"]
    : null;
