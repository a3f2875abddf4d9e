import type { IncomingMessage, ServerResponse } from "node:http";
import { setTimeout as wait } from "node:timers/promises";
import { type CallFault, takeFault } from "../faults.ts";
import { bodyOf, startLoopback } from "../loopback.ts";
import { Account, type AccountOptions, type Stored, type Token } from "./account.ts";
import { type Answer, json, type Operation, parseJson, perform } from "./operations.ts";
import { ApiError, bad, readChange, readCreations } from "./rules.ts";

/** `error` is refused with `status` (default 400), `code` and more `fields` of the error object. */
export type Fault = CallFault<{ code: string; status?: number; fields?: Record<string, unknown> }, Operation>;

/** One request as the log keeps it: no value, no token, no text of an error. */
export interface LoggedRequest {
  operation: Operation | "unknown";
  method: string;
  /** Path and query. */
  target: string;
  /** The body without the value; null when there is none. */
  body: Record<string, unknown> | null;
  valueBytes: number | null;
  /** Null when the connection was dropped before it was performed. */
  status: number | null;
  errorCode: string | null;
}

/** The options and addresses of an account. */
export interface OpenedAccount {
  id: string;
  accessToken: string;
  projectId: string;
  teamId: string;
  teamProjectId: string;
}

export interface DeployProjectDouble {
  /** The base URL without a trailing slash, for DEPLOY_PROJECT_URL. */
  url: string;
  /** The initial account; the functions below apply to it by default. */
  account: OpenedAccount;
  open(options?: AccountOptions): OpenedAccount;
  addToken(token: Token, account?: string): void;
  /** Every variable, with its value and project. */
  secrets(account?: string): (Stored & { projectId: string })[];
  requests(account?: string): LoggedRequest[];
  fault(fault: Fault, account?: string): void;
  clearFaults(account?: string): void;
  /** Makes a change as another writer: no token, not logged, no faults. Throws `ApiError`. */
  call(
    operation: "CreateVariables" | "EditVariable" | "RemoveVariable",
    parameters: CallParameters,
    account?: string,
  ): unknown;
  /** Forgets variables, tokens that were added, faults and log of the first account, and all others. */
  reset(): void;
  close(): Promise<void>;
}

/** `projectId`: default the personal project. */
export interface CallParameters {
  projectId?: string;
  id?: string;
  body?: unknown;
  upsert?: boolean;
}

interface Received {
  method: string;
  url: URL;
  headers: Record<string, string | string[] | undefined>;
  body: Buffer;
}

interface Opened {
  account: Account;
  opened: OpenedAccount;
  log: LoggedRequest[];
  faults: Fault[];
}

const maxBodyBytes = 1024 * 1024;

const routes: readonly [Operation, method: string, path: RegExp, query: readonly string[]][] = [
  ["GetUser", "GET", /^\/v2\/user$/, []],
  ["GetProject", "GET", /^\/v9\/projects\/([^/]+)$/, ["teamId"]],
  ["ListVariables", "GET", /^\/v10\/projects\/([^/]+)\/env$/, ["teamId", "decrypt", "until"]],
  ["GetVariable", "GET", /^\/v1\/projects\/([^/]+)\/env\/([^/]+)$/, ["teamId"]],
  ["CreateVariables", "POST", /^\/v10\/projects\/([^/]+)\/env$/, ["teamId", "upsert"]],
  ["EditVariable", "PATCH", /^\/v9\/projects\/([^/]+)\/env\/([^/]+)$/, ["teamId"]],
  ["RemoveVariable", "DELETE", /^\/v9\/projects\/([^/]+)\/env\/([^/]+)$/, ["teamId"]],
];

/**
 * The part of the Vercel REST API about a project's environment variables, on loopback, stricter than the real one:
 * unknown paths, versions, parameters and body fields are refused, collisions and limits are real.
 *
 * Tests inside the Workers runtime drive it over HTTP without a token: `GET /_double/secrets`, `GET /_double/requests`,
 * `POST /_double/faults` (one Fault), `POST /_double/call` (`{operation, parameters}`), `POST /_double/tokens` (one
 * Token), `POST /_double/reset`. `POST /_double/accounts` (AccountOptions, or nothing) opens a separate account and
 * returns an OpenedAccount; with `?account=<id>` the others apply to it, so that concurrent tests do not interfere.
 */
