import type { Ask, Grant } from "../access/authorize.ts";
import { authorize, forgetAnswers } from "../access/authorizer.ts";
import { type Capability, checkParameters } from "../access/path-rules.ts";
import { dialectOf, firstHeader, requestHeader } from "../compat/dialect.ts";
import { textOf, warn } from "../log.ts";
import { clusterRoutes, mountRoutes, secretsRoutes } from "../routes/table.ts";
import { areaOf, SERVICE_ROOTS } from "./areas.ts";
import { parseObject, readText } from "./body.ts";
import { denied, invalid, notFound, RequestError, refusalError } from "./errors.ts";
import { type Area, errorResponse } from "./respond.ts";
import type { AnyRoute, AuthorisedCall, Call, OpenRoute, RouteTable, SecretsRoute } from "./route.ts";
import { parseTarget, type Target, type Verb } from "./target.ts";

type Base = Omit<Call, "params" | "grant">;

const capabilityOf: Readonly<Record<Verb, Capability>> = {
  GET: "read",
  LIST: "list",
  POST: "update",
  PATCH: "patch",
  DELETE: "delete",
};

/** Answers one request: route, authorise, check the body, run the route's handler. Never throws. */
export async function handle(request: Request, env: Env, exec: ExecutionContext): Promise<Response> {
  const requestId = crypto.randomUUID();
  let area: Area = "secrets";
  try {
    const target = parseTarget(request);
    if (!target) throw new RequestError(405, "unsupported method");
    area = areaOf(target);
    const base: Base = {
      env,
      exec,
      request,
      requestId,
      dialect: dialectOf(request.headers),
      token: tokenOf(request.headers),
      query: target.query,
    };
    const response = await (area === "cluster" ? answerCluster(base, target) : answerSecrets(base, target));
    return target.head ? new Response(null, response) : response;
  } catch (failure) {
    return errorResponse(area, asRequestError(failure, requestId));
  }
}

/** The token a caller presents, by header or as a bearer; null when there is none. */
function tokenOf(headers: Headers): string | null {
  const token =
    firstHeader(headers, requestHeader.token) ?? /^Bearer\s+(\S+)\s*$/i.exec(headers.get("Authorization") ?? "")?.[1];
  return token === undefined || token === "" ? null : token;
}

function asRequestError(failure: unknown, requestId: string): RequestError {
  if (failure instanceof RequestError) return failure;
  const { retryable, overloaded } = (failure ?? {}) as { retryable?: boolean; overloaded?: boolean };
  if (overloaded || retryable) {
    return new RequestError(503, "the service is busy or restarting; try again", { "Retry-After": "1" });
  }
  warn("defect", { requestId, because: textOf(failure), stack: failure instanceof Error ? failure.stack : undefined });
  return new RequestError(500, `internal error; the operator finds it in the log under request ${requestId}`);
}

async function answerSecrets(base: Base, target: Target): Promise<Response> {
  const [root = ""] = target.path.split("/", 1);
  if (SERVICE_ROOTS.has(root)) return answerFixed(base, target, target.route, null);
  if (target.verb === "OPTIONS") return options(["GET", "LIST", "POST", "PATCH", "DELETE"]);
  const grant = await ask(base, target, target.path, freshFor(target.verb));
  if (SERVICE_ROOTS.has(grant.path.split("/", 1)[0] ?? "")) {
    return answerFixed(base, target, `/${encodePath(grant.path)}`, grant);
  }
  if (!grant.mount) {
    if (grant.capabilities.includes("deny")) throw denied();
    throw notFound(`no handler for route ${JSON.stringify(grant.path.slice(0, 200))}. route entry not found.`);
  }
  const table = mountRoutes[grant.mount.type];
  const relative = `/${encodePath(grant.path.slice(grant.mount.path.length))}`;
  const found = await table.match(target.verb, relative);
  if (!found) throw unmatched(table, relative, "secrets", target);
  return run(base, target, found.route, found.params, grant);
}

/** Reads must see a revocation at once; a write may use an answer of the last two seconds. */
const freshFor = (verb: Target["verb"]): boolean => verb === "GET" || verb === "LIST";

/** Routes at fixed paths, reached directly or behind a namespace that leads the path. */
async function answerFixed(base: Base, target: Target, route: string, grant: Grant | null): Promise<Response> {
  if (target.verb === "OPTIONS") return options(secretsRoutes.verbs(route));
  const found = await secretsRoutes.match(target.verb, route);
  if (!found) throw unmatched(secretsRoutes, route, "secrets", target);
  if (found.route.access === "none") return run(base, target, found.route, found.params, null);
  const granted = grant ?? (await ask(base, target, target.path, found.route.fresh === true));
  return run(base, target, found.route, found.params, granted);
}

