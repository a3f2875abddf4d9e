import {
  type Authorization,
  authorize,
  clearAuthorizeCache,
  isCoherent,
} from "../../access/authorize/authorize-cached.ts";
import { WRAPPING_POLICY_NAME } from "../../access/policies/policy-parser.ts";
import { type Dialect, dialectOf } from "../../compat/dialect.ts";
import { translateField } from "../../compat/engine-names.ts";
import { STATE_INDEX_HEADER, stateIndex } from "../../compat/state-index.ts";
import { translateMessage } from "../../compat/sync-names.ts";
import type { Grant } from "../../contracts/access-control.ts";
import type { AuthMount } from "../../contracts/auth.ts";
import type { Capability } from "../../contracts/policies.ts";
import { namespaceOf, tokenOf } from "../../platform/http/caller.ts";
import { diskRefusal } from "../../platform/http/disk.ts";
import { asRequestError, badRequest, denied, RequestError, refusalError, unwrap } from "../../platform/http/errors.ts";
import {
  type Answered,
  beginExchange,
  type Exchange,
  endExchange,
  namespaceNamed,
  recordTarget,
} from "../../platform/http/exchange.ts";
import { options, unmatched } from "../../platform/http/methods.ts";
import { type HeaderReader, RequestHeaders } from "../../platform/http/request-headers.ts";
import { decodePath, encodePath, parseTarget, type Target, type Verb } from "../../platform/http/target.ts";
import { ignored } from "../../platform/http/unknown-fields.ts";
import { readUnreadBody } from "../../platform/http/unread-body.ts";
import { admit, admitUnauthenticated, countRefusal } from "../../platform/limits/caller-limits.ts";
import { rateHeaders } from "../../platform/limits/rate-headers.ts";
import { auditAnswer, auditRequest } from "../../platform/observability/audit/requests.ts";
import { textOf, warn } from "../../platform/observability/log.ts";
import { measureAnswer } from "../../platform/observability/metrics/requests.ts";
import { traceAnswer, traced } from "../../platform/observability/otlp/spans.ts";
import { locationNamed, PLACE_HEADER, REPLICA_HEADER } from "../../platform/place.ts";
import { routesOf } from "../../rights/mount-routes.ts";
import { listLimit } from "../../rights/path-rules.ts";
import { accessControl } from "../../rpc/stubs.ts";
import { EarlyBody, parseBody, receiveBody } from "./body.ts";
import { allowOrigin, type CrossOrigin, crossOrigin, preflight } from "./cors.ts";
import {
  authPlace,
  isSystemPath,
  LEADS_TO_AUTH,
  MAY_BE_SYSTEM,
  PLACE_DEFAULTS,
  type Place,
  PUBLIC_IN_NAMESPACE,
  systemPlace,
} from "./place.ts";
import { parseQuery } from "./query.ts";
import { errorResponse, withWarnings } from "./respond.ts";
import { type AuthorisedCall, type Call, type ClusterRoute, capabilityOf, isOpen, type SecretsRoute } from "./route.ts";
import type { Routes } from "./route-tables.ts";
import { discard, headOf } from "./unsent.ts";
import { mayWrap, requestedWrapTtl, wrapAnswer, wrapsAt } from "./wrap-answer.ts";

type Base = Omit<Call, "params" | "grant" | "authMount" | "identify"> & {
  readonly routes: Routes;
  readonly exchange: Exchange;
  readonly headers: HeaderReader;
};

/** A call of a route that needs a token, with the newest grant. */
type Judged = AuthorisedCall & { grant: Grant; mount: Grant["mount"]; asked?: unknown };

/** Observers of every answered request. They must be fast: the caller waits for them. */
const LISTENERS: readonly (readonly [
  name: string,
  listener: (exchange: Answered, env: Env, exec: ExecutionContext) => void,
])[] = [
  ["auditAnswer", auditAnswer],
  ["countRefusal", countRefusal],
  ["measureAnswer", measureAnswer],
  ["traceAnswer", traceAnswer],
];

/** Handles one request. Never throws. @param url of the request, parsed */
export type Handler = (request: Request, env: Env, exec: ExecutionContext, url?: URL) => Promise<Response>;