export async function startDeployProject(
  options: AccountOptions & { port?: number; now?: () => number } = {},
): Promise<DeployProjectDouble> {
  const { port = 0, now = Date.now, ...accountOptions } = options;
  const accounts = new Map<string, Opened>();
  let opened = 0;

  function open(given: AccountOptions = {}): OpenedAccount {
    const id = `a${opened++}`;
    const accessToken = `vercel${crypto.randomUUID().replaceAll("-", "")}`;
    const account = new Account(id, accessToken, { ...accountOptions, ...given }, now);
    const [personal, ofTeam] = account.projects;
    const answer = {
      id,
      accessToken,
      projectId: personal?.id ?? "",
      teamId: account.teamId,
      teamProjectId: ofTeam?.id ?? "",
    };
    accounts.set(id, { account, opened: answer, log: [], faults: [] });
    return answer;
  }
  let first = open();
  const of = (id?: string | null): Opened => {
    const found = accounts.get(id || first.id);
    if (!found) throw new ApiError(404, "no_account", "There is no such account");
    return found;
  };

  async function serve(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const request = await receive(incoming);
    if (request.url.pathname.startsWith("/_double/")) {
      send(outgoing, control(request));
      return;
    }
    const [operation, parts, query] = route(request);
    const bearer = /^Bearer (.+)$/.exec(String(request.headers["authorization"] ?? ""))?.[1] ?? "";
    const holder = [...accounts.values()].find(({ account }) => account.tokens.has(bearer));
    const { account, log, faults } = holder ?? of();
    const entry = describe(request, operation);
    log.push(entry);
    const fault = takeFault(faults, entry.operation);
    if (fault?.fault === "drop") {
      incoming.socket.destroy();
      return;
    }
    if (fault?.fault === "delay") await wait(fault.ms, undefined, { ref: false });
    const token = holder?.account.tokens.get(bearer);
    const limit = account.count(operation);
    const answer =
      fault?.fault === "raw"
        ? { status: fault.status, body: fault.body, headers: fault.headers ?? {} }
        : guarded(() => {
            if (fault?.fault === "error") {
              throw new ApiError(fault.status ?? 400, fault.code, fault.message ?? "", fault.fields);
            }
            if (bearer === "") throw new ApiError(403, "forbidden", "A token is missing", { missingToken: true });
            if (!token) throw new ApiError(403, "forbidden", "Not authorized", { invalidToken: true });
            if (operation === "unknown") throw new ApiError(404, "not_found", "The path or method is unknown");
            if (limit.exceeded) throw rateLimited(limit);
            checkEnvelope(request, query);
            return perform(account, token, { operation, parts, query: request.url.searchParams, body: request.body });
          });
    const headers = {
      "x-ratelimit-limit": String(limit.total),
      "x-ratelimit-remaining": String(limit.remaining),
      "x-ratelimit-reset": String(Math.ceil(limit.reset / 1000)),
      ...answer.headers,
      ...(fault?.fault === "error" ? fault.headers : {}),
    };
    entry.status = answer.status;
    entry.errorCode = answer.errorCode ?? null;
    if (fault?.fault === "apply-then-drop") incoming.socket.destroy();
    else send(outgoing, { ...answer, headers });
  }

  function control({ method, url, body }: Received): Answer {
    const id = url.searchParams.get("account");
    return guarded(() => {
      switch (`${method} ${url.pathname}`) {
        case "GET /_double/secrets":
          return json(double.secrets(id ?? undefined));
        case "GET /_double/requests":
          return json(of(id).log);
        case "POST /_double/faults":
          of(id).faults.push(parseJson(body) as Fault);
          return json(null);
        case "POST /_double/tokens":
          of(id).account.addToken(parseJson(body) as Token);
          return json(null);
        case "POST /_double/accounts":
          return json(open(body.length === 0 ? {} : (parseJson(body) as AccountOptions)));
        case "POST /_double/call": {
          const { operation, parameters } = parseJson(body) as {
            operation: "CreateVariables";
            parameters: CallParameters;
          };
          return json(double.call(operation, parameters, id ?? undefined));
        }
        case "POST /_double/reset":
          double.reset();
          return json(null);
        default:
          throw new ApiError(404, "not_found", `no ${method} ${url.pathname} here`);
      }
    });
  }

  const { url, close } = await startLoopback(serve, port);

  const double: DeployProjectDouble = {
    url,
    get account() {
      return first;
    },
    open,
    addToken: (token, id) => of(id).account.addToken(token),
    secrets: (id) =>
      of(id).account.projects.flatMap((project) =>
        structuredClone(project.variables).map((one) => ({ ...one, projectId: project.id })),
      ),
    requests: (id) => structuredClone(of(id).log),
    fault: (fault, id) => void of(id).faults.push({ ...fault }),
    clearFaults(id) {
      of(id).faults.length = 0;
    },
    call(operation, { projectId, id = "", body, upsert = false }, accountId) {
      const { account, opened } = of(accountId);
      const project = account.projects.find((one) => one.id === (projectId ?? opened.projectId));
      if (!project) throw new ApiError(404, "not_found", "Project not found");
      if (operation === "CreateVariables") {
        return shown(readCreations(body).map((one) => account.create(project, one, upsert)));
      }
      return operation === "EditVariable"
        ? shown([account.edit(project, id, readChange(body))])
        : shown([account.remove(project, id)]);
    },
    reset() {
      accounts.clear();
      first = open();
    },
    close,
  };
  return double;
}

