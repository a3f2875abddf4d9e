/**
 * The one place that sends requests to the API: token, namespaces, errors with the service's own words. Screens call
 * `api` with an operation of the API document; types of query, body and answer follow from it. Every request is
 * recorded for the panel "as a command", without the values of secrets.
 */
import type { Api } from "../../../build/api-types.ts";
import { parseExact } from "../lib/exact-json.ts";
import { encodeSegments, isCluster, isResolved, type Verb, type WireRequest } from "../lib/wire.ts";
import { clusterNamespace, secretsNamespace } from "./namespaces.ts";
import { record } from "./request-log.ts";
import { endSession, session } from "./session.ts";

export type { Api, Schemas } from "../../../build/api-types.ts";
export type { WireRequest } from "../lib/wire.ts";

export type Operation = keyof Api;
/** The names in braces of an operation's path. */
type Names<Path extends string> = Path extends `${string}{${infer Name}}${infer Rest}` ? Name | Names<Rest> : never;

export interface Options<Op extends Operation> {
  /** Values of the names in braces. Slashes of `path` and `prefix` separate segments; all other values are one segment. */
  readonly path?: Readonly<Record<Names<Op & string>, string>>;
  readonly query?: Partial<Api[Op]["query"]>;
  readonly body?: Api[Op]["body"];
  /**
   * The mount instead of the default one of the document (`secret`, `kv-v1`, `cloud-b`, `auth/userpass` …), without
   * slashes around it.
   */
  readonly mount?: string;
  /** Namespace of this request instead of the selected one: of the secrets API or of the cluster API, by the path. */
  readonly namespace?: string;
  /** Values in body and answer are secrets: they are left out of the record. */
  readonly sensitive?: boolean;
  /** Sends no token (log-in). */
  readonly anonymous?: boolean;
  /** Sends this token instead of the session's (log-in). */
  readonly token?: string;
  /** Wraps the answer: a single-use token of this life takes its place. */
  readonly wrapTtl?: string;
  /** Read in the background: left out of the record. */
  readonly quiet?: boolean;
  readonly signal?: AbortSignal | undefined;
  /** A status that is an answer rather than a failure, besides 2xx. */
  readonly accept?: readonly number[];
}

/** Everything about an answer. */
interface Answer<Body> {
  readonly status: number;
  readonly body: Body;
  /** Start of the next page of a list of the cluster API; null on the last page. */
  readonly nextToken: string | null;
  /** Index of a read of the cluster API, for blocking queries. */
  readonly index: number;
}

/** A refused or failed request. `messages` are the service's own words. */
export class ApiError extends Error {
  readonly status: number;
  readonly messages: readonly string[];
  readonly requestId: string | null;
  readonly request: WireRequest;

  constructor(status: number, messages: readonly string[], request: WireRequest, requestId: string | null = null) {
    super(messages.join("; ") || `status ${status}`);
    this.status = status;
    this.messages = messages;
    this.request = request;
    this.requestId = requestId;
  }

  get isDenied(): boolean {
    return this.status === 403;
  }

  get isMissing(): boolean {
    return this.status === 404;
  }

  /** No answer: the service or the network is away. */
  get isOffline(): boolean {
    return this.status === 0;
  }
}

export const isDenied = (failure: unknown): failure is ApiError => failure instanceof ApiError && failure.isDenied;
export const isMissing = (failure: unknown): failure is ApiError => failure instanceof ApiError && failure.isMissing;

/** The service's words; none for another failure. */
export const messagesOf = (failure: unknown): readonly string[] =>
  failure instanceof ApiError ? failure.messages : [];

/** The body of an operation's answer. @throws ApiError */
export async function api<Op extends Operation>(op: Op, options: Options<Op> = {}): Promise<Api[Op]["answer"]> {
  return (await apiFull(op, options)).body;
}

const DOTS = "The path has a part . or .., with which a browser asks for another path. Nothing was sent.";

/** An operation's answer with its page and index. @throws ApiError */
export async function apiFull<Op extends Operation>(
  op: Op,
  options: Options<Op> = {},
): Promise<Answer<Api[Op]["answer"]>> {
  const wire = wireRequest(op, options);
  // A link must not lead to other requests than those of its screen.
  if (isResolved(wire.target)) throw new ApiError(400, [DOTS], wire);
  const started = performance.now();
  try {
    const answer = await send<Api[Op]["answer"]>(wire, options);
    if (!options.quiet) record({ ...wire, sensitive: options.sensitive === true, status: answer.status, started });
    return answer;
  } catch (failure) {
    if (failure instanceof ApiError) {
      if (!options.quiet) record({ ...wire, sensitive: options.sensitive === true, status: failure.status, started });
      if (failure.status === 403 && !options.anonymous && !options.token) noteRefusal(failure);
    }
    throw failure;
  }
}

