import { generateKeyPair, randomBytes } from "node:crypto";
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import { setTimeout as wait } from "node:timers/promises";
import { promisify } from "node:util";
import { bodyOf, startLoopback } from "../loopback.ts";
import { Account, type Change, type Fault, type LoggedRequest } from "./account.ts";
import { type Actor, authenticate } from "./auth.ts";
import { documentedLimits, RateLimiter, type RateLimitQuotas } from "./limits.ts";
import { type Route, routeOf } from "./routes.ts";
import { ApiError, type Credentials, newState } from "./state.ts";

export interface RepoHostOptions {
  /** 0, the default: any free port. */
  port?: number;
  now?: () => number;
  rates?: Partial<RateLimitQuotas>;
}

export interface RepoHostDouble {
  /** The base URL of the API, without a trailing slash: for REPO_HOST_URL. It answers under /api/v3 too. */
  url: string;
  /** The account that is there from the start. */
  main: Account;
  /** A new account with its own credentials. */
  openAccount(): Promise<Account>;
  close(): Promise<void>;
}

interface Answer {
  status: number;
  headers: Record<string, string>;
  text: string;
}

interface Received {
  method: string;
  path: string;
  query: URLSearchParams;
  headers: IncomingHttpHeaders;
  body: Buffer;
}

const maxBodyBytes = 256 * 1024;
const apiVersions = ["2022-11-28", "2026-03-10"];

/**
 * GitHub's REST API for Actions secrets and application installations on loopback, stricter than the real service: every
 * box is opened with libsodium, every application's signature verified, unknown fields are refused.
 *
 * Tests inside the Workers runtime drive it over HTTP: `POST /_double/accounts` opens an account and answers its
 * `Credentials`; `GET /_double/secrets`, `GET /_double/requests`, `POST /_double/faults` (one Fault) and `POST /_double/call`
 * (one Change) apply to the main account, or with `?account=` to that one.
 */
export async function startRepoHost(options: RepoHostOptions = {}): Promise<RepoHostDouble> {
  const { now = Date.now } = options;
  const { privateKey, publicKey } = await promisify(generateKeyPair)("rsa", { modulusLength: 2048 });
  const appKey = privateKey.export({ type: "pkcs1", format: "pem" }).toString();
  const accounts = new Map<string, Account>();
  const limiter = new RateLimiter({ ...documentedLimits, ...options.rates });

  /** The applications share one key, since making one takes long; their ids differ. */
  async function openAccount(): Promise<Account> {
    const serial = accounts.size;
    const credentials: Credentials = {
      account: String(serial),
      owner: "acme",
      repository: "web",
      environment: "production",
      accessToken: `ghp_${randomBytes(18).toString("hex")}`,
      fineGrainedToken: `github_pat_${randomBytes(30).toString("hex")}`,
      appId: String(4200 + serial),
      appKey,
      installationId: 51_000_000 + serial,
    };
    const account = new Account(await newState(credentials), now);
    accounts.set(credentials.account, account);
    return account;
  }
  const main = await openAccount();
  const accountOf = (actor: Actor | null) => [...accounts.values()].find(({ state }) => state === actor?.state) ?? main;

  /** The sender and the refusal of a request, before faults and routes. */
  function identify(headers: IncomingHttpHeaders): Actor | ApiError {
    try {
      const states = [...accounts.values()].map(({ state }) => state);
      return authenticate(headers.authorization, { states, appKey: publicKey, now: now() });
    } catch (problem) {
      if (problem instanceof ApiError) return problem;
      throw problem;
    }
  }

  function perform(request: Received, actor: Actor | ApiError, route: Route | null): Answer {
    const bearer = request.headers.authorization ?? "";
    let common: Record<string, string> = {};
    try {
      checkEnvelope(request);
      if (actor instanceof ApiError) throw actor;
      common = limiter.count(actor.kind === "app" ? actor.state.credentials.appId : bearer, request.method, now());
      if (actor.kind === "token" && actor.token.kind === "classic") {
        common["x-oauth-scopes"] = actor.token.scopes.join(", ");
      }
      if (route === null) throw new ApiError(404, "Not Found");
      const done = route.perform({ actor, query: request.query, body: parseBody(request), now: now() });
      const text = done.body === null ? "" : JSON.stringify(done.body);
      return { status: done.status, headers: { ...common, ...done.headers }, text };
    } catch (problem) {
      if (!(problem instanceof ApiError)) throw problem;
      return { ...errorAnswer(problem), headers: { ...common, ...problem.headers } };
    }
  }

  async function serve(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const request = await receive(incoming);
    if (request.path.startsWith("/_double/")) {
      send(outgoing, await inspect(request), now());
      return;
    }
    const actor = identify(request.headers);
    const account = accountOf(actor instanceof ApiError ? null : actor);
    const route = routeOf(request.method, request.path);
    const entry = logEntry(request, actor instanceof ApiError ? null : actor, route);
    account.log.push(entry);
    const fault = account.takeFault(entry.operation);
    if (fault?.fault === "drop") {
      incoming.socket.destroy();
      return;
    }
    if (fault?.fault === "delay") await wait(fault.ms, undefined, { ref: false });
    const answer =
      fault?.fault === "error"
        ? errorAnswer(
            new ApiError(fault.status, fault.message ?? "", { headers: fault.headers ?? {}, errors: fault.errors }),
          )
        : fault?.fault === "raw"
          ? { status: fault.status, headers: fault.headers ?? {}, text: fault.body }
          : perform(request, actor, route);
    entry.status = answer.status;
    if (fault?.fault === "apply-then-drop") incoming.socket.destroy();
    else send(outgoing, answer, now());
  }

  async function inspect({ method, path, query, body }: Received): Promise<Answer> {
    const account = accounts.get(query.get("account") ?? main.credentials.account);
    if (account === undefined) return { status: 404, headers: {}, text: "no such account" };
    switch (`${method} ${path}`) {
      case "POST /_double/accounts":
        return json((await openAccount()).credentials);
      case "GET /_double/secrets":
        return json(account.secrets());
      case "GET /_double/requests":
        return json(account.requests());
      case "POST /_double/faults":
        account.fault(JSON.parse(body.toString()) as Fault);
        return json(null);
      case "POST /_double/call":
        return json(account.call(JSON.parse(body.toString()) as Change));
      default:
        return { status: 404, headers: {}, text: `no ${method} ${path} here` };
    }
  }

  const { url, close } = await startLoopback(serve, options.port ?? 0);
  return {
    url,
    main,
    openAccount,
    close,
  };
}