const shown = (variables: Stored[]) => structuredClone(variables);

function route({ method, url }: Received): [Operation | "unknown", parts: string[], query: readonly string[]] {
  for (const [operation, wanted, path, query] of routes) {
    const match = path.exec(url.pathname);
    if (match && method === wanted) return [operation, match.slice(1).map(decodeURIComponent), query];
  }
  return ["unknown", [], []];
}

/** Checks the request around the parameters: the query's names, once each, and a content type exactly where there is a body. */
function checkEnvelope({ method, url, headers, body }: Received, known: readonly string[]): void {
  const given = [...url.searchParams.keys()];
  for (const name of given) {
    if (!known.includes(name)) throw bad(`Invalid request: should NOT have additional property ${name}`, "bad_request");
    if (url.searchParams.get(name) === "") throw bad(`Invalid request: ${name} is empty`, "bad_request");
  }
  if (new Set(given).size !== given.length) throw bad("Invalid request: a parameter is given twice", "bad_request");
  const flags = ["upsert", "decrypt"].map((name) => url.searchParams.get(name));
  if (flags.some((flag) => flag !== null && !["true", "false"].includes(flag))) {
    throw bad("Invalid request: not true or false", "bad_request");
  }
  const carries = method === "POST" || method === "PATCH";
  if (carries && headers["content-type"] !== "application/json") {
    throw new ApiError(415, "unsupported_media_type", "The content type must be application/json");
  }
  if (!carries && (body.length > 0 || headers["content-type"] !== undefined)) {
    throw bad("Invalid request: no body is expected", "bad_request");
  }
}

function guarded(action: () => Answer): Answer {
  try {
    return action();
  } catch (problem) {
    if (!(problem instanceof ApiError)) throw problem;
    const { status, code, message, fields } = problem;
    return { ...json({ error: { code, message, ...fields } }), status, errorCode: code };
  }
}

function rateLimited({ total, reset }: { total: number; reset: number }): ApiError {
  const limit = { remaining: 0, reset: Math.ceil(reset / 1000), resetMs: reset, total };
  return new ApiError(429, "rate_limited", `The rate limit of ${total} exceeded`, { limit });
}

async function receive(incoming: IncomingMessage): Promise<Received> {
  const { method = "", url = "", headers } = incoming;
  return { method, url: new URL(url, "http://double"), headers, body: await bodyOf(incoming, maxBodyBytes) };
}

function describe({ method, url, body }: Received, operation: LoggedRequest["operation"]): LoggedRequest {
  const entry = {
    operation,
    method,
    target: url.pathname + url.search,
    body: null,
    valueBytes: null,
    status: null,
    errorCode: null,
  };
  try {
    const parsed = [parseJson(body)].flat()[0] as Record<string, unknown>;
    const { value, ...rest } = parsed;
    return { ...entry, body: rest, valueBytes: typeof value === "string" ? Buffer.byteLength(value) : null };
  } catch {
    // A body that cannot be read is answered as such later; the log then holds the envelope only.
    return entry;
  }
}

function send(outgoing: ServerResponse, { status, body, headers = {} }: Answer): void {
  outgoing.writeHead(status, { "content-type": "application/json; charset=utf-8", ...headers });
  outgoing.end(body);
}
