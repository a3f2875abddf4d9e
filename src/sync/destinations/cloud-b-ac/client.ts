import { createHash, createHmac } from "node:crypto";
import * as z from "zod";
import { memo } from "../../../lib/memo.ts";
import { clouds, sendAuthorized } from "../../../providers/cloud-b-azure/login.ts";
import { failure, type Send } from "../../../providers/outcome.ts";
import {
  type Meaning,
  notSent,
  type RestAnswer,
  type RestMethod,
  type RestRefused,
  restClient,
  unreadable,
} from "../../../providers/rest.ts";
import { cloudOf } from "../cloud-b-kv/client.ts";
import type { CallContext } from "../destination-type.ts";
import type { ConfigConnection } from "./connection.ts";
import { refuseStoreHost, suffixOf } from "./hosts.ts";

/** The data plane of one App Configuration store, in the connection's label. */
export interface ConfigStore {
  /** Null: there is no such key-value. */
  read(key: string): Promise<{ readonly ok: true; readonly item: Item | null } | RestRefused>;
  /** @param match the version to replace; null creates. Another one is refused with status 412. */
  write(
    key: string,
    content: Content,
    match: string | null,
  ): Promise<{ readonly ok: true; readonly etag: string } | RestRefused>;
  /** Deletes a key-value, also an absent one. @param match the version to delete; null is any */
  delete(key: string, match: string | null): Promise<{ readonly ok: true } | RestRefused>;
  /** One page of keys. @param after empty for the first page; `after` of the answer is null on the last one */
  list(
    after: string,
  ): Promise<{ readonly ok: true; readonly keys: string[]; readonly after: string | null } | RestRefused>;
  /** Lists no key-values, which requires the right to read. */
  check(): Promise<RestAnswer>;
}

/** A key-value as it is written: a write replaces all of it. */
export interface Content {
  readonly value: string;
  readonly content_type: string;
  readonly tags: Readonly<Record<string, string>>;
}

/** A key-value as it is stored. */
export interface Item {
  readonly etag: string;
  readonly value: string | null;
  readonly content_type: string;
  readonly tags: Readonly<Record<string, string>>;
}

/** The filter of key-values without a label. */
const NO_LABEL = "\0";
const API_VERSION = "2023-11-01";
const MEDIA_TYPE = "application/vnd.microsoft.appconfig.kv+json";

/** Part of a reference, and sent as a header. */
const etag = () => z.string().regex(/^[\x21\x23-\x7e]{1,256}$/);

const schemas = memo(() => ({
  written: z.object({ etag: etag() }),
  item: z.object({
    etag: etag(),
    value: z.string().nullish(),
    content_type: z.string().nullish(),
    tags: z.record(z.string(), z.string().nullable()).nullish(),
  }),
  page: z.object({ items: z.array(z.object({ key: z.string() })), "@nextLink": z.string().nullish() }),
  problem: z.object({ type: z.string().catch(""), policy: z.string().catch("") }),
}));

/** A client of the store. Each call is sent once; the caller retries. */
export function configStore(connection: ConfigConnection, context: CallContext): ConfigStore {
  const { settings, send } = context;
  const { endpoint, label } = connection;
  const labelled = label === undefined ? "" : `label=${escaped(label)}&`;
  const authorized = connection.access_key_id ? signing(connection, send) : applicationOf(connection, context);
  const consistent = consistentSend(authorized);

  async function call(
    doing: string,
    method: RestMethod,
    path: string,
    headers: Record<string, string> = {},
    body?: Content,
  ) {
    // Checked again before credentials are sent: settings may have changed since the destination was written.
    const refused = refuseStoreHost(connection, settings);
    if (refused !== null) return notSent(failure("client", "host_not_allowed", `${refused}.`));
    const accept = `${MEDIA_TYPE}, application/problem+json`;
    const rest = restClient({
      base: endpoint,
      headers: { accept, ...headers },
      contentType: MEDIA_TYPE,
      send: consistent,
      meaningOf,
    });
    return rest(doing, method, path, body);
  }
  const at = (key: string) => `/kv/${escaped(key)}?${labelled}api-version=${API_VERSION}`;

  return {
    async read(key) {
      const doing = `Reading ${key}`;
      const answer = await call(doing, "GET", at(key));
      if (!answer.ok) return answer.status === 404 ? { ok: true, item: null } : answer;
      const parsed = schemas().item.safeParse(answer.body);
      if (!parsed.success) return unreadable(doing, "GET");
      const { etag: version, value = null, content_type, tags } = parsed.data;
      const texts = Object.entries(tags ?? {}).map(([name, text]) => [name, text ?? ""]);
      return {
        ok: true,
        item: { etag: version, value, content_type: content_type ?? "", tags: Object.fromEntries(texts) },
      };
    },

    async write(key, content, match) {
      const doing = `Writing ${key}`;
      const condition = match === null ? { "if-none-match": "*" } : { "if-match": `"${match}"` };
      const answer = await call(doing, "PUT", at(key), condition, content);
      if (!answer.ok) return answer;
      const parsed = schemas().written.safeParse(answer.body);
      return parsed.success ? { ok: true, etag: parsed.data.etag } : unreadable(doing, "PUT");
    },

    async delete(key, match) {
      const condition = match === null ? {} : { "if-match": `"${match}"` };
      return call(`Deleting ${key}`, "DELETE", at(key), condition);
    },

    async list(after) {
      const doing = "Listing the key-values";
      const query = `label=${escaped(label ?? NO_LABEL)}&$Select=key&api-version=${API_VERSION}`;
      const answer = await call(doing, "GET", `/kv?key=*&${query}${after && `&after=${escaped(after)}`}`);
      if (!answer.ok) return answer;
      const parsed = schemas().page.safeParse(answer.body);
      if (!parsed.success) return unreadable(doing, "GET");
      const { items, "@nextLink": next } = parsed.data;
      // Only the position is used: credentials are sent to the host of the endpoint only.
      const position = next ? URL.parse(next, endpoint)?.searchParams.get("after") : null;
      return { ok: true, keys: items.map(({ key }) => key), after: position || null };
    },

    check: () => call("Listing the key-values", "GET", `/kv?key=sallyport-connection-check&api-version=${API_VERSION}`),
  };
}

