import type { Claims } from "../cloud-b/login.ts";
import { type AccountDouble, DoubleAccount, fieldsOf, Refusal, type Reply, startHttpDouble } from "../http-double.ts";
import type { Received } from "../loopback.ts";

/**
 * Variable groups of Azure DevOps, stricter in unknown fields and in null values: a null keeps the value of a secret
 * variable, and nothing else. Judged by the published document (published.test.ts).
 */

export interface Variable {
  readonly value: string;
  readonly isSecret?: boolean;
  readonly isReadOnly?: boolean;
}

/** An organization with one project and its variable groups; a personal access token of it, and an application. */
export class PipelineAccount extends DoubleAccount {
  readonly token = crypto.randomUUID().replaceAll("-", "").repeat(2);
  readonly organization = `org-${this.token.slice(0, 8)}`;
  readonly project = { id: crypto.randomUUID(), name: "web" };
  readonly groupId = 42;
  /** An application that is a user of the organization. */
  application = "";
  description = "Of the team";
  variables = new Map<string, Variable>([["REGION", { value: "eu" }]]);
  /** The group is linked to a key vault. */
  isLinked = false;
  /** Called before the answer of a write, as another writer. */
  onWritten: () => void = () => undefined;
  #now = Date.parse("2026-01-01T00:00:00Z");
  modifiedOn = this.touch();

