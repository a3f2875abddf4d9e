import type { OperationName } from "./azure-types.ts";
import { bodies, denied, GraphCall, notFound } from "./graph-call.ts";
import {
  type Application,
  bad,
  type DirectoryState,
  GraphError,
  type Group,
  type Password,
  type Principal,
  timeOf,
  viewPassword,
} from "./graph-state.ts";
import type { Answer, Claims, Received } from "./login.ts";

type Done = { status: number; body?: unknown };

interface Route {
  method: string;
  /** Every segment `*` is an id. */
  path: string;
  perform(call: GraphCall): Done;
}

const on = (method: string, path: string, perform: Route["perform"]): Route => ({ method, path, perform });
const ok = (body: unknown): Done => ({ status: 200, body });
const created = (body: unknown): Done => ({ status: 201, body });
const nothing: Done = { status: 204 };

const readers = ["Application.ReadWrite.All", "Application.Read.All", "Directory.Read.All"];
const writers = ["Application.ReadWrite.All", "Application.ReadWrite.OwnedBy"];
const groupReaders = [
  "GroupMember.ReadWrite.All",
  "GroupMember.Read.All",
  "Group.ReadWrite.All",
  "Group.Read.All",
  "Directory.Read.All",
];
const memberWriters = ["GroupMember.ReadWrite.All", "Group.ReadWrite.All"];

const routes: Partial<Record<OperationName, Route>> = {
  ListApplications: on("GET", "applications", (call) => {
    call.require(...readers, ...writers);
    const seen = live(call.state.applications).filter(({ id }) => !call.state.unseen.hides("application", id));
    return ok(call.list(seen.map(showApplication), ["appId", "displayName"]));
  }),
  CreateApplication: on("POST", "applications", (call) => {
    call.require(...writers);
    const { tags, signInAudience, displayName } = call.body(bodies.application);
    const given = { displayName, ...(tags && { tags }), ...(signInAudience && { signInAudience }) };
    return created(showApplication(call.state.createApplication(given, call.caller)));
  }),
  GetApplication: on("GET", "applications/*", (call) => {
    call.require(...readers, ...writers);
    call.options("$select");
    const application = call.application();
    if (!readers.some((permission) => call.has(permission))) call.requireOwner(application);
    return ok(call.selected(showApplication(application)));
  }),
  UpdateApplication: on("PATCH", "applications/*", (call) => {
    Object.assign(owned(call, call.application), definedOnly(call.body(bodies.changedApplication)));
    return nothing;
  }),
  DeleteApplication: on("DELETE", "applications/*", (call) => {
    call.state.deleteApplication(owned(call, call.application));
    return nothing;
  }),
  AddApplicationPassword: on("POST", "applications/*/addPassword", (call) =>
    addPassword(call, owned(call, call.application)),
  ),
  RemoveApplicationPassword: on("POST", "applications/*/removePassword", (call) =>
    removePassword(call, owned(call, call.application)),
  ),
  ListServicePrincipals: on("GET", "servicePrincipals", (call) => {
    call.require(...readers, ...writers);
    const seen = live(call.state.principals).filter(({ id }) => !call.state.unseen.hides("principal", id));
    return ok(call.list(seen.map(showPrincipal), ["appId", "displayName"]));
  }),
  CreateServicePrincipal: on("POST", "servicePrincipals", createPrincipal),
  GetServicePrincipal: on("GET", "servicePrincipals/*", (call) => {
    call.require(...readers, ...writers);
    call.options("$select");
    const principal = call.principal();
    if (!readers.some((permission) => call.has(permission))) call.requireOwner(principal);
    return ok(call.selected(showPrincipal(principal)));
  }),
  DeleteServicePrincipal: on("DELETE", "servicePrincipals/*", (call) => {
    call.state.deletePrincipal(owned(call, call.principal));
    return nothing;
  }),
  AddServicePrincipalPassword: on("POST", "servicePrincipals/*/addPassword", (call) =>
    addPassword(call, owned(call, call.principal)),
  ),
  RemoveServicePrincipalPassword: on("POST", "servicePrincipals/*/removePassword", (call) =>
    removePassword(call, owned(call, call.principal)),
  ),
  ListDeletedApplications: on("GET", "directory/deletedItems/microsoft.graph.application", (call) => {
    call.require(...readers, ...writers);
    const seen = [...call.state.applications.values()].filter(
      ({ id, deleted }) => deleted && !call.state.unseen.hides("deletedItem", id),
    );
    return ok(call.list(seen.map(showApplication), ["appId", "displayName"]));
  }),
  GetDeletedItem: on("GET", "directory/deletedItems/*", (call) => {
    call.require(...readers, ...writers);
    const { id, appId, displayName } = owned(call, call.deletedItem);
    return ok({ id, appId, displayName });
  }),
  DeleteDeletedItem: on("DELETE", "directory/deletedItems/*", (call) => {
    call.state.deletePermanently(owned(call, call.deletedItem));
    return nothing;
  }),
  ListGroups: on("GET", "groups", (call) => {
    call.require(...groupReaders);
    return ok(call.list([...call.state.groups.values()].map(showGroup), ["displayName"]));
  }),
  GetGroup: on("GET", "groups/*", (call) => {
    call.require(...groupReaders);
    call.options("$select");
    return ok(call.selected(showGroup(call.group())));
  }),
  ListGroupMembers: on("GET", "groups/*/members", (call) => {
    call.require(...groupReaders);
    return ok(
      call.list(
        [...call.group().members].map((id) => ({ "@odata.type": principalType, id })),
        [],
      ),
    );
  }),
  AddGroupMember: on("POST", "groups/*/members/$ref", addMember),
  RemoveGroupMember: on("DELETE", "groups/*/members/*/$ref", (call) => {
    call.require(...memberWriters);
    call.noBody();
    const [, id = ""] = call.ids;
    if (!call.group().members.delete(id)) throw notFound(id);
    return nothing;
  }),
};

