import { runInDurableObject } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import { expect, vi } from "vitest";
import * as z from "zod";
import { engineTypes } from "../../src/credentials/engines/index.ts";
import type { Example } from "../../src/openapi/example.ts";
import type { Area } from "../../src/platform/http/areas.ts";
import { isEchoed } from "../../src/platform/http/fields.ts";
import { isInternal } from "../../src/platform/http/unknown-fields.ts";
import type { AnyRoute, RouteTable } from "../../src/routes/server/route.ts";
import { authRoutes, clusterRoutes, mountedRoutes, secretsRoutes } from "../../src/routes/table.ts";
import { schemaFields } from "../schema-walk.ts";
import { mountKv, put } from "./client.ts";
import { examples } from "./examples.ts";

/*
 * Shared by the tests of bad input: the whole route table with real paths, a deployment in which every path leads
 * to an object that a wrongly accepted request would change, and the rules for refusals.
 */

/** Stands for a secret in every request; no answer and no log line may hold it. */
export const CANARY = "canary-7f3a9c";

export interface Case {
  readonly name: string;
  readonly area: Area;
  readonly route: AnyRoute;
  readonly table: RouteTable<AnyRoute>;
  /** Where the table begins: `/v1`, or `/v1/` and a mount. */
  readonly prefix: string;
  /** A path that the route answers, and that leads to something. */
  readonly path: string;
}

/** Values for the parameters of paths; `arrange` makes what they name. */
const parameters: Readonly<Record<string, string>> = {
  name: "n",
  type: "in-mem",
  output: "log",
  path: "kv",
  mount: "kv",
  id: "cloud-b/creds/n/none",
  prefix: "cloud-b",
  migration: "none",
  role: "n",
  rule: "n",
  identity: "00000000-0000-4000-8000-000000000003",
  accessor: "00000000-0000-4000-8000-000000000000",
  alias: "n",
  source: "platform",
  bytes: "16",
  algorithm: "sha2-256",
  eventType: "kv*",
  node: "00000000-0000-4000-8000-000000000001",
};

const fill = (path: string, values: Readonly<Record<string, string>>): string =>
  path.replace(/:(\w+)\+?/g, (_whole, name: string) => {
    const value = values[name];
    if (value === undefined) throw new Error(`test/workers/bad-input.ts: give the parameter :${name} a value`);
    return value;
  });

function casesOf(area: Area, table: RouteTable<AnyRoute>, prefix: string, values = parameters): Case[] {
  return table.routes.map((route) => {
    const name = `${route.verb} ${prefix}${route.path}`;
    const path = prefix + fill(route.path, { ...values, ...examples[name]?.params });
    return { name, area, route, table, prefix, path };
  });
}

/** Every route there is. A route added to the table is tested without a word here. */
export const cases: readonly Case[] = [
  ...casesOf("secrets", secretsRoutes, "/v1"),
  ...Object.entries(mountedRoutes).flatMap(([type, table]) =>
    casesOf("secrets", table, `/v1/${type}`, { ...parameters, path: "n" }),
  ),
  // Ids of leases have slashes, those of the cluster are one segment.
  ...casesOf("cluster", clusterRoutes, "/v1", { ...parameters, id: "00000000-0000-4000-8000-000000000002" }),
];

/** The same, by what they are about: one world serves them all. */
export const groups = Object.entries(
  Object.groupBy(cases, ({ prefix, route }) => prefix + route.path.split("/").slice(0, 3).join("/")),
).map(([about, members = []]) => ({ about, members }));

/** Valid values for required fields of bodies, for routes without an example. */
const samples: Readonly<Record<string, unknown>> = {
  lease: "1h",
  lease_max: "2h",
  policy: 'path "kv/*" { capabilities = ["read"] }',
  type: "kv",
  token: "some-token",
  accessor: "some-accessor",
  mount: "kv",
  secret_name: "n",
  plan_id: "pl_0",
  versions: [1],
  app_id: 1,
  private_key: "no key",
  Token: "some-token",
  Target: { Type: "webhook", URL: "https://receiver.invalid/", Secret: `whsec_${"A".repeat(32)}` },
  Index: 1,
  PublicKey: `${"A".repeat(43)}=`,
  Name: "n",
  input: "some-value",
  password: "some-password",
  allowed_origins: "https://app.example",
  rate: 1_000_000,
  max_leases: 1_000_000,
  name: "n",
  mount_accessor: "auth_userpass_00000000",
  canonical_id: "00000000-0000-4000-8000-000000000003",
  to_entity_id: "00000000-0000-4000-8000-000000000003",
  from_entity_ids: ["00000000-0000-4000-8000-000000000005"],
  entity_ids: ["00000000-0000-4000-8000-000000000005"],
  kubernetes_host: "https://cluster.example",
  role_id: "some-role-id",
  secret_id: "some-secret-id",
  secret_id_accessor: "00000000-0000-4000-8000-000000000004",
  scope: "https://graph.example/.default",
};

/** The least that a route's schema takes. @param given of the route's example */
export function leastBody(schema: z.ZodType, given: Example["body"] = {}): Record<string, unknown> {
  const missing = schema.safeParse({}).error?.issues.map(({ path }) => String(path[0])) ?? [];
  const body = Object.fromEntries(missing.map((field) => [field, given[field] ?? samples[field]]));
  if (!schema.safeParse(body).success)
    throw new Error(`test/workers/bad-input.ts: give valid values to ${missing.join()}`);
  return body;
}