  touch(): string {
    this.#now += 1000;
    this.modifiedOn = new Date(this.#now).toISOString();
    return this.modifiedOn;
  }
}

const refuse = (status: number, message: string, typeKey = "VssServiceException", headers = {}) =>
  new Refusal(
    status,
    { $id: "1", innerException: null, message, typeName: `Microsoft.${typeKey}`, typeKey, errorCode: 0, eventId: 3000 },
    headers,
  );

const invalid = (message: string) => refuse(400, message, "InvalidRequestException");

function shown(account: PipelineAccount): object {
  const { project, groupId, description, variables, modifiedOn, isLinked } = account;
  const values = [...variables].map(([name, { value, ...flags }]) => [
    name,
    { value: flags.isSecret ? null : value, ...flags },
  ]);
  const identity = { id: project.id, displayName: "Ada", uniqueName: "ada@example.com" };
  return {
    variables: Object.fromEntries(values),
    id: groupId,
    type: isLinked ? "AzureKeyVault" : "Vsts",
    name: "prod",
    description,
    createdBy: identity,
    createdOn: "2026-01-01T00:00:00Z",
    modifiedBy: identity,
    modifiedOn,
    isShared: false,
    variableGroupProjectReferences: [{ projectReference: project, name: "prod", description }],
  };
}

function variableFrom(name: string, given: unknown, before: ReadonlyMap<string, Variable>): Variable {
  const { value, isSecret = false, isReadOnly, ...rest } = Object(given) as Record<string, unknown>;
  if (Object.keys(rest).length > 0) throw invalid("unknown field of a variable");
  if (typeof isSecret !== "boolean") throw invalid("isSecret");
  const kept = [...before].find(([one]) => one.toLowerCase() === name.toLowerCase())?.[1];
  const flags = {
    ...(isSecret && { isSecret }),
    ...(isReadOnly !== undefined && isReadOnly !== null && { isReadOnly: isReadOnly as boolean }),
  };
  if (value === null || value === undefined) {
    if (!isSecret || !kept?.isSecret) throw invalid(`Variable ${name} has no value`);
    return { value: kept.value, ...flags };
  }
  if (typeof value !== "string" || value === "") throw invalid(`Variable ${name} has no value`);
  return { value, ...flags };
}

const FIELDS = ["name", "type", "description", "providerData", "variables", "variableGroupProjectReferences"];

function replace(request: Received, account: PipelineAccount): Reply {
  const body = fieldsOf(request, FIELDS, invalid);
  if (body["name"] !== "prod" || body["type"] !== "Vsts") throw invalid("the group's name or type has changed");
  const references = body["variableGroupProjectReferences"];
  if (!Array.isArray(references) || references.length === 0) {
    throw refuse(401, "At least one variable group project reference is required.", "AccessDeniedException");
  }
  for (const { name, projectReference } of references as { name?: string; projectReference?: object }[]) {
    const { id, name: project } = Object(projectReference) as { id?: string; name?: string };
    if (!name || (id !== account.project.id && project !== account.project.name)) {
      throw refuse(400, "Project information name is not valid for variable group.", "InvalidRequestException");
    }
  }
  const given = Object.entries(Object(body["variables"]) as Record<string, unknown>);
  if (given.length === 0) throw invalid("At least one variable is required");
  const next = new Map<string, Variable>();
  for (const [name, variable] of given) {
    if (!/^[\w.]{1,450}$/.test(name)) throw invalid(`The name ${name} is invalid`);
    if ([...next.keys()].some((one) => one.toLowerCase() === name.toLowerCase())) throw invalid("duplicate name");
    next.set(name, variableFrom(name, variable, account.variables));
  }
  account.variables = next;
  if (typeof body["description"] === "string") account.description = body["description"];
  account.touch();
  const answer = { status: 200, body: shown(account) };
  account.onWritten();
  return answer;
}

function perform(request: Received, account: PipelineAccount): Reply {
  const { method, url } = request;
  if (url.search !== "?api-version=7.1") throw invalid("The api-version is not supported");
  const pattern = /^\/([\w-]+)(?:\/([^/]+))?\/_apis\/distributedtask\/variablegroups\/(\d+)$/;
  const [, organization, project, id] = pattern.exec(url.pathname) ?? [];
  if (organization === undefined) throw refuse(404, "The controller was not found", "HttpException");
  if (organization !== account.organization) throw refuse(404, "TF400813: the organization", "NotFoundException");
  if (method === "GET") {
    const named = decodeURIComponent(project ?? "");
    if (named !== account.project.name && named !== account.project.id) {
      throw refuse(404, `TF200016: The following project does not exist: ${named}.`, "ProjectDoesNotExistException");
    }
    // A group that does not exist, or that the caller may not see, is answered with null.
    return { status: 200, body: Number(id) === account.groupId ? shown(account) : null };
  }
  if (method !== "PUT" || project !== undefined) throw refuse(405, "Method not allowed", "HttpException");
  if (Number(id) !== account.groupId) throw refuse(404, "Variable group not found", "VariableGroupNotFoundException");
  if (request.headers["content-type"] !== "application/json") throw refuse(415, "media type", "HttpException");
  return replace(request, account);
}

export type PipelineDouble = AccountDouble<PipelineAccount>;

/** @param verify the claims of an Entra token; null when it is not valid */
export async function startPipelineVariables(
  verify: (token: string) => Claims | null = () => null,
): Promise<PipelineDouble> {
  const accounts: PipelineAccount[] = [];

  function accountOf({ headers }: Received): PipelineAccount | undefined {
    const [, scheme = "", rest = ""] = /^(\S+) (.*)$/.exec(headers["authorization"] ?? "") ?? [];
    if (scheme === "Basic") {
      const [user, token] = Buffer.from(rest, "base64").toString().split(":");
      return user === "" ? accounts.find((one) => one.token === token) : undefined;
    }
    const claims = scheme === "Bearer" ? verify(rest) : null;
    if (claims?.aud !== "499b84ac-1321-427f-aa17-267ca6975798") return undefined;
    return accounts.find(({ application }) => application !== "" && application === claims.appid);
  }

  const double = await startHttpDouble<PipelineAccount>({
    isWrite: ({ method }) => method !== "GET",
    authenticate(request) {
      const account = accountOf(request);
      if (account) return account;
      const isSuppressed = request.headers["x-tfs-fedauthredirect"] === "Suppress";
      if (isSuppressed) throw new Refusal(401, "");
      throw new Refusal(203, "<!DOCTYPE html><title>Sign In</title>", { "content-type": "text/html" });
    },
    perform,
    refusals: {
      throttled: refuse(429, "TF400733: The request has been canceled.", "RequestBlockedException", {
        "retry-after": "1",
      }).reply,
      unavailable: { status: 503, body: "" },
      forbidden: refuse(403, "You do not have permissions to perform this operation.", "AccessDeniedException").reply,
    },
  });
  return {
    ...double,
    open() {
      const account = new PipelineAccount();
      accounts.push(account);
      return account;
    },
  };
}
