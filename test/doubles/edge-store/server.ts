import type { IncomingMessage, ServerResponse } from "node:http";
import * as z from "zod";
import { ApiError, enveloped, type Fault, Page, send } from "../edge-worker/envelope.ts";
import { bodyOf, startLoopback } from "../loopback.ts";

/**
 * The part of the Cloudflare API about the secrets of a Secrets Store, on loopback. Stricter than the real one: no unknown
 * fields or parameters, and a new secret is `pending` until it is listed. Each account has one store.
 */

export interface Stored {
  readonly id: string;
  readonly name: string;
  value: string;
  comment: string;
  scopes: readonly string[];
  status: "pending" | "active" | "deleted";
  readonly created: string;
  modified: string;
}

const id = () => crypto.randomUUID().replaceAll("-", "");

export class Account {
  readonly id = id();
  readonly store = id();
  readonly token = `cf-${crypto.randomUUID()}`;
  readonly secrets: Stored[] = [];
  readonly faults: Fault[] = [];
  readonly calls: string[] = [];
  /** The most secrets of a page, whatever a request says. */
  pageLimit = 100;
  /** Whether lists say how many pages there are. */
  countsPages = true;
  #lastTime = 0;

  get body() {
    return { account_id: this.id, store_id: this.store, api_token: this.token };
  }

  writes(): number {
    return this.calls.filter((call) => call !== "GET").length;
  }

  create({ name, value, scopes, comment }: z.infer<typeof Creation>): Stored {
    if (this.secrets.some((one) => one.name === name))
      throw new ApiError(409, 1003, `secret_name_already_exists ${value}`);
    if (this.secrets.length >= 100) throw new ApiError(400, 1004, "maximum_secrets_exceeded");
    const created = this.#time();
    const stored: Stored = { id: id(), name, value, comment, scopes, status: "pending", created, modified: created };
    this.secrets.push(stored);
    return stored;
  }

  change(stored: Stored, change: z.infer<typeof Change>): Stored {
    return Object.assign(stored, change, { modified: this.#time() });
  }

  /** Never the same twice. */
  #time(): string {
    this.#lastTime = Math.max(Date.now(), this.#lastTime + 1);
    return new Date(this.#lastTime).toISOString();
  }
}

export interface StoreDouble {
  readonly url: string;
  open(): Account;
  close(): Promise<void>;
}

const value = z.string().refine((text) => Buffer.byteLength(text) <= 65_536);
const scopes = z.array(z.enum(["workers", "ai_gateway", "dex", "access", "containers", "websearch"])).min(1);
const Creation = z.strictObject({
  name: z.string().regex(/^[\w-]{1,255}$/),
  value,
  scopes,
  comment: z.string(),
});
const Change = z.strictObject({ value, scopes, comment: z.string() }).partial();

export async function startEdgeStore({ port = 0 } = {}): Promise<StoreDouble> {
  const accounts = new Map<string, Account>();

  function answer(method: string, url: URL, headers: IncomingMessage["headers"], text: string): unknown {
    const token = /^Bearer (.+)$/.exec(headers.authorization ?? "")?.[1] ?? "";
    const holder = [...accounts.values()].find((one) => one.token === token);
    if (/^\/(user|accounts\/\w+)\/tokens\/verify$/.test(url.pathname) && method === "GET") {
      if (!holder || url.pathname.startsWith("/user/")) throw new ApiError(401, 1000, "Invalid API Token");
      return { id: "1", status: "active" };
    }
    const [, account, store, secret] =
      /^\/accounts\/(\w+)\/secrets_store\/stores\/(\w+)\/secrets(?:\/(\w+))?$/.exec(url.pathname) ?? [];
    if (!store) throw new ApiError(404, 7003, `Could not route to ${url.pathname}`);
    if (!holder || holder.id !== account) throw new ApiError(403, 10_000, "Authentication error");
    if (store !== holder.store) throw new ApiError(404, 1001, "store_not_found");
    if (method !== "GET" && method !== "DELETE" && headers["content-type"] !== "application/json") {
      throw new ApiError(415, 1002, "media type");
    }
    if (secret === undefined) {
      if (method === "GET") return list(holder, url.searchParams);
      if (method !== "POST") throw new ApiError(405, 1002, "Method not allowed");
      return parse(z.array(Creation).min(1), text).map((one) => shown(holder, holder.create(one)));
    }
    const found = holder.secrets.find((one) => one.id === secret);
    if (!found) throw new ApiError(404, 1001, "secret_not_found");
    if (method === "PATCH") return shown(holder, holder.change(found, parse(Change, text)));
    if (method !== "DELETE" || text !== "") throw new ApiError(405, 1002, "Method not allowed");
    holder.secrets.splice(holder.secrets.indexOf(found), 1);
    return shown(holder, { ...found, status: "deleted" });
  }

  async function serve(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const text = String(await bodyOf(incoming));
    const { method = "", headers } = incoming;
    const url = new URL(incoming.url ?? "", "http://double");
    const account = accounts.get(/^\/accounts\/(\w+)\/secrets_store\//.exec(url.pathname)?.[1] ?? "");
    account?.calls.push(method);
    const fault = method === "GET" ? undefined : account?.faults.shift();
    if (fault?.kind === "cut") return void incoming.socket.destroy();
    if (fault?.kind === "status") {
      const errors = fault.errors ?? [{ code: 10_001, message: "fault" }];
      return send(outgoing, fault.status ?? 503, { success: false, errors, messages: [], result: null }, fault.headers);
    }
    const [status, body] = enveloped(() => answer(method, url, headers, text));
    if (fault?.kind === "lost") incoming.socket.destroy();
    else send(outgoing, status, body);
  }

  const { url, close } = await startLoopback(serve, port);
  return {
    url,
    open() {
      const account = new Account();
      accounts.set(account.id, account);
      return account;
    },
    close,
  };
}

function list(account: Account, query: URLSearchParams): Page {
  const [page, size] = [Number(query.get("page")), Number(query.get("per_page"))];
  if ([...query.keys()].sort().join() !== "page,per_page" || !(page >= 1) || !(size >= 1 && size <= 100)) {
    throw new ApiError(400, 1002, "query");
  }
  const per_page = Math.min(size, account.pageLimit);
  const secrets = account.secrets.slice((page - 1) * per_page, page * per_page).map((one) => shown(account, one));
  const total_count = account.secrets.length;
  const total_pages = Math.ceil(total_count / per_page);
  const info = { page, per_page, count: secrets.length, total_count, total_pages };
  return new Page(secrets, account.countsPages ? info : undefined);
}

const shown = ({ store }: Account, { value: _value, ...secret }: Stored): object => ({ ...secret, store_id: store });

function parse<T>(schema: z.ZodType<T>, text: string): T {
  const parsed = schema.safeParse(JSON.parse(text));
  if (!parsed.success) throw new ApiError(400, 1002, `invalid body ${text}`);
  return parsed.data;
}