/** The request of an operation, before it is sent: for previews. */
export function wireRequest<Op extends Operation>(op: Op, options: Options<Op> = {}): WireRequest {
  const [verb = "GET", template = ""] = op.split(" ") as [Verb, string];
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(options.query ?? {}))
    if (value !== undefined && value !== "") query.set(name, String(value));
  if (verb === "LIST") query.set("list", "true");
  const path = filled(mounted(template, options.mount), (options.path ?? {}) as Record<string, string>);
  const inCluster = isCluster(path);
  const namespace = options.namespace ?? (inCluster ? clusterNamespace.value : secretsNamespace.value);
  const isNamed = namespace !== "default" || path === CLAIMS;
  if (inCluster && isNamed && !query.has("namespace")) query.set("namespace", namespace);
  const search = query.size > 0 ? `?${query}` : "";
  const wrapping = options.wrapTtl === undefined ? {} : { wrapTtl: options.wrapTtl };
  return { verb, target: `${path}${search}`, body: options.body, namespace: inCluster ? "" : namespace, ...wrapping };
}

/** Has no default namespace. */
const CLAIMS = "/v1/volumes/claims";

const DEFAULT_MOUNT =
  /^\/v1\/(secret|kv-v1|cloud-[abc]|https-producer|auth\/(?:userpass|oidc|jwt|kubernetes|approle))(?=\/|$)/;

const mounted = (template: string, mount: string | undefined): string =>
  mount === undefined ? template : template.replace(DEFAULT_MOUNT, () => `/v1/${encodeSegments(mount)}`);

const filled = (template: string, values: Readonly<Record<string, string>>): string =>
  template.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = values[name] ?? "";
    return name === "path" || name === "prefix" ? encodeSegments(value) : encodeURIComponent(value);
  });

/** Headers of every request. */
export function requestHeaders(namespace: string, token = session.peek()?.token): Record<string, string> {
  return {
    ...(token ? { "X-Orch-Token": token } : {}),
    ...(namespace ? { "X-Orch-Namespace": namespace } : {}),
  };
}

async function send<Body>(
  wire: WireRequest,
  { anonymous, token, signal, accept = [] }: Pick<Options<Operation>, "anonymous" | "token" | "signal" | "accept">,
): Promise<Answer<Body>> {
  const headers = requestHeaders(wire.namespace, anonymous ? "" : token);
  if (wire.wrapTtl) headers["X-Orch-Wrap-TTL"] = wire.wrapTtl;
  const init: RequestInit = { method: wire.verb === "LIST" ? "GET" : wire.verb, headers, cache: "no-store" };
  if (signal) init.signal = signal;
  if (wire.body !== undefined) {
    headers["Content-Type"] = wire.verb === "PATCH" ? "application/merge-patch+json" : "application/json";
    init.body = JSON.stringify(wire.body);
  }
  let response: Response;
  try {
    response = await fetch(wire.target, init);
  } catch (failure) {
    if (signal?.aborted) throw failure;
    throw new ApiError(0, ["The service does not answer. Check the network, then try again."], wire);
  }
  const text = await response.text();
  const body = text === "" ? null : parsed(text);
  if (!response.ok && !accept.includes(response.status)) throw refusal(response, body, text, wire);
  return {
    status: response.status,
    body: body as Body,
    nextToken: response.headers.get("X-Orch-NextToken"),
    index: Number(response.headers.get("X-Orch-Index") ?? 0),
  };
}

/** Numbers that JavaScript cannot hold keep their digits. */
function parsed(text: string): unknown {
  try {
    return parseExact(text);
  } catch {
    return text;
  }
}

function refusal(response: Response, body: unknown, text: string, wire: WireRequest): ApiError {
  const { errors, request_id } = (typeof body === "object" && body !== null ? body : {}) as {
    errors?: unknown;
    request_id?: unknown;
  };
  const words = Array.isArray(errors) ? errors.map(String) : text ? [text.slice(0, 2000)] : [];
  const id = typeof request_id === "string" ? request_id : response.headers.get("X-Request-Id");
  return new ApiError(response.status, words, wire, id);
}

/** Whether a refusal is about the token itself rather than about its rights. */
export const isTokenRefused = ({ status, messages }: ApiError): boolean =>
  status === 403 && messages.some((message) => /invalid token|bad token/i.test(message));

/** A 403 may mean that the token has ended: then the session ends, too. */
function noteRefusal(failure: ApiError): void {
  if (session.peek() && isTokenRefused(failure)) endSession("Your token is no longer valid. Log in again to continue.");
}
