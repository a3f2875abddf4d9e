import { createHash, createHmac, randomBytes } from "node:crypto";
import type { Claims } from "../cloud-b/login.ts";
import { DoubleAccount, fieldsOf, Refusal, type Reply, startHttpDouble } from "../http-double.ts";
import type { Loopback, Received } from "../loopback.ts";
import type { Fault } from "../stand-in.ts";

/**
 * The data plane of one Azure App Configuration store, API version 2023-11-01 and later. Stricter than the service:
 * unknown fields, query parameters and conditions are refused; judged by the vendor's client (sdk.test.ts).
 */

export interface Item {
  readonly key: string;
  readonly label: string | null;
  readonly value: string | null;
  readonly content_type: string | null;
  readonly tags: Readonly<Record<string, string>>;
  readonly etag: string;
  readonly last_modified: string;
  readonly locked: boolean;
}

const MEDIA_TYPE = "application/vnd.microsoft.appconfig.kv+json";
const PAGE = 100;
const MAX_BYTES = 10_240;
const MAX_SKEW_MS = 15 * 60_000;
/** Names under which the vendor's client describes itself or the request; they change no answer. */
const FREE_QUERY = new Set(["api-version", "key", "label", "$select", "after"]);

export class StoreAccount extends DoubleAccount {
  readonly accessKey = {
    id: `abc-l0-s0:${randomBytes(8).toString("hex")}`,
    secret: randomBytes(32).toString("base64"),
  };
  /** By key and label. */
  readonly items = new Map<string, Item>();
  /** Access keys may be disabled for a store. */
  takesAccessKeys = true;
  isFull = false;
  /** Where faults come from instead, when another double shares them. */
  sharedFault: (() => Fault | null) | null = null;
  #changes = 0;

  override nextFault(): Fault | null {
    return this.sharedFault === null ? super.nextFault() : this.sharedFault();
  }

  set(key: string, label: string | null, given: Partial<Item>): Item {
    this.#changes++;
    const fresh = { value: null, content_type: null, tags: {}, locked: false };
    const item: Item = {
      ...fresh,
      ...given,
      key,
      label,
      etag: randomBytes(20).toString("base64url"),
      last_modified: new Date().toISOString().replace(/\.\d+Z$/, "+00:00"),
    };
    this.items.set(idOf(key, label), item);
    return item;
  }

  /** The token of the store's newest state. */
  get syncToken(): string {
    return `zAJw6V16=${Buffer.from(`6:1#${this.#changes}`).toString("base64")};sn=${this.#changes}`;
  }
}

export const idOf = (key: string, label: string | null): string => JSON.stringify([key, label]);

const refuse = (status: number, type: string, title: string, more: object = {}) =>
  new Refusal(
    status,
    { type: `https://azconfig.io/errors/${type}`, title, status, ...more },
    { "content-type": "application/problem+json; charset=utf-8" },
  );

const invalid = (name: string, detail: string) =>
  refuse(400, "invalid-argument", `Invalid request parameter '${name}'`, { name, detail });

const unauthorized = (challenge: string) => new Refusal(401, "", { "www-authenticate": challenge });

interface StoreRules {
  /** The claims of an Entra token; null when it is not valid. */
  readonly verify: (token: string) => Claims | null;
  /** The tenant of the store's subscription. */
  readonly tenantId: string;
  /** Applications with the role App Configuration Data Owner. */
  readonly owners: readonly string[];
}

