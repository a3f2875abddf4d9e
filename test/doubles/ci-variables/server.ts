import { DoubleAccount, fieldsOf, Refusal, type Reply, startHttpDouble } from "../http-double.ts";
import type { Loopback, Received } from "../loopback.ts";

/** CI/CD variables of GitLab's REST API (`lib/api/ci/variables.rb`, `Ci::Maskable`), stricter in unknown fields. */

export interface Variable {
  key: string;
  value: string;
  environment_scope: string;
  variable_type: string;
  protected: boolean;
  masked: boolean;
  hidden: boolean;
  raw: boolean;
  description: string | null;
}

export class CiAccount extends DoubleAccount {
  readonly token = `glpat-${crypto.randomUUID()}`;
  readonly readToken = `glpat-read-${crypto.randomUUID()}`;
  readonly project = "acme/web";
  readonly projectId = 42;
  /** Variables by place. */
  readonly places = new Map<string, Variable[]>([
    ["/projects/acme/web", []],
    ["/groups/acme", []],
    ["/admin/ci", []],
  ]);
  maxVariables = 8000;
  /** A further rule for masked values, as of another version of the server. */
  isMaskable: (value: string) => boolean = () => true;
}

const refuse = (status: number, message: unknown) => new Refusal(status, { message });
const writeFields = ["value", "variable_type", "environment_scope", "protected", "masked", "raw", "description"];

function placeOf(
  account: CiAccount,
  { url }: Received,
): { variables: Variable[]; key: string | undefined; isInstance: boolean } {
  const parts = /^\/api\/v4(\/projects\/([^/]+)|\/groups\/([^/]+)|\/admin\/ci)\/variables(?:\/([^/]+))?$/.exec(
    url.pathname,
  );
  if (parts === null) throw refuse(404, "404 Not Found");
  const [, place = "", project, group, key] = parts;
  const path = project === String(account.projectId) ? "/projects/acme/web" : decodeURIComponent(place);
  const variables = account.places.get(path);
  if (variables === undefined) throw refuse(404, group ? "404 Group Not Found" : "404 Project Not Found");
  return { variables, key: key && decodeURIComponent(key), isInstance: path === "/admin/ci" };
}

function find(variables: readonly Variable[], key: string, { url }: Received, isInstance: boolean): Variable {
  const scope = url.searchParams.get("filter[environment_scope]");
  if (isInstance && scope !== null) throw refuse(400, { filter: ["is unknown"] });
  const found = variables.filter((one) => one.key === key && (scope === null || one.environment_scope === scope));
  if (found.length > 1) {
    throw refuse(409, "There are multiple variables with provided parameters. Please use 'filter[environment_scope]'");
  }
  const [only] = found;
  if (only === undefined) throw refuse(404, isInstance ? "404 Instance Variable Not Found" : "404 Variable Not Found");
  return only;
}

/** Refuses a variable that the service's model finds invalid. Ruby's `\s` is the white space of ASCII, and counts characters. */
function check(variable: Variable, isInstance: boolean, account: CiAccount): void {
  const { key, value, masked, raw, description, variable_type: type } = variable;
  if (!/^[a-zA-Z0-9_]{1,255}$/.test(key)) throw refuse(400, { key: ["can contain only letters, digits and '_'."] });
  if (isInstance && [...value].length > 10_000)
    throw refuse(400, { value: ["is too long (maximum is 10000 characters)"] });
  const rule = raw ? /^[^ \t\r\n\f\v]{8,}$/u : /^[a-zA-Z0-9_+=/@:.~-]{8,}$/;
  if (masked && !(rule.test(value) && account.isMaskable(value))) throw refuse(400, { value: ["is invalid"] });
  if (type !== "env_var" && type !== "file")
    throw new Refusal(400, { error: "variable_type does not have a valid value" });
  if ((description ?? "").length > 255) throw refuse(400, { description: ["is too long (maximum is 255 characters)"] });
}

const shown = ({ value, ...variable }: Variable, isInstance: boolean) => {
  const { environment_scope, hidden, ...rest } = { ...variable, value: variable.hidden ? null : value };
  return isInstance ? rest : { ...rest, environment_scope, hidden };
};

