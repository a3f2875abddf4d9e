import { exports } from "cloudflare:workers";
import { expect } from "vitest";
import { NAMESPACE_CAPABILITIES } from "../../src/contracts/cluster-rights.ts";
import type { AnyRoute, RouteTable } from "../../src/routes/server/route.ts";
import { isLong, part } from "../support/long.ts";
import { holderOf, issue } from "./access.ts";
import { leastBody } from "./bad-input.ts";
import { get, put } from "./client.ts";
import { examples } from "./examples.ts";

/**
 * Shared by the tests of rights: each route as a request, tokens with each right and with all others, and the
 * authorized callers.
 */

/** One route and its required right. */
export interface Row {
  readonly name: string;
  readonly right: string;
  readonly method: string;
  /** Without `/v1`. */
  readonly path: string;
  /** The path in the words of policies, if it differs. */
  readonly ruled?: string;
  readonly query: string;
  readonly body: unknown;
}

/** Requests of routes that need more than a path and a minimal body. */
export interface Asks {
  readonly [name: string]: { readonly query?: string; readonly body?: unknown; readonly path?: string };
}

/** The rows of a table of routes. Fails for a route without a row or a row without a route. */
export function rowsOf(
  tables: readonly (readonly [prefix: string, table: RouteTable<AnyRoute>])[],
  rights: Readonly<Record<string, string>>,
  asks: Asks,
  named: string,
): Row[] {
  const rows = tables.flatMap(([prefix, { routes }]) =>
    routes.map((route): Row => {
      const name = `${route.verb} /v1${prefix}${route.path}`;
      const ask = asks[name] ?? {};
      const example = examples[name];
      const body = ask.body ?? (route.body ? leastBody(route.body, example?.body) : undefined);
      const method = route.verb === "POST" ? "PUT" : route.verb;
      const path = ask.path ?? prefix + route.path.replace(/:\w+\+?/g, named);
      return { name, right: example?.right ?? rights[name] ?? "", method, path, query: ask.query ?? "", body };
    }),
  );
  expect(
    rows.filter(({ right }) => right === "").map(({ name }) => name),
    "routes without an example or a row in rights-table.ts",
  ).toEqual([]);
  const known = new Set(rows.map(({ name }) => name));
  expect(
    Object.keys(rights).filter((name) => !known.has(name)),
    "rows of rights-table.ts without a route",
  ).toEqual([]);
  return rows;
}

/** Sends the request of a row. Only status and text matter; a stream is cancelled. */
export async function asked(row: Row, headers: Record<string, string>, method = row.method) {
  const query = [...(method === "LIST" ? ["list=true"] : []), ...(row.query === "" ? [] : [row.query])].join("&");
  const url = `https://x/v1${row.path}${query === "" ? "" : `?${query}`}`;
  const isRead = ["GET", "LIST", "HEAD"].includes(method);
  const response = await exports.default.fetch(url, {
    method: method === "LIST" ? "GET" : method,
    headers: { ...headers, ...(method === "PATCH" && { "Content-Type": "application/merge-patch+json" }) },
    ...(!isRead && row.body !== undefined && { body: JSON.stringify(row.body) }),
  });
  const isStream = row.path.startsWith("/event/stream") && response.status === 200;
  if (isStream) await response.body?.cancel();
  return { status: response.status, text: isStream ? "" : await response.text() };
}

/** The equivalent ways to present a token. */
export const presented = {
  neutral: (token: string) => ({ "X-Orch-Token": token }),
  bearer: (token: string) => ({ Authorization: `Bearer ${token}` }),
  vault: (token: string) => ({ "X-Vault-Token": token }),
  nomad: (token: string) => ({ "X-Nomad-Token": token }),
};

type Status = number;
const isDenied = (status: Status): boolean => status === 401 || status === 403;

/** One of how many refused reads is repeated as HEAD outside of the long run. */
const HEADS = 3;

/** Collects every response that differs from the expected one. */
export class Findings {
  readonly #found: string[] = [];
  #reads = 0;

