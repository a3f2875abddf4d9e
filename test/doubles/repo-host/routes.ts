import { randomBytes } from "node:crypto";
import { type Actor, asApp, asBearer, mustHave, reaches } from "./auth.ts";
import {
  ApiError,
  findRepository,
  iso,
  limits,
  type Others,
  openBox,
  otherApplications,
  type Permissions,
  type Repository,
  type Secret,
  type State,
  type Vault,
} from "./state.ts";
import { variableRoute } from "./variables.ts";

export interface Answer {
  status: number;
  body: unknown;
  headers?: Record<string, string>;
}

export interface Call {
  actor: Actor;
  query: URLSearchParams;
  body: unknown;
  now: number;
}

/** `look`: to read a place's public key. */
export type Access = "look" | "read" | "write";

/** The route of a request, found by path before authentication. */
export interface Route {
  operation: string;
  /** The secret or repository it is about. */
  subject: string | null;
  perform(call: Call): Answer;
}

const parts = {
  repository: /^\/repos\/([^/]+)\/([^/]+)$/,
  secrets:
    /^(?:\/repos\/([^/]+)\/([^/]+)\/(?:(actions|dependabot|codespaces)|environments\/([^/]+))|\/orgs\/([^/]+)\/(actions|dependabot|codespaces))\/secrets(?:\/([^/]+))?$/,
  variables:
    /^(?:\/repos\/([^/]+)\/([^/]+)\/(?:actions|environments\/([^/]+))|\/orgs\/([^/]+)\/actions)\/variables(?:\/([^/]+))?$/,
  selected: /^\/orgs\/([^/]+)\/actions\/secrets\/([^/]+)\/repositories$/,
  installation: /^\/app\/installations\/([^/]+)(\/access_tokens)?$/,
};

export function routeOf(method: string, path: string): Route | null {
  if (/%(?![0-9a-f]{2})/i.test(path)) return null;
  if (method === "GET" && path === "/app") return route("getApp", null, getApp);
  const installation = parts.installation.exec(path);
  if (installation) {
    const [, id = "", tokens] = installation;
    if (method === "GET" && !tokens) return route("getInstallation", id, (call) => getInstallation(call, id));
    if (method === "POST" && tokens) return route("createInstallationToken", id, (call) => createToken(call, id));
    return null;
  }
  const repository = parts.repository.exec(path);
  if (repository && method === "GET") {
    const [, owner = "", name = ""] = repository.map(decodeURIComponent);
    return route("getRepository", `${owner}/${name}`, (call) => getRepository(call, owner, name));
  }
  const selected = parts.selected.exec(path);
  if (selected && method === "GET") {
    const [, owner = "", name = ""] = selected;
    return route("listSelectedRepositories", name, (call) => listSelected(call, owner, name));
  }
  const variables = parts.variables.exec(path);
  if (variables) {
    const [owner = "", repo = "", environment, organization, name] = decoded(variables);
    const find = (call: Call, level: Access) =>
      organization === undefined
        ? placeInRepository(call, { owner, repo, environment }, level, "actions_variables")
        : placeInOrganization(call, organization, level, "actions_variables");
    return variableRoute(method, name, organization !== undefined, find);
  }
  const secrets = parts.secrets.exec(path);
  if (!secrets) return null;
  const [owner = "", repo = "", ofRepository, environment, organization, ofOrganization, name] = decoded(secrets);
  const application = ofRepository ?? ofOrganization ?? "actions";
  const other = otherApplications.find((one) => one === application);
  const permission = other === undefined ? "secrets" : `${other}_secrets`;
  const find = (call: Call, level: Access) =>
    organization === undefined
      ? placeInRepository(call, { owner, repo, environment, other }, level, permission)
      : placeInOrganization(call, organization, level, permission, other);
  if (method === "GET" && name === undefined)
    return route("listSecrets", null, (call) => list(call, find(call, "read")));
  if (method === "GET" && name === "public-key") return route("getPublicKey", null, (call) => key(find(call, "look")));
  if (name === undefined || name === "public-key") return null;
  if (method === "GET") return route("getSecret", name, (call) => get(find(call, "read"), name, organization));
  if (method === "DELETE") return route("deleteSecret", name, (call) => remove(find(call, "write"), name));
  if (method !== "PUT") return null;
  return route("putSecret", name, (call) => put(call, find(call, "write"), name, organization !== undefined));
}

