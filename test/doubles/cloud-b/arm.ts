import * as z from "zod";
import { parseObject, VaultError } from "../cloud-b-kv/requests.ts";
import { ArmError, type Assignment, type RoleDefinition, type SubscriptionState, within } from "./arm-state.ts";
import type { OperationName } from "./azure-types.ts";
import { type DirectoryState, timeOf } from "./graph-state.ts";
import type { Answer, Claims, Received } from "./login.ts";
import { isGuid, pageOf, readEquality, sameText } from "./odata.ts";

interface Route {
  operation: OperationName;
  /** Without a slash at its end; "" is the tenant. */
  scope: string;
  /** The id's last part, "" for a list. */
  name: string;
}

interface Call extends Route {
  request: Received;
  query: URLSearchParams;
  claims: Claims;
  directory: DirectoryState;
  subscription: SubscriptionState;
  /** The base URL of links in answers. */
  base: string;
}

const bad = (code: string, message: string) => new ArmError(400, code, message);

const operations: Record<string, OperationName> = {
  "GET roleDefinitions": "ListRoleDefinitions",
  "GET roleDefinitions/": "GetRoleDefinition",
  "GET roleAssignments": "ListRoleAssignments",
  "GET roleAssignments/": "GetRoleAssignment",
  "PUT roleAssignments/": "CreateRoleAssignment",
  "DELETE roleAssignments/": "DeleteRoleAssignment",
};

const versions: Record<string, readonly string[]> = {
  roleDefinitions: ["2022-04-01", "2022-05-01-preview"],
  roleAssignments: ["2022-04-01"],
  subscriptions: ["2020-01-01", "2022-12-01"],
};

/** Which operation a request is; null for none. */
export function armOperation({ method, target }: Received): Route | null {
  // Clients that put an id after a slash send two; the real service takes them as one.
  const path = decodeURIComponent(target.split("?")[0] ?? "").replace(/^\/+/, "/");
  if (method === "GET" && /^\/subscriptions\/[^/]+$/i.test(path)) {
    return { operation: "GetSubscription", scope: path, name: "" };
  }
  const parts = /^(.*)\/providers\/Microsoft\.Authorization\/(roleDefinitions|roleAssignments)(?:\/([^/]+))?$/i.exec(
    path,
  );
  const [, scope = "", kind = "", name = ""] = parts ?? [];
  const asked = Object.keys(operations).find((one) => sameText(one, `${method} ${kind}${name === "" ? "" : "/"}`));
  const operation = operations[asked ?? ""];
  return operation === undefined ? null : { operation, scope, name: name.toLowerCase() };
}

/** Performs a request whose token has been checked. Throws `ArmError`. */
export function performArm(call: Omit<Call, keyof Route | "query">): Answer {
  const { request, subscription } = call;
  const route = armOperation(request);
  if (route === null) throw new ArmError(404, "InvalidResourceType", "The resource type could not be found.");
  const query = new URL(request.target, "http://arm").searchParams;
  checkVersion(route, query);
  if (request.method !== "PUT" && request.body.length > 0) throw bad("InvalidRequestContent", "No body is expected.");
  subscription.checkScope(route.scope);
  return perform({ ...call, ...route, query });
}

export function armError({ status, code, message }: Pick<ArmError, "status" | "code" | "message">): Answer {
  return { status, body: { error: { code, message } }, errorType: code };
}

function checkVersion({ operation }: Route, query: URLSearchParams): void {
  const lists = operation.startsWith("List") ? ["$filter", "$skiptoken"] : [];
  const other = [...query.keys()].find((name) => !["api-version", ...lists].includes(name));
  if (other !== undefined) throw bad("InvalidQueryParameter", `The query parameter '${other}' is not known.`);
  const version = query.get("api-version");
  if (version === null) {
    throw bad(
      "MissingApiVersionParameter",
      "The api-version query parameter (?api-version=) is required for all requests.",
    );
  }
  const kind = operation.includes("Definition")
    ? "roleDefinitions"
    : operation.includes("Assignment")
      ? "roleAssignments"
      : "subscriptions";
  if (!versions[kind]?.includes(version)) {
    const message = `No registered resource provider found for API version '${version}' for type '${kind}'. The supported api-versions are '${versions[kind]?.join(", ")}'.`;
    throw bad("NoRegisteredProviderFound", message);
  }
}