const principalType = "#microsoft.graph.servicePrincipal";

/** Which operation a request is; null for none. */
export function graphOperation({ method, target }: Received): { operation: OperationName; ids: string[] } | null {
  const path = decodeURIComponent(target.split("?")[0] ?? "").split("/");
  if (path.shift() !== "" || path.shift() !== "v1.0") return null;
  for (const [operation, route] of Object.entries(routes)) {
    const pattern = route.path.split("/");
    const fits = pattern.length === path.length && pattern.every((part, at) => part === "*" || part === path[at]);
    if (!fits || route.method !== method) continue;
    const ids = path.filter((_, at) => pattern[at] === "*");
    return { operation: operation as OperationName, ids };
  }
  return null;
}

/** Performs a request whose token has been checked. Throws `GraphError`. */
export function performGraph(
  state: DirectoryState,
  { request, claims, bases }: { request: Received; claims: Claims; bases: readonly [string, ...string[]] },
): Answer {
  const found = graphOperation(request);
  const route = found === null ? undefined : routes[found.operation];
  if (found === null || route === undefined) {
    throw new GraphError(400, "BadRequest", "Resource not found for the segment, or the method is not allowed.");
  }
  const call = new GraphCall(state, claims, request, { ids: found.ids, bases });
  if (!found.operation.startsWith("List") && route.method !== "GET") call.options();
  if (route.method === "GET" || route.method === "DELETE") call.noBody();
  return route.perform(call);
}

export function graphError({ status, code, message }: Pick<GraphError, "status" | "code" | "message">): Answer {
  const id = crypto.randomUUID();
  const innerError = { date: new Date().toISOString().slice(0, 19), "request-id": id, "client-request-id": id };
  return { status, body: { error: { code, message, innerError } }, headers: { "request-id": id }, errorType: code };
}