/** The handler of requests to these routes. */
export const handlerOf =
  (routes: Routes): Handler =>
  (request, env, exec, url = new URL(request.url)) => {
    const answering = traced(request.headers, env, () => respond({ routes, request, env, exec }, url));
    // Otherwise a disconnecting caller would abort the request halfway, without audit line or metrics.
    exec.waitUntil(answering);
    return answering;
  };

async function respond(received: Pick<Base, "routes" | "request" | "env" | "exec">, url: URL): Promise<Response> {
  const { request, env, exec } = received;
  const { method } = request;
  const headers = new RequestHeaders(request.headers);
  const token = tokenOf(headers);
  const exchange = beginExchange({ method, headers }, url, token, env);
  const { requestId, area } = exchange;
  let response: Response;
  let cross: CrossOrigin | null = null;
  try {
    await admit(exchange, env);
    cross = await crossOrigin(headers, url, env);
    const early = cross && preflight(request, cross);
    response = early ?? (await answer({ ...received, headers, requestId, token }, url, exchange));
  } catch (failure) {
    response = errorResponse(area, (await diskRefusal(failure, env)) ?? asRequestError(failure, requestId));
  }
  if (cross && response.webSocket === null) allowOrigin(response.headers, cross);
  if (exchange.rate) {
    for (const [name, value] of Object.entries(rateHeaders(exchange.rate))) response.headers.set(name, value);
  }
  if (exchange.replica !== null && response.webSocket === null) response.headers.set(REPLICA_HEADER, exchange.replica);
  if (area === "secrets" && response.status < 400 && response.webSocket === null)
    response.headers.set(STATE_INDEX_HEADER, stateIndex(Date.now()));
  // Browsers must not guess the content type.
  if (response.webSocket === null) response.headers.set("X-Content-Type-Options", "nosniff");
  report(endExchange(exchange, response), env, exec);
  if (response.status >= 400) await readUnreadBody(request);
  return method === "HEAD" ? headOf(response) : response;
}

function report(answered: Answered, env: Env, exec: ExecutionContext): void {
  for (const [name, listener] of LISTENERS) {
    try {
      listener(answered, env, exec);
    } catch (failure) {
      warn("listener-failed", { listener: name, because: textOf(failure) });
    }
  }
}

