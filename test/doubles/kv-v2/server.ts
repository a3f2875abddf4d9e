import type { IncomingMessage, ServerResponse } from "node:http";
import { bodyOf, startLoopback } from "../loopback.ts";
import { ApiError, Engine } from "./engine.ts";

/**
 * A server with the part of Vault's HTTP API that concerns KV v2, on loopback: health, the mount's kind, login by the
 * JWT auth method, and one engine for each account. Stricter than Vault: `X-Vault-Request` is required, so are `cas` and
 * the content types, and unknown paths, fields and parameters are refused.
 */

/** How the next calls that change something go wrong. */
export interface Fault {
  readonly kind: "status" | "lost" | "cut";
  readonly status?: number;
  readonly errors?: readonly string[];
  readonly headers?: Readonly<Record<string, string>>;
  /** Only calls to this kind of path. */
  readonly only?: "data" | "metadata";
}

export class Account {
  readonly mount: string;
  readonly engine = new Engine();
  readonly token = `hvs.${crypto.randomUUID()}`;
  /** The tokens of logins that are still valid. */
  readonly sessions = new Set<string>();
  /** A JWT that the auth method `jwt` takes for the role `sync`. */
  readonly jwt = `jwt.${crypto.randomUUID()}`;
  /** Such as `patch metadata`. */
  readonly denied = new Set<string>();
  readonly faults: Fault[] = [];
  /** `method kind` of each call to the engine. */
  readonly calls: string[] = [];
  kind: object = { type: "kv", options: { version: "2" } };

  constructor(mount: string) {
    this.mount = mount;
  }

  accepts(token: string): boolean {
    return token === this.token || this.sessions.has(token);
  }

  /** Calls that changed something, or tried. */
  writes(): number {
    return this.calls.filter((call) => !/^(GET|LIST) /.test(call)).length;
  }
}

export interface KvV2Double {
  readonly url: string;
  clusterId: string;
  open(): Account;
  close(): Promise<void>;
}

interface Received {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingMessage["headers"];
  readonly text: string;
}

interface Answer {
  readonly status: number;
  readonly body?: object;
  readonly headers?: Readonly<Record<string, string>>;
}

const DENIED = new ApiError(403, ["1 error occurred:\n\t* permission denied\n\n"]);
const ROUTE = new ApiError(404, ['no handler for route "x". route entry not found.']);

export async function startKvV2({ port = 0 } = {}): Promise<KvV2Double> {
  const accounts = new Map<string, Account>();
  let opened = 0;

  function perform(request: Received): { account: Account | undefined; kind: string; run: () => Answer } {
    const { method, path, headers } = request;
    const token = String(headers["x-vault-token"] ?? "");
    const [, mount = "", kind = "", name = ""] = /^([^/]+)\/(data|metadata)\/(.*)$/.exec(path) ?? [];
    const account = accounts.get(mount);
    if (account) account.calls.push(`${method} ${kind}`);
    return { account, kind, run: () => answer(request, token, account, { kind, name }) };
  }

  function answer(
    { method, path, headers, text }: Received,
    token: string,
    account: Account | undefined,
    { kind, name }: { readonly kind: string; readonly name: string },
  ): Answer {
    if (headers["x-vault-request"] !== "true") throw new ApiError(412, ["required header X-Vault-Request is missing"]);
    if (path === "sys/health" && method === "GET") {
      return { status: 200, body: { initialized: true, sealed: false, standby: false, cluster_id: double.clusterId } };
    }
    if (path === "auth/jwt/login" && method === "POST") return login(text);
    const holder = [...accounts.values()].find((one) => one.accepts(token));
    if (!holder) throw new ApiError(403, ["2 errors occurred:\n\t* permission denied\n\t* invalid token\n\n"]);
    if (path === "auth/token/lookup-self" && method === "GET") return { status: 200, body: { data: { ttl: 0 } } };
    const [, asked] = /^sys\/internal\/ui\/mounts\/(.+)$/.exec(path) ?? [];
    if (asked !== undefined && method === "GET") {
      if (asked !== holder.mount) throw new ApiError(403, ["preflight capability check returned 403"]);
      return { status: 200, body: { data: { ...holder.kind, path: `${asked}/` } } };
    }
    if (!account) throw ROUTE;
    if (account !== holder || account.denied.has(`${method.toLowerCase()} ${kind}`)) throw DENIED;
    return engine(account.engine, { method, kind, name, text, type: String(headers["content-type"] ?? "") });
  }

  function login(text: string): Answer {
    const { role, jwt } = parse(text) as { role?: unknown; jwt?: unknown };
    const account = [...accounts.values()].find((one) => one.jwt === jwt);
    if (role !== "sync" || !account) throw new ApiError(400, ["error validating token: invalid audience (aud) claim"]);
    const client_token = `hvs.${crypto.randomUUID()}`;
    account.sessions.add(client_token);
    return { status: 200, body: { auth: { client_token, lease_duration: 3600, renewable: true } } };
  }

  async function serve(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const request = await receive(incoming);
    const { account, kind, run } = perform(request);
    const isWrite = !["GET", "LIST"].includes(request.method) && account !== undefined;
    const at = isWrite ? (account.faults.findIndex(({ only = kind }) => only === kind) ?? -1) : -1;
    const fault = at < 0 ? undefined : account?.faults.splice(at, 1)[0];
    if (fault?.kind === "cut") return void incoming.socket.destroy();
    if (fault?.kind === "status") {
      return send(outgoing, {
        status: fault.status ?? 503,
        body: { errors: fault.errors ?? ["fault"] },
        ...(fault.headers && { headers: fault.headers }),
      });
    }
    const done = guarded(run);
    if (fault?.kind === "lost") incoming.socket.destroy();
    else send(outgoing, done);
  }

  const { url, close } = await startLoopback(serve, port);
  const double: KvV2Double = {
    url,
    clusterId: crypto.randomUUID(),
    open() {
      const account = new Account(`kv${opened++}`);
      accounts.set(account.mount, account);
      return account;
    },
    close,
  };
  return double;
}

