import type { IncomingMessage, ServerResponse } from "node:http";
import * as yaml from "yaml";
import { bodyOf, startLoopback } from "../loopback.ts";
import { ApiError, Secrets } from "./secrets.ts";

/**
 * The part of the Kubernetes API about the Secrets of a namespace, on loopback. Stricter than the real one: exactly the
 * known query parameters, media types and fields; a body that YAML reads otherwise than JSON is refused. Each namespace
 * is one account.
 */

/** How the next calls that change a Secret go wrong. */
export interface Fault {
  readonly kind: "status" | "lost" | "cut";
  readonly status?: number;
  readonly body?: object;
  readonly headers?: Readonly<Record<string, string>>;
}

export class Account {
  readonly namespace: string;
  readonly secrets = new Secrets();
  readonly token = `sa.${crypto.randomUUID()}`;
  /** Further tokens, such as signed ones. */
  readonly accepted = new Set<string>();
  /** Verbs on Secrets that the role lacks. */
  readonly denied = new Set<string>();
  readonly faults: Fault[] = [];
  /** `method kind` of each call. */
  readonly calls: string[] = [];
  /** Whether the role reads its namespace. */
  readsNamespace = true;

  constructor(namespace: string) {
    this.namespace = namespace;
  }

  accepts(token: string): boolean {
    return token === this.token || this.accepted.has(token);
  }

  writes(): number {
    return this.calls.filter((call) => /^(PATCH|DELETE) /.test(call)).length;
  }
}

export interface ClusterDouble {
  readonly url: string;
  open(): Account;
  close(): Promise<void>;
}

interface Received {
  readonly method: string;
  readonly url: URL;
  readonly headers: IncomingMessage["headers"];
  readonly text: string;
}

interface Answer {
  readonly status: number;
  readonly body: object;
  readonly headers?: Readonly<Record<string, string>>;
}

const METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
const METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