/** Routes, authorizes, reads the body and runs the route's handler. */
async function answer(
  incoming: Pick<Base, "routes" | "request" | "headers" | "env" | "exec" | "requestId" | "token">,
  url: URL,
  exchange: Exchange,
): Promise<Response> {
  const { headers } = incoming;
  const { area, method } = exchange;
  const target = parseTarget({ method, headers }, url, area);
  const { query } = target;
  const wraps = area === "secrets" && mayWrap(target.path) && (await wrapsAt(incoming.env, headers, target.path));
  const wrapTtl = area === "secrets" ? requestedWrapTtl(headers, wraps) : 0;
  const base: Base = { ...incoming, exchange, dialect: dialectOf(headers), query, wrapTtl };
  if (area === "cluster") exchange.namespace = namespaceNamed(query);
  if (target.verb === "OPTIONS") return options(verbsAt(base, target));

  const place = await placeOf(base, target);
  if (target.verb === "HELP") return help(base, place, target);
  const dialect = place.upstream ? "upstream" : base.dialect;
  const isScan = target.verb === "SCAN";
  const found = place.table.match(isScan ? "LIST" : target.verb, place.path);
  if (!found || (isScan && !("scans" in found.route))) throw await unmatchedAt(base, target, place);
  const { route, params } = found;
  const { authMount } = place;
  if (authMount) recordAuthMount(exchange, authMount);
  exchange.route = `${route.verb} ${place.root}${route.path}`;
  const early = place.early ?? (route.streams ? null : EarlyBody.begin(base.request, headers));
  if (isOpen(route, base.token)) {
    const handle = route.access === "none" ? route.handle : route.withoutToken;
    await admitUnauthenticated(exchange, base.env);
    if (place.counted && authMount) await countLogin(base, authMount, place.path);
    await auditRequest(base);
    const call = {
      ...base,
      dialect,
      params,
      grant: null,
      authMount,
      identify: () => authorizeCall(base, target, { fresh: true }),
    };
    const { text, release } = await receiveBody(route, call, early);
    try {
      const { body, unknown } = parseBody(route, call, text, area, null);
      const asked = route.query && parseQuery(route.query, call.query);
      const given = asked === undefined ? call : { ...call, asked };
      const answered = await withWarnings(call, await handle(given, body), ignored(unknown));
      return route.unwrapped ? answered : await wrapAnswer(call, target.path, answered);
    } finally {
      release();
      // A login may change the metadata and the groups of its entity, and thereby the rights of its other tokens.
      if (authMount) clearAuthorizeCache();
    }
  }
  const mayBeStale = route.fresh !== undefined && place.cached;
  const { fresh, self } = route;
  // A policy may grant something in the cluster API without a token, and nothing in the secrets API.
  if (base.token === null && area === "cluster") await admitUnauthenticated(exchange, base.env);
  const grant = (mayBeStale ? null : place.grant) ?? (await authorizeCall(base, target, { fresh, self }));
  if (base.token === null && area === "secrets") throw denied();
  let judgedAt = Date.now();
  if (authMount) recordAuthMount(exchange, authMount);
  const call: Judged = {
    ...base,
    token: base.token ?? "",
    dialect,
    params,
    grant,
    mount: grant.mount,
    authMount,
    query: LISTS.has(target.verb) ? listQuery(base.query, grant.constraints) : base.query,
    scan: isScan,
    identify: async () => call.grant,
    recheck: async () => {
      await recheck(base, call, target, route);
      judgedAt = Date.now();
    },
  };
  const recheckLater = async () => {
    if (Date.now() - judgedAt > MOMENT_MS) await call.recheck();
  };
  checkRight(route, call);
  await auditRequest(base);
  const { text, release } = await receiveBody(route, call, early);
  try {
    await recheckLater();
    const { body, unknown } = parseBody(route, call, text, area, call.grant.constraints);
    if (route.query) call.asked = parseQuery(route.query, call.query);
    const answered = await withWarnings(call, await route.handle(call, body), ignored(unknown));
    // A read is answered only to a token that may still read; the effect of a write is answered in any case.
    // The read of a wrapped answer has ended its token.
    if (READS.has(target.verb) && !call.grant.identity.policies.includes(WRAPPING_POLICY_NAME)) {
      await recheckLater().catch((failure: unknown) => {
        discard(answered);
        throw failure;
      });
    }
    return route.unwrapped ? answered : await wrapAnswer(call, wrappedPath(target, call.grant.path), answered);
  } catch (failure) {
    throw inDialect(failure, dialect);
  } finally {
    release();
    if (route.fresh && !READS.has(target.verb)) clearAuthorizeCache();
  }
}

/**
 * Longest time for which a judgement stands until its request is carried out. An ordinary request arrives at once, with
 * its body; what takes longer is judged again.
 */
const MOMENT_MS = 2;

/** Counts a login against the quotas. @throws RequestError 429 */
async function countLogin({ env, exchange }: Base, mount: AuthMount, path: string): Promise<void> {
  const request = {
    namespace: mount.namespace,
    path: `auth/${mount.path}${decodePath(path.slice(1))}`,
    address: exchange.address,
  };
  exchange.rate = unwrap(await accessControl(env).countRequest(request));
}

/** Help on a path. On one of the service it is public, as the API's document is; in a mount it needs a right. */
async function help(base: Base, place: Place, target: Target): Promise<Response> {
  const { grant } = place;
  if (grant === null) await admitUnauthenticated(base.exchange, base.env);
  else if (grant.capabilities.includes("deny")) throw denied();
  await auditRequest(base);
  const found = await base.routes.help(base, place);
  if (!found) throw unmatched("secrets", target.path, []);
  return found;
}

/** Logins have no token, and so no namespace of a token. */
function recordAuthMount(exchange: Exchange, { namespace, path }: AuthMount): void {
  exchange.namespace = namespace;
  exchange.mount = `auth/${path}`;
}