function perform(call: Call): Answer {
  const { operation, subscription, claims, scope, name, query } = call;
  const allow = (action: string) => subscription.authorize(claims, action, scope);
  switch (operation) {
    case "GetSubscription":
      allow("Microsoft.Resources/subscriptions/read");
      return ok({ id: subscription.root, subscriptionId: subscription.id, displayName: "one", state: "Enabled" });
    case "GetRoleDefinition": {
      // Any caller can read built-in ones at the tenant.
      if (scope !== "") allow("Microsoft.Authorization/roleDefinitions/read");
      return ok(showDefinition(call, definitionNamed(call, name, 404)));
    }
    case "ListRoleDefinitions": {
      allow("Microsoft.Authorization/roleDefinitions/read");
      const filter = readFilter(query, ["roleName"]);
      return ok(
        list(call, subscription.definitions, {
          wanted: ({ roleName }) => filter === null || sameText(roleName, filter.text),
          show: (definition) => showDefinition(call, definition),
        }),
      );
    }
    case "ListRoleAssignments": {
      allow("Microsoft.Authorization/roleAssignments/read");
      const filter = readFilter(query, ["principalId"]);
      return ok(
        list(call, [...subscription.assignments.values()], {
          wanted: (one) =>
            (filter === null || sameText(one.principalId, filter.text)) &&
            (within(one.scope, scope) || within(scope, one.scope)) &&
            !call.directory.unseen.hides("assignment", one.id.toLowerCase()),
          show: (assignment) => showAssignment(call, assignment),
        }),
      );
    }
    case "GetRoleAssignment": {
      allow("Microsoft.Authorization/roleAssignments/read");
      const found = subscription.assignments.get(assignmentId(call).toLowerCase());
      if (found === undefined || call.directory.unseen.hides("assignment", found.id.toLowerCase())) {
        throw new ArmError(404, "RoleAssignmentNotFound", `The role assignment '${name}' is not found.`);
      }
      return ok(showAssignment(call, found));
    }
    case "CreateRoleAssignment":
      return createAssignment(call, () => allow("Microsoft.Authorization/roleAssignments/write"));
    case "DeleteRoleAssignment": {
      allow("Microsoft.Authorization/roleAssignments/delete");
      const removed = subscription.unassign(assignmentId(call));
      return removed === undefined ? { status: 204 } : ok(showAssignment(call, removed));
    }
    default:
      throw new Error(`no operation of the resource manager: ${operation}`);
  }
}

const ok = (body: unknown): Answer => ({ status: 200, body });

const Body = z.strictObject({
  properties: z.strictObject({
    roleDefinitionId: z.string(),
    principalId: z.string(),
    principalType: z.enum(["User", "Group", "ServicePrincipal", "ForeignGroup", "Device"]).optional(),
    description: z.string().optional(),
  }),
});

function createAssignment(call: Call, allow: () => void): Answer {
  const { directory, subscription, name, scope } = call;
  if (!isGuid(name)) {
    throw bad(
      "InvalidRoleAssignmentId",
      `The role assignment ID '${name}' is not valid. The role assignment ID must be a GUID.`,
    );
  }
  const { roleDefinitionId, principalType, ...given } = readBody(call.request);
  const principalId = given.principalId.toLowerCase();
  const [, definitionScope = "", definitionName = ""] =
    /^(|\/.+)\/providers\/Microsoft\.Authorization\/roleDefinitions\/([\da-f-]+)$/i.exec(roleDefinitionId) ?? [];
  if (!isGuid(definitionName)) {
    throw bad("BadRequestFormat", `The role definition ID '${roleDefinitionId}' is not a full one.`);
  }
  if (!isGuid(principalId)) {
    throw bad("InvalidPrincipalId", "A valid principal ID must be provided for role assignment.");
  }
  allow();
  subscription.checkScope(definitionScope);
  const definition = definitionNamed(call, definitionName.toLowerCase(), 400);
  const principal = directory.principals.get(principalId);
  const known = principal !== undefined && !principal.deleted && !directory.unseen.hides("principalInArm", principalId);
  if (!known && !directory.groups.has(principalId)) {
    const message = `Principal ${principalId.replaceAll("-", "")} does not exist in the directory ${directory.tenantId}. Check that you have the correct principal ID. If you are creating this principal and then immediately assigning a role, this error might be related to a replication delay. In this case, set the role assignment principalType property to a value, such as ServicePrincipal, User, or Group. See https://aka.ms/docs-principaltype`;
    throw bad("PrincipalNotFound", message);
  }
  const type = known ? "ServicePrincipal" : "Group";
  if (principalType !== undefined && principalType !== type) {
    const message = `The PrincipalId '${principalId}' has type '${type}', which is different from specified PrincipalType '${principalType}'.`;
    throw bad("UnmatchedPrincipalType", message);
  }
  const assignment = subscription.assign({ name, scope, principalId, definition });
  directory.unseen.hide("assignment", assignment.id.toLowerCase());
  return { status: 201, body: showAssignment(call, assignment) };
}