/** One page, with the number of the next one. */
function page(variables: readonly Variable[], { url }: Received, isInstance: boolean): Reply {
  const [size, number] = ["per_page", "page"].map((name) => Number(url.searchParams.get(name) ?? 0));
  const most = Math.min(size || 20, 100);
  const from = ((number || 1) - 1) * most;
  const next = from + most < variables.length ? String((number || 1) + 1) : "";
  const body = variables.slice(from, from + most).map((one) => shown(one, isInstance));
  return { status: 200, body, headers: { "x-next-page": next } };
}

function perform(request: Received, account: CiAccount): Reply {
  const { variables, key, isInstance } = placeOf(account, request);
  const given = (...known: string[]) =>
    fieldsOf(
      request,
      isInstance ? known.filter((one) => !/scope|hidden/.test(one)) : known,
      (message) => new Refusal(400, { error: message }),
    );
  if (key === undefined) {
    if (request.method === "GET") return page(variables, request, isInstance);
    if (request.method !== "POST") throw new Refusal(405, { error: "405 Not Allowed" });
    const fields = given("key", "masked_and_hidden", ...writeFields);
    const { masked_and_hidden: hides = false, ...rest } = fields;
    if (typeof rest["key"] !== "string" || typeof rest["value"] !== "string") {
      throw new Refusal(400, { error: "key is missing, value is missing" });
    }
    const created: Variable = {
      environment_scope: "*",
      variable_type: "env_var",
      protected: false,
      masked: false,
      raw: false,
      description: null,
      ...(rest as unknown as Pick<Variable, "key" | "value">),
      ...(hides === true && { masked: true }),
      hidden: hides === true,
    };
    check(created, isInstance, account);
    if (variables.some((one) => one.key === created.key && one.environment_scope === created.environment_scope)) {
      throw refuse(400, { key: [`(${created.key}) has already been taken`] });
    }
    if (variables.length >= account.maxVariables)
      throw refuse(400, { base: ["Maximum number of variables limit exceeded"] });
    variables.push(created);
    return { status: 201, body: shown(created, isInstance) };
  }
  const variable = find(variables, key, request, isInstance);
  switch (request.method) {
    case "GET":
      return { status: 200, body: shown(variable, isInstance) };
    case "PUT": {
      const changed = { ...variable, ...given(...writeFields) } as Variable;
      if (variable.hidden && !changed.masked)
        throw refuse(400, { masked: ["The visibility setting cannot be changed"] });
      check(changed, isInstance, account);
      Object.assign(variable, changed);
      return { status: 200, body: shown(variable, isInstance) };
    }
    case "DELETE":
      variables.splice(variables.indexOf(variable), 1);
      return { status: 204 };
    default:
      throw new Refusal(405, { error: "405 Not Allowed" });
  }
}

export interface CiDouble extends Loopback {
  open(): CiAccount;
}

export async function startCiVariables(): Promise<CiDouble> {
  const accounts: CiAccount[] = [];
  const double = await startHttpDouble<CiAccount>({
    authenticate({ method, headers }) {
      const bearer = headers["private-token"] ?? /^Bearer (.+)$/.exec(headers["authorization"] ?? "")?.[1] ?? "";
      const account = accounts.find(({ token, readToken }) => bearer === token || bearer === readToken);
      if (account === undefined) throw refuse(401, "401 Unauthorized");
      if (bearer === account.readToken && method !== "GET") {
        throw new Refusal(403, {
          error: "insufficient_scope",
          error_description: "Higher privileges are needed",
          scope: "api",
        });
      }
      return account;
    },
    perform,
    isWrite: ({ method }) => method !== "GET",
    refusals: {
      throttled: { status: 429, body: "Retry later\n", headers: { "retry-after": "1", "ratelimit-reset": "1" } },
      unavailable: { status: 503, body: "" },
      forbidden: { status: 403, body: { message: "403 Forbidden" } },
    },
  });
  return {
    ...double,
    open() {
      const account = new CiAccount();
      accounts.push(account);
      return account;
    },
  };
}
