import { DoubleAccount, Refusal, type Reply, startHttpDouble } from "../http-double.ts";
import type { Loopback, Received } from "../loopback.ts";

/**
 * Variables of Railway's GraphQL API. Stricter: only the operations that the adapter has, each with exactly its
 * variables; judged by the published schema (schema.test.ts).
 */

export class RailwayAccount extends DoubleAccount {
  readonly token = crypto.randomUUID();
  readonly projectId = crypto.randomUUID();
  readonly environmentId = crypto.randomUUID();
  readonly serviceId = crypto.randomUUID();
  /** Variables by service; the empty id has the shared ones. */
  readonly places = new Map<string, Map<string, string>>([
    ["", new Map()],
    [this.serviceId, new Map()],
  ]);
  /** Changes without `skipDeploys` are deployed. */
  deployments = 0;
}

/** One field of an operation, with its arguments. */
export interface Call {
  readonly alias: string;
  readonly field: string;
  readonly given: Readonly<Record<string, unknown>>;
}

const graphQlError = (message: string) => new Refusal(200, { errors: [{ message }], data: null });
const invalid = (message: string) => new Refusal(400, { errors: [{ message }] });

/** The operation of a request. Its text must declare each variable that it uses, and the request must give no other. */
export function operationOf(body: Buffer): { readonly kind: string; readonly calls: readonly Call[] } {
  const { query, variables, ...rest } = JSON.parse(body.toString()) as Record<string, unknown>;
  if (typeof query !== "string" || Object.keys(rest).length > 0) throw invalid("Must provide query string.");
  const given = { ...(variables as Record<string, unknown>) };
  const [, kind = "", declared = "", fields = ""] = /^(query|mutation) \w+\(([^)]*)\) \{([\s\S]*)\}$/.exec(query) ?? [];
  const types = new Map([...declared.matchAll(/\$(\w+): (\w+!?)/g)].map(([, name = "", type = ""]) => [name, type]));
  for (const [name, type] of types) if (type.endsWith("!") && !(name in given)) throw invalid(`$${name} is required`);
  for (const name of Object.keys(given)) if (!types.has(name)) throw invalid(`$${name} is not declared`);
  const calls = [...fields.matchAll(/(?:(\w+): )?(\w+)\(([^)]*)\)/g)].map(([, alias, field = "", args = ""]): Call => {
    const values = [...args.matchAll(/(\w+): (\$\w+|true|false)/g)].map(([, name = "", value = ""]) => {
      if (!value.startsWith("$")) return [name, value === "true"];
      if (!types.has(value.slice(1))) throw invalid(`${value} is not declared`);
      return [name, given[value.slice(1)]];
    });
    const whole = Object.fromEntries(values.filter(([, value]) => value !== undefined)) as Record<string, unknown>;
    return { alias: alias ?? field, field, given: (whole["input"] as Record<string, unknown>) ?? whole };
  });
  if (calls.length === 0) throw invalid("Syntax Error");
  return { kind, calls };
}

function perform({ url, body }: Received, account: RailwayAccount): Reply {
  if (url.pathname !== "/graphql/v2") return { status: 404, body: "" };
  const { kind, calls } = operationOf(body);
  const data: Record<string, unknown> = {};
  for (const { alias, field, given } of calls) {
    const { projectId, environmentId, serviceId = "", ...rest } = given;
    if (projectId !== account.projectId) throw graphQlError("Not Authorized");
    if (environmentId !== account.environmentId) throw graphQlError("Environment not found");
    const place = account.places.get(String(serviceId));
    if (place === undefined) throw graphQlError("Service not found");
    data[alias] = kind === "query" ? shown(field, place) : changed(field, place, account, rest);
  }
  return { status: 200, body: { data } };
}

function shown(field: string, place: Map<string, string>): Record<string, string> {
  if (field !== "variables") throw invalid(`Cannot query field "${field}"`);
  return Object.fromEntries(place);
}

function changed(
  field: string,
  place: Map<string, string>,
  account: RailwayAccount,
  { variables, name, replace, skipDeploys }: Record<string, unknown>,
): true {
  if (field === "variableDelete") {
    if (!place.delete(String(name))) throw graphQlError("Variable not found");
  } else if (field === "variableCollectionUpsert") {
    if (replace !== false) throw invalid("the double keeps the variables of others");
    for (const [key, value] of Object.entries(variables as Record<string, unknown>)) {
      if (!/^[A-Za-z_]\w*$/.test(key)) throw graphQlError("Invalid variable name");
      if (typeof value !== "string" || value === "") throw graphQlError("Invalid variable value");
      place.set(key, value);
    }
  } else throw invalid(`Cannot query field "${field}"`);
  if (skipDeploys !== true) account.deployments++;
  return true;
}

export async function startDeployEnvironment(): Promise<Loopback & { open(): RailwayAccount }> {
  const accounts = new Map<string, RailwayAccount>();
  const double = await startHttpDouble<RailwayAccount>({
    authenticate({ headers }) {
      const project = headers["project-access-token"];
      const bearer = /^Bearer (.+)$/.exec(headers["authorization"] ?? "")?.[1];
      const account = accounts.get(project ?? bearer ?? "");
      if (account === undefined)
        throw graphQlError(project === undefined ? "Not Authorized" : "Project Token not found");
      return account;
    },
    perform,
    isWrite: ({ body }) => operationOf(body).kind === "mutation",
    refusals: {
      throttled: { status: 429, body: { data: null }, headers: { "retry-after": "1" } },
      unavailable: { status: 503, body: "" },
      forbidden: graphQlError("Not Authorized").reply,
    },
  });
  return {
    ...double,
    open() {
      const account = new RailwayAccount();
      accounts.set(account.token, account);
      return account;
    },
  };
}