async function answerCluster(base: Base, target: Target): Promise<Response> {
  if (target.verb === "OPTIONS") return options(clusterRoutes.verbs(target.route));
  // Lists of areas C and D are plain GETs; `list=true` means nothing there.
  const verb = target.verb === "LIST" ? "GET" : target.verb;
  const found = await clusterRoutes.match(verb, target.route);
  if (!found) throw unmatched(clusterRoutes, target.route, "cluster", target);
  const { route, params } = found;
  if ("access" in route) return run(base, target, route, params, null);
  const grant = granted(
    await authorize(base.env, { token: base.token, namespace: "", path: null }, route.fresh === true),
  );
  const call: AuthorisedCall = { ...base, params, grant };
  const allowed =
    route.rights === "any" ||
    (route.rights === "management" ? grant.cluster.management : route.rights(grant.cluster, call));
  if (!allowed) throw denied();
  const response = await route.handle(call, await bodyOf(route, base.request));
  if (route.fresh && verb !== "GET") forgetAnswers();
  return response;
}

async function ask(base: Base, target: Target, path: string, fresh: boolean): Promise<Grant> {
  const namespace = firstHeader(base.request.headers, requestHeader.namespace) ?? "";
  const question: Ask = { token: base.token, namespace, path, list: target.verb === "LIST" };
  return granted(await authorize(base.env, question, fresh));
}

function granted(answer: Awaited<ReturnType<typeof authorize>>): Grant {
  if (!answer.ok) throw refusalError(answer);
  return answer;
}

async function run(
  base: Base,
  target: Target,
  route: SecretsRoute | OpenRoute,
  params: Record<string, string>,
  grant: Grant | null,
): Promise<Response> {
  if (route.access === "none") return route.handle({ ...base, params, grant }, await bodyOf(route, base.request));
  if (!grant) throw denied();
  checkRight(route, grant);
  const call: AuthorisedCall = { ...base, params, grant };
  const response = await route.handle(call, await bodyOf(route, base.request, grant));
  if (route.fresh && target.verb !== "GET" && target.verb !== "LIST") forgetAnswers();
  return response;
}

function checkRight(route: SecretsRoute, { capabilities }: Grant): void {
  const has = (capability: Capability) => capabilities.includes("root") || capabilities.includes(capability);
  const access = route.access ?? "path";
  if (access === "token") return;
  if (access === "sudo" && !has("sudo")) throw denied("permission denied: needs sudo");
  if (!has(capabilityOf[route.verb]) && !(route.creates && has("create"))) throw denied();
}

async function bodyOf(route: AnyRoute, request: Request, grant?: Grant): Promise<unknown> {
  const text = route.body || route.verb !== "GET" ? await readText(request) : "";
  if (!route.body) return undefined;
  if (route.verb === "PATCH") checkPatchType(request);
  const body = parseObject(text);
  if (grant?.constraints) {
    const checked = checkParameters(grant.constraints, body);
    if (!checked.ok) throw denied(`permission denied: ${checked.message}`);
  }
  const parsed = route.body.safeParse(body);
  if (!parsed.success) throw invalid(parsed.error);
  return parsed.data;
}

const MERGE_PATCH = "application/merge-patch+json";

function checkPatchType(request: Request): void {
  const type = request.headers.get("content-type")?.split(";", 1)[0]?.trim().toLowerCase();
  if (!type) throw new RequestError(400, `PATCH requires Content-Type of ${MERGE_PATCH}`);
  if (type !== MERGE_PATCH && type !== "application/json") {
    throw new RequestError(415, `PATCH requires Content-Type of ${MERGE_PATCH}, provided ${type.slice(0, 100)}`);
  }
}

/** Why nothing matched: the path is unknown, or it does not know the verb. */
function unmatched(
  table: RouteTable<{ verb: Verb; path: string }>,
  route: string,
  area: Area,
  target: Target,
): RequestError {
  const verbs = table.verbs(route);
  if (verbs.length > 0) {
    return new RequestError(405, area === "cluster" ? "Invalid method" : "unsupported operation", {
      Allow: allow(verbs),
    });
  }
  if (area === "cluster") return notFound("not found: no such path");
  return notFound(`no handler for route ${JSON.stringify(target.path.slice(0, 200))}. route entry not found.`);
}

const allow = (verbs: readonly Verb[]): string =>
  [...new Set(verbs.flatMap((verb) => (verb === "GET" ? ["GET", "HEAD"] : verb === "POST" ? ["POST", "PUT"] : [verb])))]
    .concat("OPTIONS")
    .join(", ");

function options(verbs: readonly Verb[]): Response {
  if (verbs.length === 0) throw notFound();
  return new Response(null, { status: 204, headers: { Allow: allow(verbs) } });
}

const encodePath = (path: string): string => path.split("/").map(encodeURIComponent).join("/");