/** The object named by the path, if the caller may change it. */
function owned<T extends Application | Principal>(call: GraphCall, find: () => T): T {
  call.require(...writers);
  const found = find.call(call);
  call.requireOwner(found);
  return found;
}

function createPrincipal(call: GraphCall): Done {
  call.require(...writers);
  const appId = call.body(bodies.principal).appId.toLowerCase();
  const application = call.state.applicationOf(appId);
  if (application === undefined || call.state.unseen.hides("application", application.id)) {
    // The narrower permission is checked against the application, so it fails first.
    if (!call.has("Application.ReadWrite.All")) {
      const message =
        "When using this permission, the backing application of the service principal being created must in the local tenant";
      throw new GraphError(403, "Authorization_RequestDenied", message);
    }
    const message = `The appId '${appId}' of the service principal does not reference a valid application object.`;
    throw new GraphError(400, "NoBackingApplicationObject", message);
  }
  call.requireOwner(application);
  return created(showPrincipal(call.state.createPrincipal(application, call.caller)));
}

function addPassword(call: GraphCall, client: Application | Principal): Done {
  const { passwordCredential: given = {} } = call.body(bodies.newPassword);
  const { displayName, startDateTime: start, endDateTime: end } = given;
  const password = call.state.addPassword(client, { displayName, start, end });
  return ok({ "@odata.context": "#microsoft.graph.passwordCredential", ...showPassword(password, true) });
}

function removePassword(call: GraphCall, client: Application | Principal): Done {
  call.state.removePassword(client, call.body(bodies.keyId).keyId);
  return nothing;
}

function addMember(call: GraphCall): Done {
  call.require(...memberWriters);
  const reference = call.body(bodies.reference)["@odata.id"];
  const base = call.bases.find((one) => reference.startsWith(`${one}/v1.0/`));
  const path = /^(directoryObjects|servicePrincipals)\/([\da-f-]{36})$/i.exec(
    reference.slice((base ?? "").length + "/v1.0/".length),
  );
  if (base === undefined || path === null) throw bad("Invalid URL format specified in @odata.id property.");
  const group = call.group();
  if (group.dynamic) throw denied();
  const id = path[2]?.toLowerCase() ?? "";
  if (call.state.applications.get(id)) {
    const what = `The reference target 'Application_${id}' of type 'Application'`;
    throw bad(`${what} is invalid for the 'members' reference.`);
  }
  call.principal(id);
  if (group.members.has(id)) {
    throw bad("One or more added object references already exist for the following modified properties: 'members'.");
  }
  group.members.add(id);
  return nothing;
}

const live = <T extends { deleted: boolean }>(all: Map<string, T>): T[] =>
  [...all.values()].filter((one) => !one.deleted);

const definedOnly = <T extends object>(given: T) =>
  Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));

const showApplication = (application: Application) => ({
  ...showClient(application),
  tags: application.tags,
  signInAudience: application.signInAudience,
  keyCredentials: [],
});

const showPrincipal = (principal: Principal) => ({
  ...showClient(principal),
  accountEnabled: principal.enabled,
  servicePrincipalType: "Application",
  tags: [],
});

const showClient = ({ id, appId, displayName, passwords, created, deleted }: Application | Principal) => ({
  id,
  appId,
  displayName,
  createdDateTime: timeOf(created),
  deletedDateTime: deleted ? timeOf(created) : null,
  passwordCredentials: passwords.map((password) => showPassword(password, false)),
});

const showGroup = ({ id, displayName, dynamic }: Group) => ({
  id,
  displayName,
  securityEnabled: true,
  mailEnabled: false,
  groupTypes: dynamic ? ["DynamicMembership"] : [],
});

/** The secret itself is shown once, by the operation that makes it. */
const showPassword = (password: Password, whole: boolean) => ({
  ...viewPassword(password),
  customKeyIdentifier: null,
  hint: password.secretText.slice(0, 3),
  secretText: whole ? password.secretText : null,
});
