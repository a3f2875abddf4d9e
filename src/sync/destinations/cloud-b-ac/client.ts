import { createHash, createHmac } from "node:crypto";
import * as z from "zod";
import { memo } from "../../../lib/memo.ts";
import { applicationOf, authorizedSend, clouds, headersOf } from "../../../providers/cloud-b-azure/login.ts";
import { failure, type Send } from "../../../providers/outcome.ts";
import {
  contentOf,
  type Meaning,
  notSent,
  type RestMethod,
  type RestRefused,
  restClient,
} from "../../../providers/rest.ts";
import { cloudOf } from "../cloud-b-kv/client.ts";
import type { CallContext } from "../destination-type.ts";
import type { ConfigConnection } from "./connection.ts";
import { refuseStoreHost, suffixOf } from "./hosts.ts";

export type ConfigStore = ReturnType<typeof configStore>;

/** A key-value as it is written: a write replaces all of it. */
export interface Content {
  readonly value: string;
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
  /** A key-value as it is stored. */
  item: z
    .object({
      etag: etag(),
      value: z.string().nullish(),
      content_type: z.string().nullish(),
      tags: z.record(z.string(), z.string().nullable()).nullish(),
    })
    .transform(({ etag, value = null, content_type: type, tags }) => {
      const texts = Object.entries(tags ?? {}).map(([name, text]) => [name, text ?? ""] as const);
      return { etag, value, content_type: type ?? "", tags: Object.fromEntries(texts) };
    }),
  page: z.object({ items: z.array(z.object({ key: z.string() })), "@nextLink": z.string().nullish() }),
  problem: z.object({ type: z.string().catch(""), policy: z.string().catch("") }),
}));
export type Item = z.infer<ReturnType<typeof schemas>["item"]>;

/** A client of the store, in the connection's label. Each call is sent once; the caller retries. */
export function configStore(connection: ConfigConnection, context: CallContext) {
  const { settings, send } = context;
  const { endpoint, label } = connection;
  const labelled = label === undefined ? "" : `label=${escaped(label)}&`;
  const cloud = cloudOf(connection) ?? clouds[0];
  const resource = `https://${suffixOf(connection)}`;
  const account = applicationOf(connection, context, resource, settings.CLOUD_B_LOGIN_URL, cloud);
  const authorized = connection.access_key_id ? signing(connection, send) : authorizedSend(account, send);
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
    /** Null: there is no such key-value. */
    async read(key: string): Promise<{ ok: true; item: Item | null } | RestRefused> {
      const answer = await call(`Reading ${key}`, "GET", at(key));
      if (!answer.ok && answer.status === 404) return { ok: true, item: null };
      const read = contentOf(answer, schemas().item);
      return read.ok ? { ok: true, item: read.content } : read;
    },

    /** @param match the version to replace; null creates. Another one is refused with status 412. */
    async write(key: string, content: Content, match: string | null) {
      const condition = match === null ? { "if-none-match": "*" } : { "if-match": `"${match}"` };
      return contentOf(await call(`Writing ${key}`, "PUT", at(key), condition, content), schemas().written);
    },

    /** Deletes a key-value, also an absent one. @param match the version to delete; null is any */
    async delete(key: string, match: string | null) {
      const condition = match === null ? {} : { "if-match": `"${match}"` };
      return call(`Deleting ${key}`, "DELETE", at(key), condition);
    },

    /** One page of keys. @param after empty for the first page; `after` of the answer is null on the last one */
    async list(after: string): Promise<{ ok: true; keys: string[]; after: string | null } | RestRefused> {
      const query = `label=${escaped(label ?? NO_LABEL)}&$Select=key&api-version=${API_VERSION}`;
      const path = `/kv?key=*&${query}${after && `&after=${escaped(after)}`}`;
      const page = contentOf(await call("Listing the key-values", "GET", path), schemas().page);
      if (!page.ok) return page;
      const { items, "@nextLink": next } = page.content;
      // Only the position is used: credentials are sent to the host of the endpoint only.
      const position = next ? URL.parse(next, endpoint)?.searchParams.get("after") : null;
      return { ok: true, keys: items.map(({ key }) => key), after: position || null };
    },

    /** Lists no key-values, which requires the right to read. */
    check: () => call("Listing the key-values", "GET", `/kv?key=sallyport-connection-check&api-version=${API_VERSION}`),
  };
}

/** Percent-encodes all but the unreserved characters of RFC 3986, so that the URL is sent as it was signed. */
const escaped = (text: string): string =>
  encodeURIComponent(text).replace(/[!'()*]/g, (one) => `%${one.charCodeAt(0).toString(16).toUpperCase()}`);

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
