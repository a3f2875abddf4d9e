import { asBearer } from "./auth.ts";
import {
  type Access,
  type Answer,
  accessOf,
  type Call,
  fieldsOf,
  invalid,
  linkTo,
  notFound,
  type Route,
  route,
} from "./routes.ts";
import { ApiError, iso, limits, type Variable, type Vault } from "./state.ts";

/** Variables of Actions: plain text, created and changed by different calls. */

type Find = (call: Call, level: Access) => Vault;

const MAX_PER_PAGE = 30;

export function variableRoute(
  method: string,
  name: string | undefined,
  inOrganization: boolean,
  find: Find,
): Route | null {
  if (name === undefined) {
    if (method === "GET") return route("listVariables", null, (call) => list(call, find(call, "read")));
    if (method !== "POST") return null;
    return route("createVariable", null, (call) => create(call, find(call, "write"), inOrganization));
  }
  switch (method) {
    case "GET":
      return route("getVariable", name, (call) => ({ status: 200, body: shown(variableOf(find(call, "read"), name)) }));
    case "PATCH":
      return route("updateVariable", name, (call) => change(call, find(call, "write"), name, inOrganization));
    case "DELETE":
      return route("deleteVariable", name, (call) => {
        const vault = find(call, "write");
        vault.variables.delete(variableOf(vault, name).name);
        return { status: 204, body: null };
      });
    default:
      return null;
  }
}

function variableOf(vault: Vault, name: string): Variable {
  const variable = vault.variables.get(name.toUpperCase());
  if (variable === undefined) throw notFound();
  return variable;
}

const shown = ({ name, value, createdAt, updatedAt, visibility }: Variable) => ({
  name,
  value,
  created_at: iso(createdAt),
  updated_at: iso(updatedAt),
  ...(visibility !== undefined && { visibility }),
});

function list({ query }: Call, vault: Vault): Answer {
  const size = Number(query.get("per_page") ?? 10);
  if (!(size >= 1 && size <= MAX_PER_PAGE)) throw invalid("Invalid request.");
  const page = Number(query.get("page") ?? 1);
  if (!(page >= 1)) throw invalid("Invalid request.");
  const all = [...vault.variables.values()];
  const variables = all.slice((page - 1) * size, page * size).map(shown);
  const headers = linkTo(page + 1, page * size < all.length);
  return { status: 200, headers, body: { total_count: all.length, variables } };
}

function contentOf({ actor, body }: Call, inOrganization: boolean, isNew: boolean) {
  const access = inOrganization ? ["visibility", "selected_repository_ids"] : [];
  const { name, value, ...rest } = fieldsOf(body, ["name", "value", ...access]);
  if (isNew && (typeof name !== "string" || typeof value !== "string"))
    throw invalid("Invalid request.", "missing_field");
  if (name !== undefined && !/^[A-Za-z_][A-Za-z0-9_]*$/.test(String(name))) {
    throw invalid("Variable names can only contain alphanumeric characters or underscores.");
  }
  if (/^GITHUB_/i.test(String(name))) throw invalid("Variable names must not start with GITHUB_.");
  if (value === "") throw invalid("Variable value is empty.");
  if (Buffer.byteLength(String(value ?? "")) > limits.valueBytes) throw invalid("Variable value is too large.");
  return {
    ...(name !== undefined && { name: String(name).toUpperCase() }),
    ...(value !== undefined && { value: String(value) }),
    ...(inOrganization && accessOf(asBearer(actor).state, rest)),
  };
}

function create(call: Call, vault: Vault, inOrganization: boolean): Answer {
  const { name = "", value = "", ...access } = contentOf(call, inOrganization, true);
  if (vault.variables.has(name)) throw new ApiError(409, "Already exists - Variable already exists");
  vault.variables.set(name, { name, value, ...access, createdAt: call.now, updatedAt: call.now });
  return { status: 201, body: {} };
}

function change(call: Call, vault: Vault, given: string, inOrganization: boolean): Answer {
  const variable = variableOf(vault, given);
  Object.assign(variable, contentOf(call, inOrganization, false), { updatedAt: call.now });
  return { status: 204, body: null };
}