async function placeOf(base: Base, target: Target): Promise<Place> {
  const { area } = base.exchange;
  const { tables } = base.routes;
  if (area === "cluster") {
    return { ...PLACE_DEFAULTS, table: tables.cluster, path: target.route };
  }
  if (LEADS_TO_AUTH.test(target.path)) {
    const at = await accessControl(base.env).locateAuth(namespaceOf(base.headers), target.path);
    if (at) return authPlace(tables, at);
  }
  if (isSystemPath(target.path)) return systemPlace(tables, target.route.slice(1), null);
  // Verifiers of identity tokens and holders of wrapped answers may learn which namespaces exist.
  if (PUBLIC_IN_NAMESPACE.test(target.path)) {
    const at = await accessControl(base.env).locate(namespaceOf(base.headers), target.path);
    if (at.ok && isSystemPath(at.value.path)) return systemPlace(tables, encodePath(at.value.path), null);
  }
  // A mount, or a namespace prefix before a system path: only `AccessControl` can distinguish them.
  const maybeSystem = MAY_BE_SYSTEM.test(target.path);
  const fresh = READS.has(target.verb) || maybeSystem;
  // No route of a mount reads its body as a stream.
  const early = maybeSystem ? null : EarlyBody.begin(base.request, base.headers);
  const grant = await authorizeCall(base, target, { fresh });
  if (isSystemPath(grant.path)) return { ...systemPlace(tables, encodePath(grant.path), grant), early };
  if (grant.mount) {
    const relative = `/${encodePath(grant.path.slice(grant.mount.path.length))}`;
    // A grant that counts uses is never cached, and a second authorization would count twice.
    const cached = !fresh && grant.cacheable && !isCoherent(base.env);
    const routes = routesOf(grant.mount);
    const table = tables.mounts(routes);
    return { ...PLACE_DEFAULTS, table, path: relative, root: `/v1/{${routes}}`, grant, cached, early };
  }
  if (!mayAsk(target.verb, grant)) throw denied();
  throw unmatched(area, grant.path, []);
}