function authenticate(request: Received, account: StoreAccount, rules: StoreRules): void {
  const [, scheme = "", rest = ""] = /^(\S+) (.*)$/.exec(request.headers["authorization"] ?? "") ?? [];
  if (scheme === "Bearer") {
    const claims = rules.verify(rest);
    const wrong = (why: string) =>
      unauthorized(`HMAC-SHA256, Bearer error="invalid_token", error_description="${why}"`);
    if (claims?.aud !== "https://azconfig.io") throw wrong("Authorization token failed validation");
    if (claims.tid !== rules.tenantId) throw wrong("The access token is from the wrong issuer.");
    if (!rules.owners.includes(claims.appid)) throw refuse(403, "forbidden", "The principal lacks a role");
    return;
  }
  if (scheme !== "HMAC-SHA256") throw unauthorized("HMAC-SHA256, Bearer");
  const wrong = (why: string) => unauthorized(`HMAC-SHA256 error="invalid_token" error_description="${why}", Bearer`);
  const parts = new Map(
    rest.split("&").map((part) => [part.split("=", 1)[0] ?? "", part.slice(part.indexOf("=") + 1)]),
  );
  const { Credential: id, SignedHeaders: signed, Signature: signature } = Object.fromEntries(parts);
  if (!id || !signed || !signature || parts.size !== 3)
    throw wrong("[Credential][SignedHeaders][Signature] is required");
  if (id !== account.accessKey.id || !account.takesAccessKeys) throw wrong("Invalid Credential");
  const names = signed.split(";");
  for (const name of ["x-ms-date", "host", "x-ms-content-sha256"]) {
    if (!names.includes(name)) throw wrong(`${name} is required as a signed header`);
  }
  const date = Date.parse(request.headers["x-ms-date"] ?? "");
  if (Number.isNaN(date)) throw wrong("Invalid access token date");
  if (Math.abs(Date.now() - date) > MAX_SKEW_MS) throw wrong("The access token has expired");
  const hash = createHash("sha256").update(request.body).digest("base64");
  if (request.headers["x-ms-content-sha256"] !== hash) throw wrong("Invalid Signature");
  const text = `${request.method}\n${request.target}\n${names.map((name) => request.headers[name] ?? "").join(";")}`;
  const secret = Buffer.from(account.accessKey.secret, "base64");
  if (createHmac("sha256", secret).update(text).digest("base64") !== signature) throw wrong("Invalid Signature");
}

/** Throws 412 unless the request's conditions hold for the item. */
function checkConditions({ headers }: Received, item: Item | undefined): void {
  const [match, noneMatch] = [headers["if-match"], headers["if-none-match"]];
  const isThis = (condition: string): boolean => {
    if (condition === "*") return item !== undefined;
    const etag = /^"([^"]+)"$/.exec(condition)?.[1];
    if (etag === undefined) throw invalid("If-Match", "An entity tag is quoted");
    return item?.etag === etag;
  };
  if (match !== undefined && noneMatch !== undefined) throw invalid("If-Match", "Only one condition is possible");
  const holds = (match === undefined || isThis(match)) && (noneMatch === undefined || !isThis(noneMatch));
  if (!holds) throw new Refusal(412, "");
}

function contentOf(request: Received, key: string, label: string | null): Partial<Item> {
  const type = request.headers["content-type"] ?? "";
  // The vendor's client sends plain JSON.
  if (!type.startsWith(MEDIA_TYPE) && !type.startsWith("application/json"))
    throw refuse(415, "unsupported-media-type", "Unsupported media type");
  const known = ["key", "label", "value", "content_type", "tags"];
  const {
    value = null,
    content_type = null,
    tags = {},
    ...named
  } = fieldsOf(request, known, (why) => invalid("body", why));
  if ((named["key"] ?? key) !== key || (named["label"] ?? label) !== label)
    throw invalid("key", "It differs from the path");
  for (const [name, text] of Object.entries({ value, content_type })) {
    if (text !== null && typeof text !== "string") throw invalid(name, "It is not a text");
  }
  if (typeof tags !== "object" || tags === null || Object.values(tags).some((text) => typeof text !== "string")) {
    throw invalid("tags", "They are not texts by name");
  }
  if (Buffer.byteLength(JSON.stringify([key, label, value, content_type, tags])) > MAX_BYTES) {
    throw refuse(413, "too-large", "The key-value is too large");
  }
  return { value, content_type, tags } as Partial<Item>;
}

/** Whether a text matches a filter: exact, or a prefix with `*`; no lists. */
function matches(filter: string | null, text: string | null): boolean {
  if (filter === null || filter === "*") return true;
  if (filter === "\0") return text === null;
  if (/[,\\]|\*./.test(filter)) throw invalid("filter", "Not taken by the double");
  return filter.endsWith("*") ? (text ?? "").startsWith(filter.slice(0, -1)) : text === filter;
}

