import * as z from "zod";
import type { Failure } from "../../../contracts/failure.ts";
import { memo } from "../../../lib/memo.ts";
import { failure } from "../../../providers/outcome.ts";
import { unreadable } from "../../../providers/rest.ts";
import { type BulkPlace, bulkOperations, WRITTEN } from "../bulk-variables.ts";
import { EACH_KEY, ENVIRONMENT_NAMES, ENVIRONMENT_RULE } from "../defaults.ts";
import { fromDescription } from "../description.ts";
import type { CallContext, ExternalObject, RemoteDestinationType } from "../destination-type.ts";
import { checkVariable } from "../variables.ts";
import { graphQl } from "./client.ts";
import { type DeployEnvironmentConnection, deployEnvironmentConnection } from "./connection.ts";
import { description } from "./description.ts";

/** The provider states no limit of one value. */
const maxValueBytes = 64 * 1024;
const MOST = 50;
/** A change is a deployment of the services that it concerns, so a burst of changes is one call. */
const WINDOW_MS = 2_000;

const parsedConnection = memo(deployEnvironmentConnection);
const variablesAnswer = memo(() => z.object({ variables: z.record(z.string(), z.string().nullable()) }));

/**
 * Variables of Railway. One external object is one variable of a service, or one that all services of an environment
 * share. Sealed variables are not shown by the provider.
 */
export const deployEnvironment: RemoteDestinationType<DeployEnvironmentConnection> = {
  kind: "remote",
  ...fromDescription(description),
  get connection() {
    return parsedConnection();
  },
  targets: ({ project_id: project, environment_id: environment, service_id: service = "" }) => [
    JSON.stringify([project, environment, service]),
  ],
  defaults: EACH_KEY,
  naming: ENVIRONMENT_NAMES,
  maxValueBytes,
  pace: { atOnce: 1, burst: 200, perMinute: 600 },
  ...bulkOperations({
    noun: "variable",
    windowMs: WINDOW_MS,
    most: MOST,
    showsValues: true,
    check: (object) =>
      checkVariable(object, {
        ...ENVIRONMENT_RULE,
        maxBytes: maxValueBytes,
        notEmpty: true,
      }) ?? checkText(object),
    placeOf,
  }),
};

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
      const doing = "Reading the variables";
      const answer = await call(doing, READ, at);
      if (!answer.ok) return answer.outcome;
      const parsed = variablesAnswer().safeParse(answer.data);
      if (!parsed.success) return unreadable(doing, "GET").outcome;
      const shown = Object.entries(parsed.data.variables);
      return new Map(shown.flatMap(([name, value]) => (value === null ? [] : [[name, { value }]])));
    },
    async write(doing, values) {
      const variables = Object.fromEntries(values);
      const input = { ...at, variables, replace: false, skipDeploys: connection.skip_deploys ?? false };
      const answer = await call(doing, WRITE, { input });
      if (!answer.ok) return answer.outcome;
      if (answer.data["variableCollectionUpsert"] !== true) return unreadable(doing, "POST").outcome;
      return new Map([...values.keys()].map((name) => [name, WRITTEN]));
    },
    /** One request. The provider performs its removals one after the other, so a failure may leave some. */
    async remove(doing, names) {
      const inputs = Object.fromEntries(names.map((name, index) => [`i${index}`, { ...at, name }]));
      const answer = await call(doing, removalOf(names.length), inputs);
      if (!answer.ok) return answer.outcome;
      const isDone = names.every((_, index) => answer.data[`r${index}`] === true);
      return isDone ? { outcome: "ok" } : unreadable(doing, "POST").outcome;
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