const decoded = (found: RegExpExecArray) => found.slice(1).map((part) => part && decodeURIComponent(part));

export const route = (operation: string, subject: string | null, perform: Route["perform"]): Route => ({
  operation,
  subject,
  perform,
});

export const notFound = () => new ApiError(404, "Not Found");
export const invalid = (message: string, code?: string) =>
  new ApiError(422, message, { errors: code === undefined ? [] : [{ code }] });

function getApp({ actor }: Call): Answer {
  const { appId } = asApp(actor).credentials;
  return { status: 200, body: { id: Number(appId), slug: "sync-bot", name: "Sync Bot", permissions: {}, events: [] } };
}

function installationOf(state: State, id: string) {
  const found = /^\d+$/.test(id) ? state.installations.get(Number(id)) : undefined;
  if (found === undefined) throw notFound();
  return found;
}

function getInstallation({ actor }: Call, id: string): Answer {
  const state = asApp(actor);
  const { permissions, repositories, suspended } = installationOf(state, id);
  return {
    status: 200,
    body: {
      id: Number(id),
      account: { login: state.credentials.owner, type: "Organization" },
      app_id: Number(state.credentials.appId),
      permissions,
      repository_selection: repositories === "all" ? "all" : "selected",
      suspended_at: suspended ? iso(0) : null,
    },
  };
}

/** An hour's token, with no more permissions and repositories than the installation has. */
function createToken({ actor, body, now }: Call, id: string): Answer {
  const state = asApp(actor);
  const installation = installationOf(state, id);
  if (installation.suspended) throw new ApiError(403, "This installation has been suspended");
  const given = body === null ? {} : fieldsOf(body, ["repositories", "permissions"]);
  const permissions: Permissions = { ...installation.permissions };
  if (given["permissions"] !== undefined) {
    const wanted = Object.entries({ ...(given["permissions"] as Permissions) });
    const lacking = wanted.some(([name, level]) => {
      if (level !== "read" && level !== "write") throw invalid("Invalid request.");
      return permissions[name] !== "write" && permissions[name] !== level;
    });
    if (lacking) throw invalid("The permissions requested are not granted to this installation.");
    for (const name of Object.keys(permissions)) delete permissions[name];
    Object.assign(
      permissions,
      installation.permissions["metadata"] && { metadata: "read" },
      Object.fromEntries(wanted),
    );
  }
  const names = given["repositories"];
  if (
    names !== undefined &&
    !(Array.isArray(names) && names.length > 0 && names.every((one) => typeof one === "string"))
  ) {
    throw invalid("Invalid request.");
  }
  const repositories = (names as string[] | undefined)?.map((name) => {
    const found = findRepository(state, name);
    if (found && (installation.repositories === "all" || installation.repositories.has(found.id))) return found;
    throw invalid(
      "There is at least one repository that does not exist or is not accessible to the parent installation.",
    );
  });
  const token = `ghs_${randomBytes(18).toString("hex")}`;
  const expiresAt = now + 3_600_000;
  state.tokens.set(token, {
    kind: "installation",
    permissions,
    repositories: repositories ? new Set(repositories.map((one) => one.id)) : installation.repositories,
    expiresAt,
  });
  const selection = repositories || installation.repositories !== "all" ? "selected" : "all";
  const listed = repositories?.map((one) => describe(state, one));
  const answer = { token, expires_at: iso(expiresAt), permissions, repository_selection: selection };
  return { status: 201, body: listed ? { ...answer, repositories: listed } : answer };
}

const describe = (state: State, { id, name, private: isPrivate, archived }: Repository) => ({
  id,
  name,
  full_name: `${state.credentials.owner}/${name}`,
  private: isPrivate,
  archived,
  owner: { login: state.credentials.owner, type: "Organization" },
});