/** The fields that a schema names and judges. */
export function fieldsOf(schema: z.ZodType): string[] {
  const described = z.toJSONSchema(schema, { io: "output", unrepresentable: "any" });
  const unjudged = schemaFields(schema).filter((field) => isEchoed(field.schema) || isInternal(field.schema));
  const names = new Set(unjudged.map(({ name }) => name));
  return Object.keys(described.properties ?? {}).filter((name) => !names.has(name));
}

/** One request, sent as it is. */
export async function request(method: string, path: string, init: RequestInit = {}) {
  const headers = new Headers(init.headers);
  if (!headers.has("X-Orch-Token") && !headers.has("Authorization")) headers.set("X-Orch-Token", "root");
  if (headers.get("X-Orch-Token") === "none") headers.delete("X-Orch-Token");
  if (method === "PATCH" && !headers.has("Content-Type")) headers.set("Content-Type", "application/merge-patch+json");
  const listed = method === "LIST" ? `${path}${path.includes("?") ? "&" : "?"}list=true` : path;
  const response = await exports.default.fetch(`https://x${listed}`, {
    ...init,
    method: method === "LIST" ? "GET" : method,
    headers,
  });
  // A stream that was let through by mistake has no end.
  const text = response.status < 400 ? "" : await response.text();
  if (response.status < 400) await response.body?.cancel();
  return { status: response.status, headers: response.headers, text };
}
export type Reply = Awaited<ReturnType<typeof request>>;

/** The fault of a refusal, which must be 4xx, in the convention of its area, without the canary; null = none. */
function faultOf({ status, headers, text }: Reply, area: Area, wanted: number, names: RegExp): string | null {
  if (status !== wanted) return `is not ${wanted}`;
  if (text.includes(CANARY)) return "repeats what was submitted";
  if (!names.test(text)) return `does not say ${names}`;
  const type = headers.get("content-type") ?? "";
  if (area === "cluster") return /^text\/plain/.test(type) && !/^\s*[{[]/.test(text) ? null : "is not plain text";
  if (type !== "application/json" || headers.get("cache-control") !== "no-store")
    return `has the wrong headers: ${type}`;
  const { errors } = JSON.parse(text) as { errors?: unknown };
  return Array.isArray(errors) && errors.every((error) => typeof error === "string") ? null : "has no list of errors";
}

/** A request that must be refused. */
export interface Attempt {
  readonly what: string;
  readonly path: string;
  readonly status: number;
  /** Pattern that the refusal's message matches. */
  readonly names: RegExp;
  readonly method?: string;
  readonly init?: RequestInit;
  readonly area?: Area;
  readonly check?: (reply: Reply) => string | null;
}

/** Something behind every path of the route table. */
export async function arrange(): Promise<void> {
  await mountKv("kv");
  expect((await put("/v1/sys/mounts/kv-v1", { type: "kv" })).status).toBe(204);
  for (const { type } of engineTypes) await put(`/v1/sys/mounts/${type}`, { type });
  const made = [
    await put("/v1/kv/data/n", { data: { value: CANARY } }),
    await put("/v1/kv-v1/n", { value: CANARY }),
    await put("/v1/sys/policies/acl/n", { policy: samples["policy"] }),
    await put("/v1/sys/namespaces/n", {}),
    ...(await Promise.all(Object.keys(authRoutes).map((type) => put(`/v1/sys/auth/${type}`, { type })))),
    await put("/v1/auth/userpass/users/n", { password: CANARY }),
    await put("/v1/identity/entity/name/n", {}),
    await put("/v1/identity/group/name/n", {}),
    await put("/v1/auth/jwt/role/n", { role_type: "jwt", user_claim: "sub", bound_subject: "n" }),
    await put("/v1/auth/approle/role/n", {}),
    await put("/v1/auth/kubernetes/role/n", {
      bound_service_account_names: "n",
      bound_service_account_namespaces: "n",
      audience: "n",
    }),
    await put("/v1/auth/oidc/role/n", { user_claim: "sub", allowed_redirect_uris: "https://x.example" }),
    await put("/v1/namespace/n", {}),
    await put("/v1/sys/sync/destinations/in-mem/n", {}),
    await put("/v1/sys/sync/destinations/in-mem/n/rules/n", { mount: "kv", path_prefix: "n", paused: true }),
    await put("/v1/auth/token/roles/n", {}),
    await put("/v1/auth/token/create", { id: "spent", policies: ["root"], ttl: "1h" }),
    await put("/v1/auth/token/create", { id: "plain", policies: ["n"] }),
  ];
  for (const { status, text } of made) expect(status, text).toBeLessThan(300);
  await runInDurableObject(env.ACCESS_CONTROL.getByName("main"), async (_object, { storage }) => {
    storage.sql.exec("UPDATE tokens SET accessor = ? WHERE policies LIKE '%\"n\"%'", parameters["accessor"]);
    await storage.setAlarm(Date.now() + 5 * 3_600_000);
  });
  // "spent" has run out, and the alarm that would sweep it away has not rung yet.
  vi.setSystemTime(Date.now() + 2 * 3_600_000);
}

/** Sends what must be refused; answers with one line for everything that went otherwise. */
export async function faults(one: Case, attempts: Iterable<Attempt>): Promise<string[]> {
  const found: string[] = [];
  for (const { what, method = one.route.verb, path, init, area = one.area, status, names, check } of attempts) {
    const reply = await request(method, path, init);
    const fault = faultOf(reply, area, status, names) ?? check?.(reply);
    if (fault)
      found.push(`${what}: ${method} ${path.slice(0, 80)}: ${reply.status} ${reply.text.slice(0, 200)}: ${fault}`);
  }
  return found;
}