function engine(
  of: Engine,
  { method, kind, name, text, type }: Record<"method" | "kind" | "name" | "text" | "type", string>,
): Answer {
  if (method === "LIST" && kind === "metadata") return { status: 200, body: { data: { keys: of.list(name) } } };
  if (name.endsWith("/") || name === "") throw new ApiError(404, ["unsupported path"]);
  switch (`${method} ${kind}`) {
    case "GET data":
      return { status: 200, body: { data: of.read(name) } };
    case "GET metadata":
      return { status: 200, body: { data: of.metadata(name) } };
    case "POST data":
    case "PUT data":
      if (type !== "application/json") throw new ApiError(415, ["content type"]);
      return { status: 200, body: { data: of.write(name, parse(text)) } };
    case "POST metadata":
      if (type !== "application/json") throw new ApiError(415, ["content type"]);
      of.announce(name, parse(text));
      // Vault warns of a field that it ignores.
      return of.metadataCas === "ignored" ? { status: 200, body: { warnings: ["ignored"] } } : { status: 204 };
    case "PATCH metadata":
      if (type !== "application/merge-patch+json") throw new ApiError(415, ["content type"]);
      of.patch(name, parse(text));
      return { status: 204 };
    case "DELETE data":
      of.deleteNewest(name);
      return { status: 204 };
    case "DELETE metadata":
      of.deleteAll(name);
      return { status: 204 };
    default:
      throw new ApiError(405, ["1 error occurred:\n\t* unsupported operation\n\n"]);
  }
}

/** Numbers keep their spelling, as with Vault, whose data is decoded without a conversion of numbers. */
function parse(text: string): unknown {
  const json = JSON as unknown as {
    parse(text: string, reviver: (key: string, value: unknown, context: { source?: string }) => unknown): unknown;
    rawJSON(text: string): object;
  };
  try {
    return json.parse(text, (key, value, { source }) =>
      typeof value === "number" && source !== undefined && !["cas", "metadata_cas"].includes(key)
        ? json.rawJSON(source)
        : value,
    );
  } catch {
    throw new ApiError(400, ["failed to parse JSON input"]);
  }
}

function guarded(run: () => Answer): Answer {
  try {
    return run();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return { status: error.status, body: error.data === undefined ? { errors: error.errors } : { data: error.data } };
  }
}

async function receive(incoming: IncomingMessage): Promise<Received> {
  const url = new URL(incoming.url ?? "", "http://double");
  const isList = url.search === "?list=true" && incoming.method === "GET";
  const path = url.search === "" || isList ? url.pathname.replace(/^\/v1\//, "") : "query";
  return {
    method: isList ? "LIST" : (incoming.method ?? ""),
    path: path.split("/").map(decodeURIComponent).join("/"),
    headers: incoming.headers,
    text: String(await bodyOf(incoming)),
  };
}

function send(outgoing: ServerResponse, { status, body, headers }: Answer): void {
  outgoing.writeHead(status, { ...(body && { "content-type": "application/json" }), ...headers });
  outgoing.end(body && JSON.stringify(body));
}