/** A renamed repository is answered with a redirect to its id, one that is out of reach as if it were not there. */
function repositoryOf(call: Call, owner: string, name: string) {
  const actor = asBearer(call.actor);
  const { state } = actor;
  if (owner.toLowerCase() !== state.credentials.owner) throw notFound();
  const id = state.renamed.get(name.toLowerCase());
  if (id !== undefined && [...state.repositories.values()].some((one) => one.id === id)) {
    throw new ApiError(301, "Moved Permanently", { headers: { location: `/repositories/${id}` } });
  }
  const repository = findRepository(state, name);
  if (repository === undefined || !reaches(actor, repository)) throw notFound();
  return { actor, repository };
}

function getRepository(call: Call, owner: string, name: string): Answer {
  const { actor, repository } = repositoryOf(call, owner, name);
  const { token, state } = actor;
  const role = token.kind === "classic" ? token.role : token.kind === "installation" ? "none" : "admin";
  const rank = ["none", "read", "triage", "write", "maintain", "admin"].indexOf(role);
  const permissions = { admin: rank > 4, maintain: rank > 3, push: rank > 2, triage: rank > 1, pull: rank > 0 };
  return { status: 200, body: { ...describe(state, repository), permissions } };
}

interface Spot {
  readonly owner: string;
  readonly repo: string;
  readonly environment: string | undefined;
  readonly other?: keyof Others | undefined;
}

function placeInRepository(
  call: Call,
  { owner, repo, environment, other }: Spot,
  access: Access,
  permission: string,
): Vault {
  const { actor, repository } = repositoryOf(call, owner, repo);
  const level = access === "write" ? "write" : "read";
  const wanted: Permissions =
    environment === undefined ? { [permission]: level } : { [permission]: level, environments: level };
  // Classic tokens with read access to a public repository may read its key; other kinds need the permission.
  const open = access === "look" && !repository.private && actor.token.kind === "classic";
  if (!open) mustHave(actor, wanted, { scope: "repo" });
  if (level === "write" && repository.archived) {
    throw new ApiError(403, "Repository was archived so is read-only.");
  }
  if (other !== undefined) return repository.others[other];
  const vault = environment === undefined ? repository.vault : repository.environments.get(environment.toLowerCase());
  if (vault === undefined) throw notFound();
  return vault;
}

function placeInOrganization(
  call: Call,
  organization: string,
  access: Access,
  permission = "secrets",
  other?: keyof Others,
): Vault {
  const actor = asBearer(call.actor);
  if (organization.toLowerCase() !== actor.state.credentials.owner) throw notFound();
  mustHave(actor, { [`organization_${permission}`]: access === "write" ? "write" : "read" }, { scope: "admin:org" });
  return other === undefined ? actor.state.organization : actor.state.organizationOthers[other];
}

function key(vault: Vault): Answer {
  return {
    status: 200,
    body: { key_id: vault.keyId, key: Buffer.from(vault.key.publicKey).toString("base64") },
  };
}

const described = ({ name, createdAt, updatedAt, visibility }: Secret, organization?: string) => ({
  name,
  created_at: iso(createdAt),
  updated_at: iso(updatedAt),
  ...(visibility === undefined ? {} : { visibility }),
  ...(visibility === "selected"
    ? { selected_repositories_url: `https://api.github.com/orgs/${organization}/actions/secrets/${name}/repositories` }
    : {}),
});

/** The header of a list that has another page. */
export const linkTo = (page: number, exists: boolean): Record<string, string> =>
  exists ? { link: `<https://api.github.com/next?page=${page}>; rel="next"` } : {};

function list({ query }: Call, vault: Vault): Answer {
  const unknown = [...query.keys()].filter((name) => name !== "per_page" && name !== "page");
  if (unknown.length > 0) throw invalid("Invalid request.");
  const [size, page] = [Number(query.get("per_page") ?? 30), Number(query.get("page") ?? 1)];
  if (!(size >= 1 && size <= 100 && page >= 1)) throw invalid("Invalid request.");
  const all = [...vault.secrets.values()].sort((one, other) => (one.name < other.name ? -1 : 1));
  const secrets = all.slice((page - 1) * size, page * size).map((secret) => described(secret));
  const headers = linkTo(page + 1, page * size < all.length);
  return { status: 200, headers, body: { total_count: all.length, secrets } };
}

