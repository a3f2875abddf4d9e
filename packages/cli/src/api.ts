import { setTimeout as sleep } from "node:timers/promises";
import { membersOf } from "../../relay/src/json-text.ts";
import { backoffMs } from "../../relay/src/wait.ts";
import { textOf } from "./command.ts";
import type { Server } from "./environment.ts";

/** A refused or failed request. The message has the path and the server's reason, never a body that was sent. */
export class ApiError extends Error {
  /** 0 without an answer. */
  readonly status: number;
  readonly reason: string;
  /** The capability that the request needs on its path; empty where it is not known. */
  readonly capability: string;

  constructor(status: number, request: string, reason: string, capability = "") {
    super(`${request}: ${status === 0 ? "" : `${status} `}${reason}`.trimEnd());
    this.status = status;
    this.reason = reason;
    this.capability = capability;
  }
}

const CAPABILITIES: Readonly<Record<string, string>> = {
  GET: "read",
  LIST: "list",
  POST: "create or update",
  PUT: "create or update",
  PATCH: "patch",
  DELETE: "delete",
};

/** The server did not answer this program's first request, or the request of a stream. */
export class Unreachable extends ApiError {}

interface Reply {
  readonly status: number;
  readonly text: string;
}

interface Sent {
  readonly query?: Readonly<Record<string, string>>;
  /** JSON. */
  readonly body?: string;
  /** Statuses that are answers and no failures, beside 2xx. */
  readonly accept?: readonly number[];
  /** Life of the token that the answer is wrapped into. */
  readonly wrapSeconds?: number;
}

/** The names of types and fields in answers; `Vault` names are known to every server. */
type Dialect = "Vault" | "Orch";

type Method = "GET" | "PUT" | "POST" | "PATCH" | "DELETE";

/** Answers after which the same request may succeed. 412: a replica that is behind. */
const TRANSIENT: ReadonlySet<number> = new Set([412, 429, 500, 502, 503, 504]);
const REQUEST_MS = 120_000;
/** Of the first request: a wrong address is told soon. */
const FIRST_MS = 10_000;
const MAX_RETRY_AFTER_MS = 60_000;

/** Requests to one server of Vault's API in one namespace. Transient failures are repeated with growing delays. */
export class Api {
  readonly #server: Server;
  readonly #retries: number;
  readonly #dialect: Dialect;
  readonly #contact: { hasAnswered: boolean };
  /** Gets a line for each repetition. */
  readonly #note: (line: string) => void;

  constructor(
    server: Server,
    retries: number,
    {
      dialect = "Vault",
      contact = { hasAnswered: false },
      note = () => undefined,
    }: {
      readonly dialect?: Dialect;
      readonly contact?: { hasAnswered: boolean };
      readonly note?: (line: string) => void;
    } = {},
  ) {
    this.#server = server;
    this.#retries = retries;
    this.#dialect = dialect;
    this.#contact = contact;
    this.#note = note;
  }

  get namespace(): string {
    return this.#server.namespace;
  }