function list(url: URL, account: StoreAccount): Reply {
  const [key, label, after = ""] = [
    url.searchParams.get("key"),
    url.searchParams.get("label"),
    url.searchParams.get("after") ?? "",
  ];
  const found = [...account.items.values()]
    .filter((item) => matches(key, item.key) && matches(label, item.label))
    .sort((a, b) => (idOf(a.key, a.label) < idOf(b.key, b.label) ? -1 : 1))
    .filter((item) => idOf(item.key, item.label) > Buffer.from(after, "base64url").toString());
  const items = found.slice(0, PAGE);
  const last = items.at(-1);
  const next = new URL(url);
  next.searchParams.delete("after");
  if (last) next.searchParams.set("after", Buffer.from(idOf(last.key, last.label)).toString("base64url"));
  const more = found.length > PAGE ? { "@nextLink": next.pathname + next.search } : {};
  return {
    status: 200,
    body: { items, ...more },
    headers: { "content-type": "application/vnd.microsoft.appconfig.kvset+json; charset=utf-8" },
  };
}

function perform(request: Received, account: StoreAccount): Reply {
  const { method, url } = request;
  const query = url.searchParams;
  for (const name of query.keys()) {
    if (!FREE_QUERY.has(name.toLowerCase()) || query.getAll(name).length > 1) throw invalid(name, "It is unknown");
  }
  if (!/^(1\.0|20\d\d-\d\d-\d\d)$/.test(query.get("api-version") ?? "")) throw invalid("api-version", "It is required");
  if (url.pathname === "/kv" && method === "GET") return list(url, account);
  const [, area, name, ...more] = url.pathname.split("/");
  if (!/^(kv|locks)$/.test(area ?? "") || !name || more.length > 0) throw new Refusal(404, "");
  const [key, given] = [decodeURIComponent(name), query.get("label")];
  if (key.includes("%") || key === "." || key === "..") throw invalid("key", "Invalid character");
  const label = given === null || given === "" || given === "\0" ? null : given;
  if (/[*,\\]/.test(label ?? "")) throw invalid("label", "Invalid character");
  const item = account.items.get(idOf(key, label));
  const shown = (changed: Item): Reply => ({
    status: 200,
    body: changed,
    headers: {
      "content-type": `${MEDIA_TYPE}; charset=utf-8`,
      etag: `"${changed.etag}"`,
      "sync-token": account.syncToken,
    },
  });
  checkConditions(request, item);
  if (area === "locks") {
    if (item === undefined) throw new Refusal(404, "");
    return shown(account.set(key, label, { ...item, locked: method === "PUT" }));
  }
  if (method === "GET") {
    if (item === undefined) throw new Refusal(404, "");
    return shown(item);
  }
  if (item?.locked) throw refuse(409, "key-locked", `Modifing key '${key}' is not allowed`, { name: key });
  if (method === "PUT") {
    const content = contentOf(request, key, label);
    if (account.isFull) {
      throw refuse(429, "too-many-requests", "Resource utilization has surpassed the assigned quota", {
        policy: "Storage",
      });
    }
    return shown(account.set(key, label, content));
  }
  if (method !== "DELETE") throw new Refusal(405, "");
  if (item === undefined) return { status: 204 };
  account.items.delete(idOf(key, label));
  return shown(item);
}

export interface ConfigDouble extends Loopback {
  readonly account: StoreAccount;
}

/** Starts a store on a host of its own. */
export async function startConfigStore(rules: StoreRules): Promise<ConfigDouble> {
  const account = new StoreAccount();
  const throttled = refuse(429, "too-many-requests", "Resource utilization has surpassed the assigned quota", {
    policy: "Total Requests",
  }).reply;
  const double = await startHttpDouble<StoreAccount>({
    authenticate(request) {
      authenticate(request, account, rules);
      return account;
    },
    perform,
    isWrite: ({ method }) => method !== "GET",
    refusals: {
      throttled: { ...throttled, headers: { ...throttled.headers, "retry-after-ms": "787" } },
      unavailable: { status: 503, headers: { "retry-after-ms": "787" } },
      forbidden: refuse(403, "forbidden", "Forbidden").reply,
    },
  });
  return { ...double, account };
}