function readBody({ headers, body }: Received): z.infer<typeof Body>["properties"] {
  if (!/^application\/json(; ?charset=utf-8)?$/i.test(headers["content-type"] ?? "")) {
    throw new ArmError(415, "UnsupportedMediaType", "The content media type must be application/json.");
  }
  try {
    return Body.parse(parseObject(body)).properties;
  } catch (problem) {
    if (!(problem instanceof z.ZodError) && !(problem instanceof VaultError)) throw problem;
    throw bad(
      "InvalidRequestContent",
      `The request content was invalid and could not be deserialized: ${problem.message}`,
    );
  }
}

function definitionNamed({ subscription, scope }: Call, name: string, status: number): RoleDefinition {
  const found = subscription.definitions.find((definition) => definition.name === name);
  if (found === undefined || (scope === "" && found.custom)) {
    const message = `The specified role definition with ID '${name}' does not exist.`;
    throw new ArmError(status, "RoleDefinitionDoesNotExist", message);
  }
  return found;
}

function readFilter(query: URLSearchParams, fields: string[]): { field: string; text: string } | null {
  const filter = query.get("$filter");
  if (filter === null) return null;
  const equality = readEquality(filter);
  if (equality === null || !fields.includes(equality.field)) {
    throw bad("InvalidFilter", `The filter '${filter}' is not one of this double's.`);
  }
  return equality;
}

function list<T>(
  { directory, query, base, request }: Call,
  all: readonly T[],
  { wanted, show }: { wanted: (one: T) => boolean; show: (one: T) => unknown },
) {
  const size = directory.options.pageSize ?? 100;
  const page = pageOf(all, { size, token: query.get("$skiptoken"), wanted });
  if (page === null) throw bad("InvalidSkipToken", "The skip token is not valid.");
  const following = new URLSearchParams(query);
  if (page.next !== null) following.set("$skiptoken", page.next);
  const nextLink = `${base}${request.target.split("?")[0]}?${following}`;
  return { value: page.items.map(show), ...(page.next !== null && { nextLink }) };
}

const assignmentId = ({ scope, name }: Call) => `${scope}/providers/Microsoft.Authorization/roleAssignments/${name}`;

function showDefinition({ subscription, scope }: Call, definition: RoleDefinition) {
  const { name, roleName, custom, actions, notActions, assignableScopes } = definition;
  const id =
    scope === "" ? `/providers/Microsoft.Authorization/roleDefinitions/${name}` : subscription.definitionId(definition);
  const permissions = [{ actions, notActions, dataActions: [], notDataActions: [] }];
  return {
    id,
    name,
    type: "Microsoft.Authorization/roleDefinitions",
    properties: {
      roleName,
      type: custom ? "CustomRole" : "BuiltInRole",
      description: "",
      assignableScopes,
      permissions,
    },
  };
}

function showAssignment({ subscription, directory }: Call, assignment: Assignment) {
  const { id, name, scope, definition, principalId, created } = assignment;
  const principalType = directory.groups.has(principalId) ? "Group" : "ServicePrincipal";
  const roleDefinitionId = subscription.definitionId({ name: definition });
  return {
    id,
    name,
    type: "Microsoft.Authorization/roleAssignments",
    properties: { roleDefinitionId, principalId, principalType, scope, condition: null, createdOn: timeOf(created) },
  };
}
