import type { Account, Project, Stored, Token } from "./account.ts";
import { ApiError, bad, readChange, readCreations } from "./rules.ts";

export type Operation =
  | "GetUser"
  | "GetProject"
  | "ListVariables"
  | "GetVariable"
  | "CreateVariables"
  | "EditVariable"
  | "RemoveVariable";

/** One request for an operation: `parts` of the path, `query` and a body not read yet. */
export interface Performing {
  operation: Operation;
  parts: string[];
  query: URLSearchParams;
  body: Buffer;
}

export interface Answer {
  status: number;
  body: string;
  headers?: Record<string, string>;
  errorCode?: string;
}

/** Performs the operation with the token's rights. @throws ApiError */
export function perform(account: Account, token: Token, { operation, parts, query, body }: Performing): Answer {
  if (operation === "GetUser") return json({ user: { id: `user_${account.id}`, username: account.id } });
  const [idOrName = "", id = ""] = parts;
  const project = account.reach(idOrName, query.get("teamId"), token);
  const changes = !operation.startsWith("Get") && operation !== "ListVariables";
  if (changes && token.readOnly) throw new ApiError(403, "forbidden", "You do not have permission to do this");
  const decrypt = query.get("decrypt") === "true";
  switch (operation) {
    case "GetProject":
      return json(projectBody(account, project));
    case "ListVariables":
      return json(list(account, project, token, query.get("until"), decrypt));
    case "GetVariable": {
      const found = project.variables.find((one) => one.id === id);
      if (!found) throw new ApiError(404, "not_found", "The environment variable was not found");
      return json(variableBody(found, true));
    }
    case "CreateVariables":
      return create(account, project, parseJson(body), query.get("upsert") === "true");
    case "EditVariable":
      return json(variableBody(account.edit(project, id, readChange(parseJson(body)))));
    case "RemoveVariable":
      return json(variableBody(account.remove(project, id)));
  }
}

/** A single refused one has its own status; of several, some may be created and others not. */
function create(account: Account, project: Project, body: unknown, upsert: boolean): Answer {
  const wanted = readCreations(body);
  const created: Record<string, unknown>[] = [];
  const failed: unknown[] = [];
  for (const one of wanted) {
    try {
      created.push(variableBody(account.create(project, one, upsert)));
    } catch (problem) {
      if (!(problem instanceof ApiError)) throw problem;
      const asFailed = Array.isArray(body) || account.options.conflictsAs === "failed";
      if (!asFailed) throw problem;
      const code = problem.code === "ENV_ALREADY_EXISTS" ? "ENV_CONFLICT" : problem.code;
      failed.push({ error: { code, message: problem.message, ...problem.fields } });
    }
  }
  if (Array.isArray(body)) return { ...json({ created, failed }), status: 201 };
  return { ...json({ ...(created[0] ? { created: created[0] } : {}), failed }), status: 201 };
}

function list(account: Account, project: Project, token: Token, until: string | null, decrypt: boolean) {
  if (until !== null && (account.options.pageSize === undefined || !/^\d+$/.test(until))) {
    throw bad("Invalid request: until", "bad_request");
  }
  const { variables, next } = account.page(project, until === null ? null : Number(until));
  const seen = variables.filter((one) => !(token.hidesProduction && one.target.includes("production")));
  const envs = seen.map((one) => ({ ...variableBody(one, decrypt), securityIssues: [] }));
  return account.options.pageSize === undefined
    ? { envs, hiddenProductionEnvCount: variables.length - seen.length }
    : { envs, pagination: { count: envs.length, next, prev: null } };
}

function variableBody(variable: Stored, decrypt = false): Record<string, unknown> {
  const { id, key, type, target, gitBranch, customEnvironmentIds, comment, createdAt, updatedAt } = variable;
  const readable = type === "plain" || (decrypt && type === "encrypted");
  return {
    id,
    key,
    type,
    target,
    customEnvironmentIds,
    createdAt,
    updatedAt,
    createdBy: "user_1",
    updatedBy: null,
    configurationId: null,
    ...(gitBranch ? { gitBranch } : {}),
    ...(comment === null ? {} : { comment }),
    value: readable ? variable.value : type === "sensitive" ? "" : `ciphertext:${id}`,
  };
}

const projectBody = ({ id: account }: Account, { id, name, teamId }: Project) => ({
  id,
  name,
  accountId: teamId ?? account,
  alias: [],
  directoryListing: false,
  nodeVersion: "24.x",
  defaultResourceConfig: { functionDefaultRegions: [] },
  deploymentExpiration: {},
  resourceConfig: { functionDefaultRegions: [] },
  speedInsights: { id },
  createdAt: 0,
  updatedAt: 0,
  framework: null,
});

/** The body, UTF-8. Throws `ApiError`. */
export function parseJson(body: Buffer): unknown {
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: false }).decode(body));
  } catch {
    throw bad("Invalid JSON", "bad_request");
  }
}

export const json = (body: unknown): Answer => ({ status: 200, body: JSON.stringify(body) });
