import * as z from "zod";
import type { Failure } from "../../../contracts/failure.ts";
import { memo } from "../../../lib/memo.ts";
import { flag } from "../../../platform/http/fields.ts";
import { failure, withoutEffect, withUnsureEffect } from "../../../providers/outcome.ts";
import { contentOf, type Meaning, restClient } from "../../../providers/rest.ts";
import { type BulkPlace, bulkOperations, WRITTEN } from "../bulk-variables.ts";
import { EACH_KEY, environmentNames, environmentRule } from "../defaults.ts";
import { type CallContext, doneBy, type ExternalObject, remoteType } from "../destination-type.ts";
import { accessToken, choice, connectionSchema, optionalText, requiredText } from "../fields.ts";
import { checkObject } from "../object-rules.ts";
import { description } from "./description.ts";

const defaultUrl = "https://backboard.railway.com";
/** The provider states no limit of one value. */
const maxValueBytes = 64 * 1024;
const VARIABLE_RULE = { ...environmentRule(), maxBytes: maxValueBytes, notEmpty: true };
const MOST = 50;
/** A change is a deployment of the services that it concerns, so a burst of changes is one call. */
const WINDOW_MS = 2_000;

const id = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** A destination's connection to its service or environment. */
const connection = connectionSchema(() => ({
  access_token: accessToken(),
  token_type: choice("project", "workspace"),
  project_id: requiredText(id, "must be the project's id, a UUID"),
  environment_id: requiredText(id, "must be the environment's id, a UUID"),
  service_id: optionalText(id, "must be the service's id, a UUID"),
  skip_deploys: flag().optional(),
}));
type DeployEnvironmentConnection = z.infer<ReturnType<typeof connection>>;

const schemas = memo(() => ({
  read: z.object({ variables: z.record(z.string(), z.string().nullable()) }),
  written: z.object({ variableCollectionUpsert: z.literal(true) }),
  answer: z.object({
    data: z.record(z.string(), z.unknown()).nullish(),
    errors: z.array(z.object({ message: z.string() })).nullish(),
  }),
}));

/**
 * Variables of Railway. One external object is one variable of a service, or one that all services of an environment
 * share. Sealed variables are not shown by the provider.
 */
export const deployEnvironment = remoteType(description, connection, {
  targets: ({ project_id: project, environment_id: environment, service_id: service = "" }) => [
    JSON.stringify([project, environment, service]),
  ],
  defaults: EACH_KEY,
  naming: environmentNames(),
  maxValueBytes,
  pace: { atOnce: 1, burst: 200, perMinute: 600 },
  ...bulkOperations({
    noun: "variable",
    windowMs: WINDOW_MS,
    most: MOST,
    showsValues: true,
    check: (object) => checkObject(object, VARIABLE_RULE) ?? checkText(object),
    placeOf,
  }),
});

/** The provider replaces references in values, so a secret with one would not arrive to the letter. */
function checkText({ name, value }: ExternalObject): Failure | null {
  if (!value.includes("${{")) return null;
  return failure(
    "client",
    "value_invalid",
    `The value of ${name} has "\${{", which the provider takes for a reference.`,
  );
}

function placeOf(connection: DeployEnvironmentConnection, context: CallContext): BulkPlace {
  const call = graphQl(connection, context);
  const { project_id: projectId, environment_id: environmentId, service_id: serviceId } = connection;
  const at = { projectId, environmentId, ...(serviceId && { serviceId }) };
  return {
    /** References stay as they were written (`unrendered`). */
    async all() {
      const read = await call("Reading the variables", READ, at, schemas().read);
      if (!read.ok) return read.outcome;
      const shown = Object.entries(read.content.variables);
      return new Map(shown.flatMap(([name, value]) => (value === null ? [] : [[name, { value }]])));
    },
    async write(doing, values) {
      const variables = Object.fromEntries(values);
      const input = { ...at, variables, replace: false, skipDeploys: connection.skip_deploys ?? false };
      const written = await call(doing, WRITE, { input }, schemas().written);
      return written.ok ? new Map([...values.keys()].map((name) => [name, WRITTEN])) : written.outcome;
    },
    /** One request. The provider performs its removals one after the other, so a failure may leave some. */
    async remove(doing, names) {
      const inputs = Object.fromEntries(names.map((name, index) => [`i${index}`, { ...at, name }]));
      const removed = z.object(Object.fromEntries(names.map((_, index) => [`r${index}`, z.literal(true)])));
      return doneBy(await call(doing, removalOf(names.length), inputs, removed));
    },
  };
}