  async denied(row: Row, who: string, headers: Record<string, string>): Promise<void> {
    const { status, text } = await asked(row, headers);
    if (status !== 403) this.#add(row, who, status, text, "403");
    if (row.method !== "GET" || (this.#reads++ % HEADS !== 0 && !isLong)) return;
    const head = await asked(row, headers, "HEAD");
    if (head.status !== status || head.text !== "") this.#add(row, `${who}, HEAD`, head.status, head.text, "as GET");
  }

  async allowed(row: Row, who: string, headers: Record<string, string>): Promise<void> {
    const { status, text } = await asked(row, headers);
    if (isDenied(status) || (status >= 500 && status !== 501) || status === 405)
      this.#add(row, who, status, text, "let in");
  }

  /** Public routes return the same to all callers. */
  async alike(row: Row, callers: Readonly<Record<string, Record<string, string>>>): Promise<void> {
    const statuses: [string, number][] = [];
    for (const [who, headers] of Object.entries(callers)) statuses.push([who, (await asked(row, headers)).status]);
    const [[, first] = ["", 0]] = statuses;
    for (const [who, status] of statuses) if (status !== first) this.#add(row, who, status, "", String(first));
  }

  #add(row: Row, who: string, status: number, text: string, wanted: string): void {
    this.#found.push(`${row.name}: ${who}: ${status}, should be ${wanted}: ${text.slice(0, 120)}`);
  }

  expectNone(): void {
    expect(this.#found.join("\n")).toBe("");
  }
}

/** Tokens without access to any route. */
export async function strangers(): Promise<Record<string, Record<string, string>>> {
  const revoked = (await issue({ policies: ["root"] })).client_token;
  await put("/v1/auth/token/revoke", { token: revoked });
  const expired = (await issue({ policies: ["root"], ttl: "1s" })).client_token;
  await expect.poll(async () => (await get("/v1/acl/token/self", { token: expired })).status).toBe(403);
  return {
    "no token": {},
    "an unknown token": presented.neutral("hvs.unknown"),
    "a revoked token": presented.neutral(revoked),
    "a revoked token, upstream": presented.vault(revoked),
    "an expired token": presented.neutral(expired),
    "an expired token, upstream": presented.nomad(expired),
  };
}

/**
 * The callers that a row refuses in this run: those of `always`, and a third of the others in turn, so that each meets
 * a third of the routes. All in the long run.
 */
export function callersOf(
  refused: Readonly<Record<string, Record<string, string>>>,
  always: readonly string[],
  turn: number,
): [who: string, headers: Record<string, string>][] {
  const all = Object.entries(refused);
  const isFixed = ([who]: (typeof all)[number]) => always.includes(who);
  return [
    ...all.filter(isFixed),
    ...part(
      all.filter((each) => !isFixed(each)),
      turn,
    ),
  ];
}

const tokens = new Map<string, string>();

/** Drops the tokens of the previous test. */
export const forgetTokens = (): void => tokens.clear();

/** A token with this description, created once for a test. */
export async function madeOnce(described: string, make: () => Promise<string>): Promise<string> {
  const known = tokens.get(described);
  if (known !== undefined) return known;
  const made = await make();
  tokens.set(described, made);
  return made;
}

/** A token with exactly these rules, created once. */
export const tokenOf = (rules: string): Promise<string> =>
  madeOnce(rules, async () => (await holderOf(rules)).client_token);

/** A root token: a separate one for a route that revokes its caller. */
export async function rootFor({ path }: Row): Promise<string> {
  const make = async () => (await issue({ policies: ["root"] })).client_token as string;
  return path.includes("self") ? make() : madeOnce("root", make);
}

const CAPABILITIES = ["create", "read", "update", "delete", "list", "patch", "sudo"];
const capable = (path: string, capabilities: readonly string[]): string =>
  `path "${path}" { capabilities = ${JSON.stringify(capabilities)} }\n`;

/** Rules with a capability on one path only. */
export const onlyOn = (path: string, capabilities: readonly string[]): string =>
  [path, `${path}/`].map((each) => capable(each.slice(1), capabilities)).join("");
/** Rules with every capability everywhere except these. */
export const allBut = (capabilities: readonly string[]): string =>
  capable(
    "*",
    CAPABILITIES.filter((each) => !capabilities.includes(each)),
  );

const OTHERS = NAMESPACE_CAPABILITIES.filter((capability) => capability !== "deny");
const RANKS: Readonly<Record<string, readonly string[]>> = {
  node: ["read", "write"],
  operator: ["read", "write"],
  agent: ["read", "write"],
  plugin: ["list", "read"],
};

const list = (words: readonly string[]) => JSON.stringify(words);

/** Rules for one word such as `node:read`, in a namespace. */
function ruleFor(word: string, namespace: string): string {
  const [family = "", right = ""] = word.split(":");
  if (family === "namespace") {
    const capability = right === "*" ? "read-logs" : right;
    return `namespace "${namespace}" { capabilities = ${list([capability])} }\n`;
  }
  if (family === "node_pool") return `node_pool "absent" { policy = "${right}" }\n`;
  return `${family} { policy = "${right}" }\n`;
}

/** Each set of rules with a right of the cluster API, in the requested namespace by default. */
export const waysTo = (right: string, namespace = "default"): string[] =>
  right.split("|").map((way) =>
    way
      .split("&")
      .map((word) => ruleFor(word.trim(), namespace))
      .join(""),
  );

/** All rights but one, once for each part of it. */
export const everythingBut = (right: string): string[] =>
  right.split("&").map((part) => {
    const words = part.split("|").map((word) => word.trim());
    const without = new Set(words);
    const capabilities = without.has("namespace:*") ? [] : OTHERS.filter((each) => !without.has(`namespace:${each}`));
    const rules = [capabilities.length > 0 ? `namespace "*" { capabilities = ${list(capabilities)} }\n` : ""];
    for (const [family, ranks] of Object.entries(RANKS)) {
      const lacking = ranks.findIndex((rank) => without.has(`${family}:${rank}`));
      const best = lacking < 0 ? ranks.at(-1) : ranks[lacking - 1];
      if (best !== undefined) rules.push(`${family} { policy = "${best}" }\n`);
    }
    const pools = without.has("node_pool:write") ? "read" : "write";
    if (!without.has("node_pool:read")) rules.push(`node_pool "*" { policy = "${pools}" }\n`);
    return rules.join("");
  });
