import { gzipSync } from "node:zlib";
import type * as z from "zod";
import { knownFields } from "../../src/platform/http/unknown-fields.ts";
import { parseJsonObject, parseObject } from "../../src/routes/server/body.ts";
import { holdsDuration, schemaFields } from "../schema-walk.ts";
import { FOLLOWS_TOKEN } from "../support/follows-token.ts";
import { edited, type Path, pathsIn, respelt, twice, withMany } from "./edits.ts";
import { framings } from "./framings.ts";
import type { Random } from "./random.ts";
import type { Wire } from "./raw-http.ts";
import type { Place } from "./routes.ts";
import { fieldsOf } from "./sample.ts";
import { emptyDocuments, jsonValues, oddHeaders, partsOfSeconds, queryNames, queryValues, segments } from "./values.ts";
import { CANARY, type World } from "./world.ts";

/** A request that is wrong, or odd, in one way. */
export interface Mutant {
  readonly place: Place;
  readonly kind: Kind;
  readonly what: string;
  readonly wire: Wire;
  /** It can only be refused: with 4xx, or as a method that is none. */
  readonly refused: boolean;
  /** Pattern that the body of a success must match. */
  readonly told?: RegExp;
}

export type Kind =
  | "plain"
  | "body"
  | "field"
  | "duration"
  | "empty"
  | "unknown"
  | "path"
  | "query"
  | "header"
  | "token"
  | "method"
  | "framing"
  | "slow";

type Headers = (readonly [string, string])[];

/** A request, as far as it is other than the valid one. */
export interface Draft {
  readonly what: string;
  readonly method?: string;
  readonly target?: string;
  readonly headers?: Headers;
  readonly token?: string | null;
  readonly body?: Buffer | null;
  /** Instead of the length of the body; null = none at all. */
  readonly contentLength?: string | null;
  readonly slowly?: Wire["slowly"];
  readonly head?: string;
  readonly refused?: boolean;
  readonly told?: RegExp;
}

/** Fields whose text value has a specific meaning. */
const DOCUMENTS: ReadonlySet<string> = new Set(["policy", "Rules", "private_key"]);

const METHODS = { GET: "GET", LIST: "LIST", POST: "PUT", PATCH: "PATCH", DELETE: "DELETE" } as const;
const MIB = 1024 * 1024;

/** Makes requests of one route, wrong in the way that is asked for. */
export class Mutants {
  readonly #place: Place;
  readonly #world: World;
  readonly #random: Random;
  readonly #path: string;
  readonly #base: unknown;

  constructor(place: Place, world: World, random: Random) {
    this.#place = place;
    this.#world = world;
    this.#random = random;
    this.#path = world.pathOf(place);
    this.#base = takesBody(place) ? world.bodyOf(place) : undefined;
  }