function secretOf(vault: Vault, name: string): Secret {
  const secret = vault.secrets.get(name.toUpperCase());
  if (secret === undefined) throw notFound();
  return secret;
}

const get = (vault: Vault, name: string, organization: string | undefined): Answer => ({
  status: 200,
  body: described(secretOf(vault, name), organization),
});

function remove(vault: Vault, name: string): Answer {
  vault.secrets.delete(secretOf(vault, name).name);
  return { status: 204, body: null };
}

function listSelected(call: Call, owner: string, name: string): Answer {
  const secret = secretOf(placeInOrganization(call, owner, "read"), name);
  if (secret.visibility !== "selected") throw new ApiError(409, "Conflict");
  const { state } = asBearer(call.actor);
  const chosen = [...state.repositories.values()].filter(({ id }) => secret.selected?.includes(id));
  const repositories = chosen.map((one) => describe(state, one));
  return { status: 200, body: { total_count: repositories.length, repositories } };
}

const base64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$/;

function put({ actor, body, now }: Call, vault: Vault, given: string, inOrganization: boolean): Answer {
  const access = inOrganization ? ["visibility", "selected_repository_ids"] : [];
  const fields = fieldsOf(body, ["encrypted_value", "key_id", ...access]);
  const name = given.toUpperCase();
  if (!/^[A-Z_][A-Z0-9_]*$/.test(name)) {
    throw invalid("Secret names can only contain alphanumeric characters ([a-z], [A-Z], [0-9]) or underscores (_).");
  }
  if (name.startsWith("GITHUB_")) throw invalid("Secret names must not start with GITHUB_.");
  const { encrypted_value: sealed, key_id: keyId } = fields;
  if (typeof sealed !== "string" || typeof keyId !== "string") throw invalid("Invalid request.", "missing_field");
  if (!base64.test(sealed)) throw invalid(`Invalid request.\n\n${sealed} does not match ${base64}.`);
  const visible = inOrganization ? accessOf(asBearer(actor).state, fields) : {};
  const value = keyId === vault.keyId ? openBox(vault, Buffer.from(sealed, "base64")) : null;
  if (value === null) throw invalid("Bad request - validation failed due to an improperly encrypted secret");
  if (Buffer.byteLength(value) > limits.valueBytes) throw invalid("Secret value is too large.");
  const known = vault.secrets.get(name);
  if (!known && vault.secrets.size >= vault.limit) throw invalid("The limit of secrets is reached.");
  vault.secrets.set(name, { name, value, createdAt: known?.createdAt ?? now, updatedAt: now, ...visible });
  return known ? { status: 204, body: null } : { status: 201, body: {} };
}

/** Ids are wanted exactly when the visibility is `selected`: the real service clears the list when they are left out. */
export function accessOf(state: State, { visibility, selected_repository_ids: ids }: Record<string, unknown>) {
  if (visibility !== "all" && visibility !== "private" && visibility !== "selected") {
    throw invalid("Invalid request.", "missing_field");
  }
  if (visibility !== "selected") {
    if (ids !== undefined) throw invalid("Invalid request.", "invalid");
    return { visibility };
  }
  const known = new Set([...state.repositories.values()].map(({ id }) => id));
  const right =
    Array.isArray(ids) && ids.length > 0 && new Set(ids).size === ids.length && ids.every((id) => known.has(id));
  if (!right) throw invalid("Invalid request.", "invalid");
  return { visibility, selected: ids as number[] };
}

export function fieldsOf(body: unknown, known: readonly string[]): Record<string, unknown> {
  if (typeof body !== "object" || body === null || Array.isArray(body))
    throw new ApiError(400, "Problems parsing JSON");
  const unknown = Object.keys(body).filter((name) => !known.includes(name));
  if (unknown.length > 0) throw invalid("Invalid request.", "unprocessable");
  return { ...body };
}