const READ = `query Variables($projectId: String!, $environmentId: String!, $serviceId: String) {
  variables(projectId: $projectId, environmentId: $environmentId, serviceId: $serviceId, unrendered: true)
}`;

const WRITE = `mutation Write($input: VariableCollectionUpsertInput!) {
  variableCollectionUpsert(input: $input)
}`;

/** The removal of so many variables, each by a field of its own. */
function removalOf(count: number): string {
  const indexes = Array.from({ length: count }, (_, index) => index);
  const inputs = indexes.map((index) => `$i${index}: VariableDeleteInput!`);
  const fields = indexes.map((index) => `r${index}: variableDelete(input: $i${index})`);
  return `mutation Remove(${inputs.join(", ")}) { ${fields.join(" ")} }`;
}

/**
 * Sends an operation, and reads its data by a schema.
 * @param doing the subject of error messages, such as "Changing NAME"
 */
type GraphQl = <Content>(
  doing: string,
  query: string,
  variables: object,
  schema: z.ZodType<Content>,
) => Promise<{ readonly ok: true; readonly content: Content } | { readonly ok: false; readonly outcome: Failure }>;

/** Calls of Railway's GraphQL API. A call that fails is answered with status 200 and `errors`. */
function graphQl(connection: DeployEnvironmentConnection, { settings, send }: CallContext): GraphQl {
  const { access_token: token, token_type: kind = "project" } = connection;
  const base = (settings.DEPLOY_ENVIRONMENT_URL || defaultUrl).replace(/\/+$/, "");
  const headers: Record<string, string> =
    kind === "project" ? { "project-access-token": token } : { authorization: `Bearer ${token}` };
  const call = restClient({ base, headers, send });
  return async (doing, query, variables, schema) => {
    const outcomeOf = (outcome: Failure) => (query.startsWith("query") ? withoutEffect(outcome) : outcome);
    const answer = await call(doing, "POST", "/graphql/v2", { query, variables });
    if (!answer.ok) return { ok: false, outcome: outcomeOf(answer.outcome) };
    const parsed = schemas().answer.safeParse(answer.body).data;
    const [error] = parsed?.errors ?? [];
    if (error !== undefined) return { ok: false, outcome: outcomeOf(refusalOf(doing, error.message)) };
    const read = contentOf({ ...answer, body: parsed?.data }, schema);
    return read.ok ? read : { ok: false, outcome: outcomeOf(read.outcome) };
  };
}

/** The provider's refusals, by the beginning of their message. */
const meanings: readonly (readonly [RegExp, Meaning])[] = [
  [/^project token not found/i, ["client", "auth_failed", "the credentials are not accepted"]],
  [/^(not authorized|unauthorized)/i, ["client", "permission_denied", "the credentials lack the permission"]],
  [/^two factor/i, ["client", "permission_denied", "the workspace asks for two factors"]],
  [/not found/i, ["client", "not_found", "there is no such project, environment or service"]],
  [/rate limit|too many requests/i, ["external", "throttled", "too many requests"]],
  [/problem processing|internal|timed? ?out/i, ["external", "provider_unavailable", "the provider failed"]],
];

/** The failure of a write. The message may quote a value, so it is not passed on. */
function refusalOf(doing: string, message: string): Failure {
  const known = meanings.find(([pattern]) => pattern.test(message))?.[1];
  const [outcome, code, why] = known ?? ["client", "invalid_request", "the provider does not accept the content"];
  // The status is 200 also when the server fails.
  return withUnsureEffect(failure(outcome, code, `${doing} was refused: ${why}.`), 500);
}