export async function startCluster({ port = 0 } = {}): Promise<ClusterDouble> {
  const accounts = new Map<string, Account>();
  let opened = 0;

  function answer({ method, url, headers, text }: Received): Answer {
    const token = /^Bearer (.+)$/.exec(headers.authorization ?? "")?.[1] ?? "";
    const holder = [...accounts.values()].find((one) => one.accepts(token));
    if (!holder) throw new ApiError(401, "Unauthorized", "Unauthorized");
    if (url.pathname === "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews" && method === "POST") {
      return review(holder, parsed(text, headers["content-type"], "application/json"));
    }
    const [, listed] = /^\/api\/v1\/namespaces\/([^/]+)\/secrets$/.exec(url.pathname) ?? [];
    if (listed !== undefined) return list(holder, listed, { method, url, headers });
    const [, namespace = "", secret] =
      /^\/api\/v1\/namespaces\/([^/]+)(?:\/secrets\/([^/]+))?$/.exec(url.pathname) ?? [];
    if (namespace === "") throw new ApiError(404, "NotFound", "the server could not find the requested resource");
    const isMetadata = headers.accept === METADATA_ONLY;
    if (!isMetadata && headers.accept !== "application/json") throw new ApiError(406, "NotAcceptable", "accept");
    if (secret === undefined) return readNamespace(holder, namespace, method);
    const verb = { GET: "get", PATCH: "patch", DELETE: "delete" }[method] ?? "";
    if (holder.denied.has(verb)) throw forbidden(`secrets is forbidden: User cannot ${verb} resource "secrets"`);
    const account = accounts.get(namespace);
    // A role that is bound in the whole cluster: the absence of the namespace shows at a creation only.
    if (!account && verb === "patch") throw missing(namespace);
    const secrets = account?.secrets ?? new Secrets();
    const name = decodeURIComponent(secret);
    const shown = (object: { metadata: object }) =>
      isMetadata ? { kind: "PartialObjectMetadata", apiVersion: "meta.k8s.io/v1", metadata: object.metadata } : object;
    if (verb === "get") return { status: 200, body: shown(secrets.view(name)) };
    if (verb === "delete") {
      const { preconditions } = parsed(text, headers["content-type"], "application/json") as { preconditions?: object };
      secrets.remove(name, preconditions);
      return { status: 200, body: { kind: "Status", apiVersion: "v1", status: "Success" } };
    }
    if (verb !== "patch") throw new ApiError(405, "MethodNotAllowed", method);
    const query = Object.fromEntries(url.searchParams);
    const known = Object.keys(query).sort().join() === "fieldManager,fieldValidation,force";
    if (!known || query["fieldValidation"] !== "Strict" || !/^(true|false)$/.test(query["force"] ?? "")) {
      throw new ApiError(400, "BadRequest", "query");
    }
    const body = parsed(text, headers["content-type"], "application/apply-patch+yaml");
    const manager = String(query["fieldManager"]);
    if (holder.denied.has("create") && !secrets.names().includes(name)) throw forbidden("cannot create");
    const { created, object } = secrets.apply(name, body, { manager, force: query["force"] === "true" });
    return { status: created ? 201 : 200, body: shown(object) };
  }

  /** One page of metadata. A namespace that does not exist has no Secrets. */
  function list(holder: Account, namespace: string, { method, url, headers }: Omit<Received, "text">): Answer {
    if (method !== "GET") throw new ApiError(405, "MethodNotAllowed", method);
    if (headers.accept !== METADATA_LIST) throw new ApiError(406, "NotAcceptable", "accept");
    if (holder.denied.has("list") || namespace !== holder.namespace) {
      throw forbidden('secrets is forbidden: User cannot list resource "secrets"');
    }
    const names = [...(accounts.get(namespace)?.secrets.names() ?? [])].sort();
    const most = Number(url.searchParams.get("limit") ?? names.length);
    const from = Number(url.searchParams.get("continue") ?? 0);
    if (!Number.isInteger(most) || !Number.isInteger(from)) throw new ApiError(400, "BadRequest", "continue");
    const next = from + most < names.length ? String(from + most) : "";
    return {
      status: 200,
      body: {
        kind: "PartialObjectMetadataList",
        apiVersion: "meta.k8s.io/v1",
        metadata: { resourceVersion: "1", ...(next && { continue: next }) },
        items: names.slice(from, from + most).map((name) => ({ metadata: { name } })),
      },
    };
  }

  function readNamespace(holder: Account, namespace: string, method: string): Answer {
    if (method !== "GET") throw new ApiError(405, "MethodNotAllowed", method);
    if (!holder.readsNamespace) throw forbidden(`namespaces "${namespace}" is forbidden`);
    if (!accounts.has(namespace)) throw missing(namespace);
    return { status: 200, body: { kind: "PartialObjectMetadata", metadata: { name: namespace, uid: "1" } } };
  }

  async function serve(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const request = await receive(incoming);
    const { method, url } = request;
    const account = accounts.get(/^\/api\/v1\/namespaces\/([^/]+)\/secrets\//.exec(url.pathname)?.[1] ?? "");
    account?.calls.push(`${method} secrets`);
    const fault = method === "GET" ? undefined : account?.faults.shift();
    if (fault?.kind === "cut") return void incoming.socket.destroy();
    if (fault?.kind === "status") {
      const body = fault.body ?? { kind: "Status", status: "Failure", code: fault.status };
      return send(outgoing, { status: fault.status ?? 503, body, ...(fault.headers && { headers: fault.headers }) });
    }
    const done = guarded(() => answer(request));
    if (fault?.kind === "lost") incoming.socket.destroy();
    else send(outgoing, done);
  }

  const { url, close } = await startLoopback(serve, port);
  return {
    url,
    open() {
      const account = new Account(`web-${opened++}`);
      accounts.set(account.namespace, account);
      return account;
    },
    close,
  };
}

function review(holder: Account, body: unknown): Answer {
  const { spec } = body as { spec?: { resourceAttributes?: Record<string, string> } };
  const { namespace = "", verb = "", group, resource } = spec?.resourceAttributes ?? {};
  if (group !== "" || resource !== "secrets") throw new ApiError(400, "BadRequest", "resourceAttributes");
  const allowed = namespace === holder.namespace && !holder.denied.has(verb);
  const typed = { kind: "SelfSubjectAccessReview", apiVersion: "authorization.k8s.io/v1" };
  return { status: 201, body: { ...typed, metadata: {}, spec, status: { allowed } } };
}

const forbidden = (message: string) => new ApiError(403, "Forbidden", message, { kind: "secrets" });
const missing = (namespace: string) =>
  new ApiError(404, "NotFound", `namespaces "${namespace}" not found`, { name: namespace, kind: "namespaces" });

/** The body, which the API server reads as YAML with a parser that misses some escapes of JSON. */
function parsed(text: string, given: string | undefined, expected: string): unknown {
  if (given !== expected) throw new ApiError(415, "UnsupportedMediaType", `the body of the request was in ${given}`);
  if (/[^\x20-\x7e]|\\/.test(text)) throw new ApiError(400, "BadRequest", "an escape, or a character beyond ASCII");
  const body: unknown = JSON.parse(text);
  if (JSON.stringify(yaml.parse(text)) !== JSON.stringify(body)) throw new ApiError(400, "BadRequest", "YAML");
  return body;
}

function guarded(run: () => Answer): Answer {
  try {
    return run();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    const { status: code, reason, message, details } = error;
    return {
      status: code,
      body: { kind: "Status", apiVersion: "v1", status: "Failure", message, reason, details, code },
    };
  }
}

async function receive(incoming: IncomingMessage): Promise<Received> {
  const url = new URL(incoming.url ?? "", "http://double");
  return { method: incoming.method ?? "", url, headers: incoming.headers, text: String(await bodyOf(incoming)) };
}

function send(outgoing: ServerResponse, { status, body, headers }: Answer): void {
  outgoing.writeHead(status, { "content-type": "application/json", ...headers });
  outgoing.end(JSON.stringify(body));
}