async function receive(incoming: IncomingMessage): Promise<Received> {
  const { method = "", url = "", headers } = incoming;
  const [target = "", query = ""] = url.split("?");
  const path = target.replace(/^\/api\/v3(?=\/)/, "");
  return { method, path, query: new URLSearchParams(query), headers, body: await bodyOf(incoming, maxBodyBytes) };
}

function logEntry({ method, path, headers, body }: Received, actor: Actor | null, route: Route | null): LoggedRequest {
  let fields: string[] | null = null;
  try {
    fields = Object.keys(JSON.parse(body.toString()));
  } catch {
    // No body, or none that can be read: it is answered as such later.
  }
  return {
    operation: route?.operation ?? "unknown",
    method,
    path,
    subject: route?.subject ?? null,
    bearer: actor?.kind === "token" ? actor.token.kind : (actor?.kind ?? null),
    userAgent: headers["user-agent"] ?? "",
    apiVersion: String(headers["x-github-api-version"] ?? "") || null,
    fields,
    status: null,
  };
}

/** The checks of every request. */
function checkEnvelope({ method, headers, body }: Received): void {
  if (!headers["user-agent"]) {
    throw new ApiError(
      403,
      "Request forbidden by administrative rules. Please make sure your request has a User-Agent header",
    );
  }
  const version = headers["x-github-api-version"];
  if (version !== undefined && !apiVersions.includes(String(version))) {
    throw new ApiError(400, "The API version is not supported.");
  }
  const accepts = headers.accept ?? "";
  if (!/^application\/vnd\.github(\.v3)?\+json$/.test(accepts)) throw new ApiError(415, "Unsupported 'Accept' header");
  const type = headers["content-type"] ?? "";
  if (body.length > 0 && !/^application\/json(; charset=utf-8)?$/.test(type)) {
    throw new ApiError(415, "The content type must be application/json");
  }
  if (body.length > 0 && (method === "GET" || method === "DELETE")) throw new ApiError(400, "A body is not expected");
}

function parseBody({ body }: Received): unknown {
  if (body.length === 0) return null;
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(body));
  } catch {
    throw new ApiError(400, "Problems parsing JSON");
  }
}

const json = (value: unknown): Answer => ({ status: 200, headers: {}, text: JSON.stringify(value) });

function errorAnswer({ status, message, errors, headers }: ApiError): Answer {
  const body = { message, ...(errors.length > 0 ? { errors } : {}), documentation_url: "https://docs.github.com/rest" };
  return { status, headers, text: JSON.stringify({ ...body, status: String(status) }) };
}

function send(outgoing: ServerResponse, { status, headers, text }: Answer, now: number): void {
  outgoing.writeHead(status, {
    ...(text === "" ? {} : { "content-type": "application/json; charset=utf-8" }),
    date: new Date(now).toUTCString(),
    "x-github-request-id": randomBytes(16).toString("hex").toUpperCase(),
    "x-github-api-version-selected": "2022-11-28",
    ...headers,
  });
  outgoing.end(text);
}