/** Reads must see a revocation immediately; a write may use a cached grant, unless its route sets `fresh`. */
const READS: ReadonlySet<Target["verb"]> = new Set(["GET", "LIST", "SCAN"]);
const CHANGES: ReadonlySet<Target["verb"]> = new Set(["POST", "PATCH", "DELETE"]);
/** The path that a wrapping token shows; a list has a slash at its end. */
const wrappedPath = ({ verb }: Target, path: string): string => (LISTS.has(verb) ? path.replace(/\/*$/, "/") : path);

const LISTS: ReadonlySet<Target["verb"]> = new Set(["LIST", "SCAN"]);

/** How a request is judged: see `Authorization` and `AuthorizeRequest`. */
interface Judging {
  readonly fresh?: Authorization["fresh"] | undefined;
  readonly self?: boolean | undefined;
  readonly again?: boolean;
}

async function authorizeCall(
  { env, request, token, headers, exchange, wrapTtl }: Base,
  target: Target,
  { fresh = false, self = false, again = false }: Judging,
): Promise<Grant> {
  const question =
    exchange.area === "cluster"
      ? { token, namespace: "", path: null, address: exchange.address, again }
      : {
          token,
          namespace: namespaceOf(headers),
          path: target.path,
          list: LISTS.has(target.verb),
          wrapTtl,
          address: exchange.address,
          self,
          again,
        };
  const version = exchange.area === "secrets" && target.verb === "GET" ? versionIn(request.url) : null;
  const changes = exchange.area === "secrets" && CHANGES.has(target.verb);
  const named = headers.get(PLACE_HEADER);
  const location = named === null ? request.cf : locationNamed(named);
  if (named !== null && location === null) throw badRequest(`${PLACE_HEADER}: unknown place`);
  const answer = await authorize(env, { ask: question, fresh, location, version, changes });
  if (!answer.ok) throw refusalError(answer);
  if (named !== null) exchange.replica = answer.replica ?? null;
  exchange.rate = answer.rate ?? exchange.rate;
  recordTarget(exchange, answer);
  return answer;
}

/**
 * The version that a read of a secret may name, 0 = the newest. Only a guess, since the route is not known yet: a read of
 * another version asks the store.
 */
const versionIn = (url: string): number => Number(/[?&]version=(\d{1,15})(?:&|$)/.exec(url)?.[1] ?? 0);

/** @throws RequestError 403 unless the caller has the route's right */
function checkRight(route: SecretsRoute | ClusterRoute, call: AuthorisedCall): void {
  const { capabilities, cluster } = call.grant;
  if ("rights" in route) {
    const { rights } = route;
    if (rights === "any" || (rights === "management" ? cluster.management : rights(cluster, call))) return;
    throw denied();
  }
  const has = (capability: Capability) => capabilities.includes("root") || capabilities.includes(capability);
  if (route.access === "token") return;
  if (route.access === "sudo" && !has("sudo")) throw denied("permission denied: needs sudo");
  if (!has(call.scan ? "scan" : capabilityOf[route.verb]) && !(route.creates && has("create"))) throw denied();
}

/** The query of a list, with the limit of the caller's rule. @throws RequestError 403 for a limit beyond it */
function listQuery(query: URLSearchParams, constraints: Grant["constraints"]): URLSearchParams {
  if (constraints?.paginationLimit === undefined) return query;
  const given = query.get("limit");
  const allowed = listLimit(constraints, given);
  if (!allowed.ok) throw denied("permission denied: limit: more than the pagination_limit of a policy");
  if (allowed.limit === null || allowed.limit === given) return query;
  const limited = new URLSearchParams(query);
  limited.set("limit", allowed.limit);
  return limited;
}

/** @throws RequestError 403 when the right is gone, 404 when the path leads elsewhere by now */
async function recheck(base: Base, call: Judged, target: Target, route: SecretsRoute | ClusterRoute): Promise<void> {
  const { grant: before } = call;
  // Uses and quotas have counted this request.
  const grant = await authorizeCall(base, target, { fresh: route.fresh, self: route.self, again: !before.cacheable });
  const isSame = grant.namespaceId === before.namespaceId && grant.mount?.uuid === before.mount?.uuid;
  if (!isSame) throw unmatched(base.exchange.area, grant.path, []);
  call.grant = grant;
  call.mount = grant.mount;
  checkRight(route, call);
}

/** Answer to OPTIONS, unauthenticated: does not reveal mounts. */
function verbsAt({ exchange, routes: { tables } }: Base, { path, route }: Target): Verb[] {
  if (exchange.area === "cluster") return tables.cluster.verbs(route);
  return isSystemPath(path)
    ? tables.secrets.verbs(systemPlace(tables, route.slice(1), null).path)
    : ["GET", "LIST", "POST", "PATCH", "DELETE"];
}

/**
 * The refusal of a request without a route. As upstream, rights are judged first: callers without the capability of the
 * verb learn neither that a path is missing nor its verbs. Public paths, and methods of no API, need no right.
 */
async function unmatchedAt(base: Base, target: Target, { table, path, grant }: Place): Promise<RequestError> {
  const { area } = base.exchange;
  const routes = table.at(path);
  const isPublic = routes.some(({ access }) => access === "none");
  const isKnown = routes.length > 0 && grant === null;
  if (area === "secrets" && !isPublic && !(target.verb === "OTHER" && isKnown)) {
    if (!mayAsk(target.verb, grant ?? (await authorizeCall(base, target, { fresh: true })))) return denied();
  }
  return unmatched(area, target.path, table.verbs(path));
}

const ASKS: Partial<Record<Target["verb"], readonly Capability[]>> = {
  GET: ["read"],
  LIST: ["list"],
  SCAN: ["scan"],
  POST: ["create", "update"],
  PATCH: ["patch"],
  DELETE: ["delete"],
};

/** Whether a caller has a capability of the verb; of the others, any capability is enough. */
function mayAsk(verb: Target["verb"], { capabilities }: Grant): boolean {
  const enough = ASKS[verb];
  if (enough === undefined) return !capabilities.includes("deny");
  return capabilities.some((capability) => capability === "root" || enough.includes(capability));
}

/** A refusal in the caller's dialect: objects use neutral terms only. */
function inDialect(failure: unknown, dialect: Dialect): unknown {
  if (dialect === "neutral" || !(failure instanceof RequestError)) return failure;
  const messages = failure.messages.map((message) => translateField(translateMessage(dialect, message)));
  return new RequestError(failure.status, messages, { ...failure.headers });
}