  /** The same server in a namespace below. */
  below(name: string): Api {
    const namespace = [this.namespace, name].filter((part) => part !== "").join("/");
    const [dialect, contact, note] = [this.#dialect, this.#contact, this.#note];
    return new Api({ ...this.#server, namespace }, this.#retries, { dialect, contact, note });
  }

  /** @throws ApiError for other statuses than 2xx and `accept`, and without an answer */
  async call(method: Method, path: string, { query = {}, body, accept = [], wrapSeconds }: Sent = {}): Promise<Reply> {
    const url = new URL(`v1/${path}`, withSlash(this.#server.address));
    for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
    const shown = `${method} ${this.namespace === "" ? "" : `${this.namespace}/`}${path}`;
    for (let attempt = 0; ; attempt++) {
      const answer = await this.#send(method, url, body, wrapSeconds).catch((failure: unknown) => {
        if (!this.#contact.hasAnswered) throw new Unreachable(0, url.origin, `no answer: ${textOf(failure)}`);
        return new ApiError(0, shown, textOf(failure));
      });
      if (answer instanceof ApiError) {
        if (attempt >= this.#retries) throw answer;
        await this.#wait(backoffMs(attempt), answer);
        continue;
      }
      this.#contact.hasAnswered = true;
      const { status, text, retryAfterMs, location } = answer;
      if ((status >= 200 && status < 300) || accept.includes(status)) return { status, text };
      if (status >= 300 && status < 400)
        throw new ApiError(status, shown, `redirected to ${location}: use that address`);
      const capability = query["list"] === "true" ? "list" : CAPABILITIES[method];
      const refusal = new ApiError(status, shown, reasonOf(text), capability);
      if (!TRANSIENT.has(status) || attempt >= this.#retries) throw refusal;
      await this.#wait(Math.max(backoffMs(attempt), Math.min(retryAfterMs, MAX_RETRY_AFTER_MS)), refusal);
    }
  }

  #wait(ms: number, { message }: ApiError): Promise<void> {
    this.#note(`${message}: repeated in ${Math.ceil(ms / 1000)} s`);
    return sleep(ms);
  }

  /** The text of `data`; null for 404. @throws ApiError */
  async read(path: string, query: Readonly<Record<string, string>> = {}): Promise<string | null> {
    const { status, text } = await this.call("GET", path, { query, accept: [404] });
    if (status === 404 && !isJson(text)) throw new ApiError(404, `GET ${path}`, "not an answer of this API");
    return status === 404 ? null : dataOf(path, text);
  }

  /** Parsed `data` for fields without values of secrets; null for 404. @throws ApiError */
  async fields(path: string, query: Readonly<Record<string, string>> = {}): Promise<Fields | null> {
    const text = await this.read(path, query);
    const parsed: unknown = text === null ? null : JSON.parse(text);
    return typeof parsed === "object" ? (parsed as Fields | null) : {};
  }

  /** The keys of a list; none for 404, which is the answer of an empty one. @throws ApiError */
  async list(path: string): Promise<string[]> {
    const { keys } = (await this.fields(path, { list: "true" })) ?? {};
    return Array.isArray(keys) ? keys.filter((key) => typeof key === "string") : [];
  }

  /** @throws ApiError */
  async write(path: string, fields: object, method: Method = "POST"): Promise<void> {
    await this.call(method, path, { body: JSON.stringify(fields) });
  }

  /**
   * The lines of an answer that does not end, such as an event stream. The request is not repeated.
   * @throws ApiError before the first line, Unreachable
   */
  async *lines(
    path: string,
    query: readonly (readonly [string, string])[],
    {
      accept,
      signal,
      opened = () => undefined,
    }: { readonly accept: string; readonly signal: AbortSignal; readonly opened?: (headers: Headers) => void },
  ): AsyncGenerator<string> {
    const url = new URL(`v1/${path}`, withSlash(this.#server.address));
    for (const [name, value] of query) url.searchParams.append(name, value);
    const headers = { ...this.#headers(), Accept: accept };
    const response = await fetch(url, { redirect: "manual", signal, headers }).catch((failure: unknown) => {
      if (signal.aborted) throw failure;
      throw new Unreachable(0, url.origin, `no answer: ${textOf(failure)}`);
    });
    if (response.status !== 200) throw new ApiError(response.status, `GET ${path}`, reasonOf(await response.text()));
    opened(response.headers);
    if (response.body === null) return;
    let rest = "";
    for await (const text of response.body.pipeThrough(new TextDecoderStream())) {
      const lines = `${rest}${text}`.split("\n");
      rest = lines.pop() ?? "";
      yield* lines;
    }
  }

  #headers(): Record<string, string> {
    const { token, namespace } = this.#server;
    return {
      ...(token !== "" && { [`X-${this.#dialect}-Token`]: token }),
      ...(this.#dialect === "Vault" && { "X-Vault-Request": "true" }),
      ...(namespace !== "" && { [`X-${this.#dialect}-Namespace`]: namespace }),
    };
  }

  async #send(method: Method, url: URL, body: string | undefined, wrapSeconds: number | undefined) {
    const response = await fetch(url, {
      method,
      redirect: "manual",
      signal: AbortSignal.timeout(this.#contact.hasAnswered ? REQUEST_MS : FIRST_MS),
      headers: {
        ...this.#headers(),
        ...(wrapSeconds !== undefined && { [`X-${this.#dialect}-Wrap-TTL`]: `${wrapSeconds}s` }),
        ...(body !== undefined && {
          "Content-Type": method === "PATCH" ? "application/merge-patch+json" : "application/json",
        }),
      },
      ...(body !== undefined && { body }),
    });
    const text = await response.text();
    const retryAfterMs = Number(response.headers.get("retry-after") ?? 0) * 1000 || 0;
    return { status: response.status, text, retryAfterMs, location: response.headers.get("location") ?? "" };
  }
}

/** A namespace that does not exist yet, for plans: reads find nothing. */
export class EmptyApi extends Api {
  constructor(namespace: string) {
    super({ address: new URL("http://localhost"), token: "", namespace }, 0);
  }

  override async read(): Promise<null> {
    return null;
  }

  override below(name: string): Api {
    return new EmptyApi([this.namespace, name].filter((part) => part !== "").join("/"));
  }

  override call(): Promise<never> {
    return Promise.reject(new Error("a plan changes nothing"));
  }
}

// biome-ignore lint/suspicious/noExplicitAny: fields of answers, whose types the reader checks
export type Fields = Readonly<Record<string, any>>;

const withSlash = (url: URL): URL => new URL(url.pathname.endsWith("/") ? url.href : `${url.href}/`);

function isJson(text: string): boolean {
  try {
    return typeof JSON.parse(text) === "object";
  } catch {
    return false;
  }
}

function dataOf(path: string, text: string): string {
  if (!isJson(text)) throw new ApiError(200, `GET ${path}`, "not an answer of this API");
  return membersOf(text).get("data") ?? "null";
}

/** The reasons of `{"errors":[…]}`, also nested ones; nothing of other texts. */
function reasonOf(text: string): string {
  try {
    const { errors } = JSON.parse(text) as { errors?: unknown };
    return [errors]
      .flat(3)
      .filter((each) => typeof each === "string")
      .join("; ")
      .slice(0, 300);
  } catch {
    return /^[\w ,.:;'"()/-]{1,200}$/.test(text.trim()) ? text.trim() : "";
  }
}

/** A path with each segment encoded. @throws ApiError for names that every client resolves, so that they cannot be sent */
export function encoded(path: string): string {
  const segments = path.split("/");
  if (segments.some((segment) => segment === "." || segment === ".."))
    throw new ApiError(0, path, "a name . or .. cannot be requested");
  return segments.map(encodeURIComponent).join("/");
}