/** Percent-encodes all but the unreserved characters of RFC 3986, so that the URL is sent as it was signed. */
const escaped = (text: string): string =>
  encodeURIComponent(text).replace(/[!'()*]/g, (one) => `%${one.charCodeAt(0).toString(16).toUpperCase()}`);

function applicationOf(connection: ConfigConnection, { settings, send, identity }: CallContext): Send {
  const { tenant_id: tenantId = "", client_id: clientId = "", client_secret: clientSecret = "" } = connection;
  const account = {
    tenantId,
    clientId,
    resource: `https://${suffixOf(connection)}`,
    ...(identity === undefined ? { clientSecret } : { assertion: identity }),
    loginUrl: settings.CLOUD_B_LOGIN_URL?.replace(/\/+$/, "") || (cloudOf(connection) ?? clouds[0]).loginUrl,
  };
  return ([url, init]) => sendAuthorized(account, [url, { ...init, headers: headersOf(init) }], send);
}

const headersOf = ({ headers }: RequestInit): Record<string, string> => Object.fromEntries(new Headers(headers));

/** Signs requests with an access key ("HMAC authentication", Azure App Configuration REST API). */
function signing({ access_key_id: id = "", access_key_secret: secret = "" }: ConfigConnection, send: Send): Send {
  return ([target, init]) => {
    const url = new URL(target);
    const date = new Date().toUTCString();
    const hash = createHash("sha256")
      .update(String(init.body ?? ""))
      .digest("base64");
    const text = `${init.method}\n${url.pathname}${url.search}\n${date};${url.host};${hash}`;
    const signature = createHmac("sha256", Buffer.from(secret, "base64")).update(text).digest("base64");
    const headers = {
      ...headersOf(init),
      "x-ms-date": date,
      "x-ms-content-sha256": hash,
      authorization: `HMAC-SHA256 Credential=${id}&SignedHeaders=x-ms-date;host;x-ms-content-sha256&Signature=${signature}`,
    };
    return send([url.href, { ...init, headers }]);
  };
}

/** Sends the newest `Sync-Token` back, so that a read after a write finds it at every replica of the store. */
function consistentSend(send: Send): Send {
  const tokens = new Map<string, string>();
  return async ([url, init]) => {
    const token = [...tokens].map(([id, value]) => `${id}=${value}`).join(",");
    const headers = { ...headersOf(init), ...(token && { "sync-token": token }) };
    const sent = await send([url, { ...init, headers }]);
    const given = sent.ok ? (sent.response.headers.get("sync-token") ?? "") : "";
    for (const [, id = "", value = ""] of given.matchAll(/([\w-]{1,64})=([\w+/=.-]{1,512});sn=\d+/g))
      tokens.set(id, value);
    return sent;
  };
}

function meaningOf(status: number, body: unknown): Meaning | null {
  const { type = "", policy = "" } = schemas().problem.safeParse(body).data ?? {};
  if (status === 409 && type.endsWith("/key-locked")) return ["client", "locked", "the key-value is locked; unlock it"];
  if (status === 412) return ["external", "conflict", "something else changes it at the same time"];
  // The store's size is a quota like its rates, and is not relieved by waiting.
  if (status === 429 && policy.includes("Storage")) return ["client", "quota_exceeded", "the store is full"];
  return null;
}