  /** The kinds that make sense for the route. */
  get kinds(): readonly Kind[] {
    const always: Kind[] = ["plain", "path", "query", "header", "token", "method", "framing"];
    if (!takesBody(this.#place)) return always;
    const more: Kind[] = [
      ...(this.#fields(holdsDuration).length > 0 ? ["duration" as const] : []),
      ...(this.#documents().length > 0 ? ["empty" as const] : []),
      ...(this.#known === null ? [] : ["unknown" as const]),
    ];
    return [...always, "body", "field", "field", "slow", ...more];
  }

  make(kind: Kind): Mutant {
    const draft = this[kind]();
    const { what, refused = false, told } = draft;
    return { place: this.#place, kind, what, wire: this.#wire(draft), refused, ...(told && { told }) };
  }

  /** The route's valid request, so that later mutants also hit the state that it changes. */
  plain(): Draft {
    return { what: "nothing wrong" };
  }

  field(): Draft {
    const { body: schema } = this.#place.route;
    const random = this.#random;
    const paths = pathsIn(this.#base, []);
    const known = schema ? fieldsOf(schema) : [];
    const path = random.of(
      paths.length === 0 || (known.length > 0 && random.below(4) === 0)
        ? [[...known, "field"].slice(0, 1), ...known.map((name) => [name])]
        : paths,
    );
    const [what, json] = random.of(jsonValues);
    const ways = [
      () => [`${path.join(".")}: ${what}`, edited(this.#base, path, json)],
      () => [`${path.join(".")}: ${what}`, edited(this.#base, path, json)],
      () => [`${path.join(".")}: missing`, edited(this.#base, path, null)],
      () => [`${path.join(".")}: twice`, twice(this.#base, path, json)],
      () => [`${path.join(".")}: in other letters`, respelt(this.#base, path)],
      () => [`beside ${path.join(".")}: ${what}`, edited(this.#base, [...path.slice(0, -1), "unknown_field"], json)],
    ] as const;
    const [change = "", text = ""] = random.of(ways)();
    return { what: change, body: Buffer.from(text), refused: this.#mustRefuse(text) };
  }

  /** A length of time that is no whole second: rounded up or refused, and never for ever. */
  duration(): Draft {
    const path = this.#random.of(this.#fields(holdsDuration));
    const value = this.#random.of(partsOfSeconds);
    const text = edited(this.#base, path, JSON.stringify(value));
    // A token returns its TTL; upstream's text for a negative KV setting has a meaning.
    const isToken =
      /\/auth\/token\/create/.test(this.#place.name) && /^(ttl|period|explicit_max_ttl)$/.test(path.join());
    const told = isToken ? { told: /"lease_duration":1,/ } : {};
    return { what: `${path.join(".")}: ${value}`, body: Buffer.from(text), refused: this.#mustRefuse(text), ...told };
  }

  /** An accidentally empty document, which would remove the previous one's rules. */
  empty(): Draft {
    const path = this.#random.of(this.#documents());
    const json = this.#random.of(emptyDocuments);
    return { what: `${path.join(".")}: ${json}`, body: Buffer.from(edited(this.#base, path, json)), refused: true };
  }

  /** An unknown field: refused by the cluster API, reported in a warning by the secrets API. */
  unknown(): Draft {
    const [, json] = this.#random.of(jsonValues);
    const name = this.#random.of(["unknown_field", "Unknown", "polices", "tll"]);
    const body = Buffer.from(edited(this.#base, [name], json === "null" ? "1" : json));
    const inCluster = this.#place.area === "cluster";
    return { what: `${name} beside the others`, body, refused: inCluster, told: new RegExp(`warnings":\\[.*${name}`) };
  }

  #fields(holds: (schema: z.core.$ZodType) => boolean): Path[] {
    const { body } = this.#place.route;
    const found = body ? schemaFields(body) : [];
    return found.filter(({ schema }) => holds(schema)).map(({ name }) => name.split("."));
  }

  #documents = (): Path[] => this.#fields(() => true).filter((path) => DOCUMENTS.has(path.at(-1) ?? ""));

  get #known() {
    const { body, raw } = this.#place.route;
    return body === undefined || raw ? null : knownFields(body);
  }

  body(): Draft {
    const text = JSON.stringify(this.#base ?? {});
    const isJson = this.#place.area === "cluster";
    const bad = (what: string, body: Buffer | string) => ({
      what,
      body: Buffer.from(body),
      refused: !this.#place.route.raw,
    });
    const judged = (what: string, body: string) => ({ what, body: Buffer.from(body), refused: this.#mustRefuse(body) });
    return this.#random.of<() => Draft>([
      () => judged("no body", ""),
      () => judged("null", "null"),
      () => judged("a list", `["${CANARY}"]`),
      () => judged("a list of the body", `[${text}]`),
      () => judged("a text", `"${CANARY}"`),
      () => judged("a number", "17"),
      () => bad("malformed JSON", `{"data": ${CANARY}}`),
      () => bad("truncated JSON", `${text.slice(0, -1)},"x":"${CANARY}`),
      () => bad("two JSON values", `${text} {"x":"${CANARY}"}`),
      () => bad("single quotes", `{'data':'${CANARY}'}`),
      () => bad("a comment", `{/* ${CANARY} */}`),
      () => bad("NaN", '{"data":NaN}'),
      () => bad("a leading zero", '{"data":007}'),
      () => bad("bytes that are not UTF-8", Buffer.from([0x7b, 0x22, 0xff, 0xfe, 0x22, 0x3a, 0x31, 0x7d])),
      () => bad("UTF-16", Buffer.from(text, "utf16le")),
      () => judged("a byte order mark", `\ufeff${text}`),
      () => bad("nested 10 000 deep", `{"data":${"[".repeat(10_000)}"${CANARY}"${"]".repeat(10_000)}}`),
      () => bad("more than 1 MiB", `{"data":"${CANARY}${"x".repeat(MIB)}"}`),
      () => judged("1 MiB of spaces", text.padEnd(MIB)),
      () => judged("a form", `Name=${CANARY}&path=kv&__proto__=1`),
      () => judged("XML", `<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>`),
      () => judged("5 000 unknown fields", withMany(this.#base)),
      () => judged("a key __proto__", `{"__proto__":{"policies":["root"]},${text.slice(1)}`),
      () => judged("a key constructor", `{"constructor":{"prototype":{"policies":["root"]}},${text.slice(1)}`),
      () => ({
        ...bad("gzip, as the header says", gzipSync(text)),
        headers: [["Content-Encoding", "gzip"]],
      }),
      () => ({
        ...bad("gzip of 16 MiB", gzipSync(Buffer.alloc(16 * MIB, 32))),
        headers: [["Content-Encoding", "gzip"]],
      }),
      () => ({
        ...judged("of a strange type", text),
        headers: [
          [
            "Content-Type",
            this.#random.of([
              "text/html",
              "multipart/form-data",
              "application/json; charset=utf-16",
              "\u00ff",
              "x".repeat(5_000),
              "",
            ]),
          ],
        ],
        refused: isJson && this.#mustRefuse(text),
      }),
    ])();
  }

  path(): Draft {
    const random = this.#random;
    const segment = random.of(segments);
    const at = this.#path.split("/");
    const which = 1 + random.below(at.length - 1);
    const target = random.of<() => string>([
      () => at.with(which, segment).join("/"),
      () => `${this.#path}/${segment}`,
      () => `${this.#path}/`,
      () => `${this.#path}//`,
      () => this.#path.replaceAll("/", "//"),
      () => this.#path.toUpperCase(),
      () => `/v1${this.#path}`,
      () => this.#path.replace(/^\/v1/, ""),
      () => `/${segment}${this.#path}`,
      () => `${this.#path};${segment}`,
      () => `/v1/n${this.#path.slice(3)}`,
      () => at.map((each) => each.replace(/./g, (c) => `%${c.charCodeAt(0).toString(16)}`)).join("/"),
      () => `/v1/sys/../..${this.#path}`,
      () => `http://elsewhere.test${this.#path}`,
      () => `${this.#path}/${"a/".repeat(200)}`,
    ])();
    return { what: `path ${target.slice(0, 80)}`, target };
  }

  query(): Draft {
    const random = this.#random;
    const pairs: string[] = [];
    for (let left = 1 + random.below(3); left > 0; left--) {
      const name = random.of(queryNames);
      const value = random.of(queryValues);
      pairs.push(random.below(10) === 0 ? `${name}=${value}&${name}=${random.of(queryValues)}` : `${name}=${value}`);
    }
    const query = random.below(25) === 0 ? "x=1&".repeat(2_000) : pairs.join("&");
    // A blocking query waits as requested: only its duration is bounded here.
    const waits = /(^|&)index=/.test(query) ? `wait=20ms&${query.replace(/(^|&)wait=[^&]*/g, "")}` : query;
    const separator = this.#place.route.verb === "LIST" ? `?list=true&${waits}` : `?${waits}`;
    const method = this.#place.route.verb === "LIST" ? "GET" : METHODS[this.#place.route.verb];
    return { what: `query ${waits.slice(0, 80)}`, target: this.#path + separator, method };
  }

  header(): Draft {
    const { tokens } = this.#world;
    const [name, value] = this.#random.of(oddHeaders(tokens));
    return { what: `header ${name}: ${value.slice(0, 40)}`, headers: [[name, value]] };
  }

  token(): Draft {
    const { tokens } = this.#world;
    const { route, area } = this.#place;
    const open = route.access === "none";
    const only = (what: string, headers: Headers, refused = true): Draft => ({
      what: `token: ${what}`,
      token: null,
      headers,
      refused: refused && !open,
    });
    const inSecrets = area === "secrets";
    const needsToken = route.withoutToken === undefined;
    const isOfNamespace = inSecrets && !FOLLOWS_TOKEN.test(route.path);
    return this.#random.of<() => Draft>([
      () => only("none", [], needsToken),
      () => only("empty", [["X-Orch-Token", ""]], needsToken),
      () => only("unknown", [["X-Orch-Token", `hvs.${CANARY}`]]),
      () => only("revoked", [["X-Orch-Token", tokens.revoked]]),
      () => only("revoked, by upstream's header", [["X-Vault-Token", tokens.revoked]]),
      () => only("expired", [["Authorization", `Bearer ${tokens.expired}`]]),
      () => only("expired, by the other upstream's header", [["X-Nomad-Token", tokens.expired]]),
      () => only("of no policy", [["X-Orch-Token", tokens.powerless]], inSecrets),
      () => only("of another namespace", [["X-Orch-Token", tokens.elsewhere]], isOfNamespace),
      () => only("of another namespace, as a bearer", [["Authorization", `Bearer ${tokens.elsewhere}`]], isOfNamespace),
      () => only("of the cluster's clients", [["X-Orch-Token", tokens.client]], inSecrets),
      () => only("of the cluster's management", [["X-Nomad-Token", tokens.management]], false),
      () =>
        only("wrong before right", [
          ["X-Orch-Token", "wrong"],
          ["Authorization", `Bearer ${tokens.admin}`],
        ]),
      () =>
        only("twice", [
          ["X-Orch-Token", tokens.admin],
          ["X-Orch-Token", tokens.revoked],
        ]),
      () => only("twice in one header", [["X-Orch-Token", `${tokens.admin}, ${tokens.admin}`]]),
      () => only("as a cookie", [["Cookie", `token=${tokens.admin}`]], needsToken),
      () =>
        only(
          "of basic authentication",
          [["Authorization", `Basic ${Buffer.from(`:${tokens.admin}`).toString("base64")}`]],
          needsToken,
        ),
      () => only("without its first letter", [["X-Orch-Token", tokens.admin.slice(1)]]),
      () => only("in other letters", [["X-Orch-Token", tokens.admin.toUpperCase()]]),
      () => only("with more behind it", [["X-Orch-Token", `${tokens.admin}x`]]),
      () => only("of 10 000 characters", [["X-Orch-Token", "x".repeat(10_000)]]),
      () => only("of bytes", [["X-Orch-Token", "\u00ff\u00fe\u0080"]]),
      () => only("of an SQL phrase", [["X-Orch-Token", "' OR 1=1 --"]]),
      () => only("__proto__", [["X-Orch-Token", "__proto__"]]),
      () => ({ ...only("in the query", [], needsToken), target: `${this.#path}?token=${tokens.powerless}` }),
    ])();
  }

  method(): Draft {
    const { table, area } = this.#place;
    const at = this.#path.slice(this.#place.prefix.length);
    const known: readonly string[] = table.verbs(at);
    const method = this.#random.of([
      "GET",
      "HEAD",
      "LIST",
      "POST",
      "PUT",
      "PATCH",
      "DELETE",
      "OPTIONS",
      "TRACE",
      "CONNECT",
      "PROPFIND",
      "SEARCH",
      "get",
      "Post",
      "FOO",
      "G%45T",
      "GETX",
      "X".repeat(200),
    ]);
    const verb = { HEAD: "GET", PUT: "POST" }[method] ?? method;
    const served = known.includes(verb) || method === "OPTIONS" || (method === "LIST" && area === "cluster");
    return { what: `method ${method.slice(0, 20)}`, method, refused: !served };
  }

  framing(): Draft {
    const takes = takesBody(this.#place);
    const text = Buffer.from(JSON.stringify(this.#base ?? {}));
    const request = { method: METHODS[this.#place.route.verb], path: this.#path, text, takes };
    return this.#random.of(framings(request, this.#world.tokens.admin))();
  }

  slow(): Draft {
    const text = Buffer.from(JSON.stringify(this.#base ?? {}).padEnd(4_000));
    return this.#random.of<() => Draft>([
      () => ({ what: "a body that comes byte by byte", body: text, slowly: { piece: 1, pauseMs: 100 }, refused: true }),
      () => ({
        what: "a body that stops half way",
        body: text,
        slowly: { piece: 2_000, pauseMs: 3_600_000 },
        refused: true,
      }),
      () => ({ what: "a body that never comes", body: Buffer.alloc(0), contentLength: "100", refused: true }),
    ])();
  }

  #wire(draft: Draft): Wire {
    const verb = this.#place.route.verb;
    const method = draft.method ?? METHODS[verb];
    const given =
      draft.body === undefined && this.#base !== undefined ? Buffer.from(JSON.stringify(this.#base)) : draft.body;
    const isRead = method === "GET" || method === "HEAD";
    const body = given === null || given === undefined || (isRead && !draft.body) ? null : given;
    const headers: [string, string][] = [["Host", "sallyport.test"]];
    const { admin, spare } = this.#world.tokens;
    const ends = /revoke-self/.test(this.#path);
    if (draft.token !== null) headers.push(["X-Orch-Token", draft.token ?? (ends ? spare : admin)]);
    const own = draft.headers ?? [];
    if (method === "PATCH" && !own.some(([name]) => name === "Content-Type"))
      headers.push(["Content-Type", "application/merge-patch+json"]);
    const length = draft.contentLength === undefined ? (body ? String(body.length) : null) : draft.contentLength;
    if (length !== null) headers.push(["Content-Length", length]);
    return {
      method,
      target: draft.target ?? this.#path,
      headers: [...headers, ...own.map(([name, value]): [string, string] => [name, value])],
      ...(body && { body }),
      ...(draft.slowly && { slowly: draft.slowly }),
      ...(draft.head !== undefined && { head: draft.head }),
    };
  }

  /** Whether no text of this shape is valid for the route. */
  #mustRefuse(text: string): boolean {
    const { route } = this.#place;
    if (route.raw || !route.body) return false;
    try {
      // A byte order mark is no part of a text.
      const given = ("rights" in route ? parseJsonObject : parseObject)(text.replace(/^\ufeff/, ""), route.exact);
      const shown = Object.entries(given).filter(([, value]) => route.verb === "PATCH" || value !== null);
      return !route.body.safeParse(Object.fromEntries(shown)).success;
    } catch {
      return true;
    }
  }
}

const takesBody = ({ route }: Place): boolean => route.body !== undefined || route.raw === true;
