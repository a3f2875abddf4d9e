import { type AccountDouble, bearerOf, DoubleAccount, Refusal, type Reply, startTokenDouble } from "../http-double.ts";
import type { Received } from "../loopback.ts";

/** Environment variables of Netlify's API, stricter in unknown fields; judged by its published document (open-api.test.ts). */

export interface Value {
  id: string;
  context: string;
  context_parameter?: string;
  value: string;
}

export interface Variable {
  key: string;
  scopes: string[];
  values: Value[];
  is_secret: boolean;
  updated_at: string;
}

const allScopes = ["builds", "functions", "runtime", "post-processing"];
const contexts = ["all", "dev", "dev-server", "branch-deploy", "deploy-preview", "production", "branch"];

export class SiteAccount extends DoubleAccount {
  readonly token = `nfp_${crypto.randomUUID()}`;
  readonly id = "acme";
  /** Variables by site; the empty name is the team. */
  readonly sites = new Map<string, Map<string, Variable>>([
    ["", new Map()],
    ["site-1", new Map()],
  ]);
  isPaid = false;
  #now = Date.parse("2026-01-01T00:00:00Z");

  time(): string {
    this.#now += 1000;
    return new Date(this.#now).toISOString();
  }
}

const refuse = (status: number, message: string) => new Refusal(status, { code: status, message });

function objectOf(given: unknown, known: readonly string[]): Record<string, unknown> {
  if (typeof given !== "object" || given === null || Array.isArray(given)) throw refuse(400, "Bad Request");
  const unknown = Object.keys(given).find((name) => !known.includes(name));
  if (unknown !== undefined) throw refuse(422, `unknown field ${unknown}`);
  return { ...given };
}

function valueFrom(given: unknown, isSecret: boolean): Value {
  const { value, context, context_parameter: parameter } = objectOf(given, ["value", "context", "context_parameter"]);
  if (typeof value !== "string" || value === "") throw refuse(422, "value is required");
  if (!contexts.includes(String(context))) throw refuse(422, "context is invalid");
  if ((context === "branch") !== (parameter !== undefined)) throw refuse(422, "context_parameter is invalid");
  if (isSecret && context === "all") throw refuse(422, "secret values need a specific context");
  return {
    id: crypto.randomUUID(),
    context: String(context),
    ...(parameter !== undefined && { context_parameter: String(parameter) }),
    value,
  };
}

const shown = ({ values, ...variable }: Variable) => ({
  ...variable,
  values: values.map(({ value, ...rest }) => ({
    ...rest,
    value: variable.is_secret && rest.context !== "dev" ? "" : value,
  })),
});

const isSame = (one: Value, other: Value) =>
  one.context === other.context && one.context_parameter === other.context_parameter;

function create(account: SiteAccount, variables: Map<string, Variable>, given: unknown): Variable[] {
  if (!Array.isArray(given)) throw refuse(400, "Bad Request");
  return given.map((one) => {
    const {
      key,
      scopes = allScopes,
      values,
      is_secret = false,
    } = objectOf(one, ["key", "scopes", "values", "is_secret"]);
    if (typeof key !== "string" || !/^[A-Za-z_]\w*$/.test(key)) throw refuse(422, "key is invalid");
    if (variables.has(key)) throw refuse(409, "the key exists already");
    if (scopes !== allScopes && !account.isPaid) {
      throw refuse(403, "Upgrade your Netlify account to set specific scopes");
    }
    if (!Array.isArray(values) || values.length === 0) throw refuse(422, "values are required");
    const created: Variable = {
      key,
      scopes: scopes as string[],
      values: values.map((value) => valueFrom(value, is_secret === true)),
      is_secret: is_secret === true,
      updated_at: account.time(),
    };
    variables.set(key, created);
    return created;
  });
}

function perform(request: Received, account: SiteAccount): Reply {
  const path = /^\/api\/v1\/accounts\/([^/]+)\/env(?:\/([^/]+)(?:\/value\/([^/]+))?)?$/.exec(request.url.pathname);
  const variables = account.sites.get(request.url.searchParams.get("site_id") ?? "");
  if (path?.[1] !== account.id || variables === undefined) throw refuse(404, "Not Found");
  const [, , key, id] = path;
  const body = () => JSON.parse(request.body.toString()) as unknown;
  if (key === undefined) {
    if (request.method === "GET") return { status: 200, body: [...variables.values()].map(shown) };
    if (request.method !== "POST") throw refuse(405, "Method Not Allowed");
    return { status: 201, body: create(account, variables, body()).map(shown) };
  }
  const variable = variables.get(key);
  if (variable === undefined) throw refuse(404, "Not Found");
  if (id !== undefined) {
    if (request.method !== "DELETE") throw refuse(405, "Method Not Allowed");
    const left = variable.values.filter((one) => one.id !== id);
    if (left.length === variable.values.length) throw refuse(404, "Not Found");
    if (left.length === 0) throw refuse(422, "a variable has at least one value");
    Object.assign(variable, { values: left, updated_at: account.time() });
    return { status: 204 };
  }
  switch (request.method) {
    case "GET":
      return { status: 200, body: shown(variable) };
    case "PATCH": {
      const value = valueFrom(body(), variable.is_secret);
      // A value for all contexts and values of single ones exclude each other.
      const others = variable.values.filter(
        (one) => !isSame(one, value) && one.context !== "all" && value.context !== "all",
      );
      Object.assign(variable, { values: [...others, value], updated_at: account.time() });
      return { status: 201, body: shown(variable) };
    }
    case "DELETE":
      variables.delete(key);
      return { status: 204 };
    default:
      throw refuse(405, "Method Not Allowed");
  }
}

export const startDeploySite = (): Promise<AccountDouble<SiteAccount>> =>
  startTokenDouble<SiteAccount>({
    newAccount: () => new SiteAccount(),
    tokenOf: bearerOf,
    unauthorized: refuse(401, "Unauthorized"),
    perform,
    refusals: {
      throttled: { ...refuse(429, "Too Many Requests").reply, headers: { "x-ratelimit-reset": "1" } },
      unavailable: { status: 503, body: "" },
      forbidden: refuse(403, "Forbidden").reply,
    },
  });
