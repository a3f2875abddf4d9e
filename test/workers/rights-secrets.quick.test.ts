import { generateKeyPairSync } from "node:crypto";
import { beforeEach, describe, expect, it } from "vitest";
import { engineTypes } from "../../src/credentials/engines/index.ts";
import { authRoutes, mountRoutes, mountTable, secretsRoutes } from "../../src/routes/table.ts";
import { FOLLOWS_TOKEN } from "../support/follows-token.ts";
import { part } from "../support/long.ts";
import { holderOf, issue, policies } from "./access.ts";
import { get, list, mountKv, put, send } from "./client.ts";
import { dynamicRole, openTenant } from "./engine-helpers.ts";
import {
  type Asks,
  allBut,
  asked,
  callersOf,
  Findings,
  forgetTokens,
  onlyOn,
  presented,
  type Row,
  rootFor,
  rowsOf,
  strangers,
  tokenOf,
} from "./rights.ts";
import { mountRights, secretsRights } from "./rights-table.ts";

/*
 * Every route of the secrets API, of the key-value store and of the service itself, against every kind of caller. The
 * requested objects are mostly absent: an authorized caller gets 404 or a missing field.
 */

const asks: Asks = {
  // A quota that existed would count the requests of this test.
  "POST /v1/sys/quotas/rate-limit/:name": { body: { rate: 1, path: "nowhere" } },
  "GET /v1/sys/internal/ui/mounts/:path+": { path: "/sys/internal/ui/mounts/kv" },
  "LIST /v1/sys/sync/destinations/:type": { path: "/sys/sync/destinations/in-mem" },
  "GET /v1/auth/token/lookup": { query: "token=somebody" },
  "POST /v1/auth/token/lookup": { body: { token: "somebody" } },
};
/** Destinations of an existing type. */
const typed = Object.fromEntries(
  Object.keys(secretsRights)
    .filter((name) => name.includes("/destinations/:type/:name"))
    .map((name) => {
      const path = name
        .replace(/^\w+ \/v1/, "")
        .replace(":type", "in-mem")
        .replace(":name", "absent");
      return [name, { path }];
    }),
);

const own = rowsOf([["", secretsRoutes]], secretsRights, { ...asks, ...typed }, "absent");
const placed: Parameters<typeof rowsOf>[0] = [
  ["/kv", mountRoutes.kv],
  ["/kv-v1", mountRoutes["kv-v1"]],
  ...engineTypes.map(({ type }) => [`/${type}`, mountTable(type)] as const),
  ...Object.entries(authRoutes).map(([type, table]) => [`/auth/${type}`, table] as const),
];
const ofMounts = rowsOf(
  placed,
  mountRights,
  // Without a setting it would make no path, which a caller with `update` alone needs.
  { "POST /v1/kv/metadata/:path+": { body: { max_versions: 0 } } },
  "absent",
);

beforeEach(async () => {
  forgetTokens();
  await mountKv("kv");
  await put("/v1/sys/mounts/kv-v1", { type: "kv" });
  for (const { type } of engineTypes) await put(`/v1/sys/mounts/${type}`, { type });
  await put("/v1/sys/namespaces/theirs", {});
  for (const type of Object.keys(authRoutes)) await put(`/v1/sys/auth/${type}`, { type });
  await issue({ id: "somebody" });
});

const POWERLESS = "a token without rights";
const OF_CLUSTER = "a client of the cluster";
const ELSEWHERE = "a token of another namespace";

/** All rights in one namespace, and none in others. */
async function tokenElsewhere(): Promise<string> {
  const there = { headers: { "X-Orch-Namespace": "theirs" } };
  await policies({ all: allBut([]) }, there);
  return (await issue({ policies: ["all"], no_default_policy: true }, there)).client_token;
}

/** Sets of capabilities on the path: each of `ways` authorizes, all of `lacking` together do not. */
function waysOf(right: string): { ways: string[][]; lacking: string[][] } {
  if (right === "create or update")
    return { ways: [["create"], ["create", "update"]], lacking: [["create", "update"]] };
  const needed = right.split(" ");
  return { ways: [needed], lacking: needed.map((capability) => [capability]) };
}

type Check = () => Promise<void>;

/** Creates the tokens for a row. @returns the requests with them */
async function checksOf(
  row: Row,
  found: Findings,
  refused: Record<string, Record<string, string>>,
  turn: number,
): Promise<readonly Check[]> {
  if (row.right === "anybody") {
    const powerless = presented.neutral(await tokenOf(onlyOn("/none", ["read"])));
    return [() => found.alike(row, { ...refused, "a powerless token": powerless })];
  }
  if (row.right === "any token") {
    return Object.entries(refused).map(([who, headers]) => {
      const isValid = who === POWERLESS || who === OF_CLUSTER;
      return () => (isValid ? found.allowed(row, who, headers) : found.denied(row, who, headers));
    });
  }
  const checks: Check[] = [];
  for (const [who, headers] of callersOf(refused, ["no token", POWERLESS], turn)) {
    if (who === ELSEWHERE && FOLLOWS_TOKEN.test(row.path)) continue;
    checks.push(() => found.denied(row, who, headers));
  }
  const { ways, lacking } = waysOf(row.right);
  for (const capabilities of lacking) {
    const rules = row.right === "in the mount" ? onlyOn("/elsewhere/x", ["read"]) : allBut(capabilities);
    const headers = presented.neutral(await tokenOf(rules));
    checks.push(() => found.denied(row, `all but ${capabilities}`, headers));
  }
  const ruled = row.ruled ?? row.path;
  if (row.right !== "in the mount") {
    const exactly = `${allBut([])}${onlyOn(ruled, ["deny"])}`;
    const headers = presented.vault((await holderOf(exactly)).client_token);
    checks.push(() => found.denied(row, "all, but denied here", headers));
  }
  for (const capabilities of ways) {
    const rules = row.right === "in the mount" ? onlyOn("/kv/data/x", ["read"]) : onlyOn(ruled, capabilities);
    const how = presented[capabilities.includes("create") ? "bearer" : "vault"];
    const headers = how((await holderOf(rules)).client_token);
    checks.push(() => found.allowed(row, `only ${capabilities}`, headers));
  }
  const root = presented.neutral(await rootFor(row));
  return [...checks, () => found.allowed(row, "a root token", root)];
}

async function judgeAll(rows: readonly Row[]): Promise<void> {
  const refused = {
    ...(await strangers()),
    [POWERLESS]: presented.neutral((await issue({ policies: ["none"], no_default_policy: true })).client_token),
    [ELSEWHERE]: presented.neutral(await tokenElsewhere()),
    [OF_CLUSTER]: presented.nomad(
      await tokenOf('namespace "*" { policy = "write" }\nnode { policy = "write" }\noperator { policy = "write" }\n'),
    ),
  };
  const found = new Findings();
  // Each new token or policy takes the answers back that replicas keep, so that all are created first.
  const checks: Check[] = [];
  for (const [turn, row] of rows.entries()) checks.push(...(await checksOf(row, found, refused, turn)));
  for (const check of checks) await check();
  found.expectNone();
}

/** Routes with upstream names, requested by one name with rules for the other. */
const otherNames = own
  .filter(({ path }) => /\/(destinations\/in-mem\/absent(?!\/objects)|repo-host-apps)/.test(path))
  .flatMap((row): Row[] => {
    const neutral = row.path.replace("/in-mem/", "/cloud-a-sm/");
    const upstream = neutral.replace("/cloud-a-sm/", "/aws-sm/").replace("/repo-host-apps", "/github-apps");
    return [
      { ...row, name: `${row.name}, upstream's path`, path: upstream, ruled: neutral },
      { ...row, name: `${row.name}, upstream's rules`, path: neutral, ruled: upstream },
    ];
  });

/** A few deployments for many routes, because each takes a while to create. */
const groups = {
  "the service and its mounts": own.filter(({ path }) => !/^\/(auth|sys\/(sync|leases|re(new|voke)|polic))/.test(path)),
  "tokens and policies": own.filter(({ path }) => /^\/(auth|sys\/polic)/.test(path)),
  leases: own.filter(({ path }) => /^\/sys\/(leases|re(new|voke))/.test(path)),
  sync: own.filter(({ path }) => path.startsWith("/sys/sync")),
  "sync, by two names": otherNames,
  "the key-value store": ofMounts.filter(({ path }) => path.startsWith("/kv")),
  "cloud credentials": ofMounts.filter(({ path }) => path.startsWith("/cloud-")),
};

describe("returns 403 unless the token has the right of the route", () => {
  it.each(Object.entries(groups))("%s", { timeout: 120_000 }, async (_about, rows) => judgeAll(rows));
});

const VERBS = { GET: ["read"], LIST: ["list"], PUT: ["create", "update"], PATCH: ["patch"], DELETE: ["delete"] };

describe("a verb that a path does not have", () => {
  it("is 403 without the verb's capability and 405 with it; 405 for everybody on public paths", async () => {
    const tokens = new Map<string, string>();
    for (const [verb, capabilities] of Object.entries(VERBS)) {
      tokens.set(verb, await tokenOf(onlyOn("/*", capabilities)));
      tokens.set(`not ${verb}`, await tokenOf(allBut(capabilities)));
    }
    const found: string[] = [];
    for (const [prefix, table] of [["", secretsRoutes] as const, ...placed]) {
      for (const { path: pattern } of table.routes) {
        const path = pattern.replace(/:\w+\+?/g, "absent");
        const routes = table.at(path);
        const isPublic = routes.some(({ access }) => access === "none");
        for (const verb of part(Object.keys(VERBS), path.length, 6)) {
          if (routes.some((route) => route.verb === (verb === "PUT" ? "POST" : verb))) continue;
          const row = { name: "", right: "", method: verb, path: prefix + path, query: "", body: {} };
          const as = async (who: string) =>
            (await asked(row, who === "nobody" ? {} : presented.neutral(tokens.get(who) ?? ""))).status;
          const answers = [await as("nobody"), await as(`not ${verb}`), await as(verb)];
          const wanted = isPublic ? [405, 405, 405] : [403, 403, 405];
          if (`${answers}` !== `${wanted}`) found.push(`${verb} ${prefix}${path}: ${answers}, should be ${wanted}`);
        }
      }
    }
    expect(found.join("\n")).toBe("");
  });

  it("is 405 for a method of no API, and 403 in a mount without rights", async () => {
    const powerless = await tokenOf(onlyOn("/none", ["read"]));
    expect((await send("PROPFIND", "/v1/sys/mounts", undefined, { token: "" })).status).toBe(405);
    expect((await send("PROPFIND", "/v1/kv/data/a", undefined, { token: powerless })).status).toBe(403);
    expect((await send("PROPFIND", "/v1/kv/data/a")).status).toBe(405);
  });

  it("is 403 for an unknown mount and an unknown path without the verb's capability", async () => {
    const reader = await tokenOf(onlyOn("/*", ["read"]));
    for (const path of ["/v1/nowhere/a", "/v1/sys/nowhere", "/v1/kv/nowhere"]) {
      expect([path, (await get(path, { token: reader })).status]).toEqual([path, 404]);
      expect([path, (await send("DELETE", path, undefined, { token: reader })).status]).toEqual([path, 403]);
    }
  });
});

const theirs = { headers: { "X-Orch-Namespace": "theirs" } };

/** Creates content in a namespace for every list and read; all names share a prefix. */
async function fill(): Promise<{ accessor: string }> {
  const made = async (path: string, body: object) => {
    const { status, text } = await put(`/v1/theirs/${path}`, body);
    expect([path, status < 300 || text]).toEqual([path, true]);
  };
  await made("sys/namespaces/secretly", {});
  await policies({ secretly: allBut([]) }, theirs);
  await mountKv("secretly-kv", theirs);
  await made("secretly-kv/data/secretly", { data: { secretly: 1 } });
  await made("sys/sync/destinations/in-mem/secretly", {});
  await made("sys/sync/destinations/in-mem/secretly/associations/set", {
    mount: "secretly-kv",
    secret_name: "secretly",
  });
  const pem = generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey.export({ type: "pkcs8", format: "pem" });
  await made("sys/sync/repo-host-apps/secretly", { app_id: 1, private_key: String(pem) });
  const tenant = await openTenant();
  await made("sys/mounts/secretly-engine", { type: "cloud-b" });
  await made("secretly-engine/config", tenant.config);
  await made("secretly-engine/roles/secretly", dynamicRole(tenant));
  expect((await get("/v1/theirs/secretly-engine/creds/secretly")).status).toBe(200);
  return { accessor: (await issue({ policies: ["secretly"] }, theirs)).accessor };
}

const lists = [...own, ...ofMounts].filter(({ method }) => method === "GET" || method === "LIST");

/** The reads that return content created by `fill`, for any parameters and these namespaces. */
async function tell(accessor: string, token: string, namespaces: readonly string[]): Promise<string[]> {
  const told = new Set<string>();
  for (const row of lists) {
    const paths = [
      row.path,
      row.path.replace("absent", "secretly"),
      row.path.replace("absent", "secretly-kv/secretly"),
    ];
    const requests = [...new Set(paths)].flatMap((path) =>
      namespaces.map((namespace) => asked({ ...row, path }, { "X-Orch-Token": token, "X-Orch-Namespace": namespace })),
    );
    for (const { status, text } of await Promise.all(requests))
      if (status === 200 && (text.includes("secretly") || text.includes(accessor))) told.add(row.name);
  }
  return [...told].sort();
}

/** Reads of content in namespaces of the secrets API, except mounts, which lie in one themselves. */
const NAMESPACED = [
  ...[
    // The log of the whole deployment, for the root namespace only.
    "sys/audit/lines",
    "sys/internal/ui/mounts",
    "sys/internal/ui/namespaces",
    "sys/leases/count",
    "sys/metrics",
    "sys/mounts",
    "sys/namespaces/:name",
    "sys/policies/acl/:name+",
    "sys/policy",
    "sys/policy/:name+",
    "sys/sync/associations/:path+",
    "sys/sync/destinations/:type/:name",
    "sys/sync/destinations/:type/:name/associations",
    "sys/sync/destinations/:type/:name/drift",
    "sys/sync/destinations/in-mem/:name/objects",
    "sys/sync/repo-host-apps/:name",
  ].map((path) => `GET /v1/${path}`),
  ...[
    "auth/token/accessors",
    "sys/leases/lookup",
    "sys/namespaces",
    "sys/policies/acl",
    "sys/policy",
    "sys/sync/associations",
    "sys/sync/destinations",
    "sys/sync/destinations/:type",
    "sys/sync/repo-host-apps",
  ].map((path) => `LIST /v1/${path}`),
].sort();

describe("other namespaces", () => {
  it("are revealed by no list or read", { timeout: 60_000 }, async () => {
    const { accessor } = await fill();
    await put("/v1/sys/namespaces/mine", {});
    const mine = { headers: { "X-Orch-Namespace": "mine" } };
    await policies({ all: allBut([]) }, mine);
    const token = (await issue({ policies: ["all"], no_default_policy: true }, mine)).client_token;
    expect(await tell(accessor, "root", ["", "theirs"])).toEqual(NAMESPACED);
    expect(await tell(accessor, token, ["", "mine", "theirs", "mine/../theirs"])).toEqual([]);
    for (const path of [
      "/v1/theirs/secretly-kv/data/secretly",
      "/v1/mine/../theirs/sys/mounts",
      "/v1/theirs/sys/mounts",
    ]) {
      expect((await get(path, { token })).status, path).toBe(403);
    }
    expect((await list("/v1/mine/sys/policies/acl", { token })).body.data.keys).toContain("all");
    const lookedUp = async (of: string) => {
      const { status, text } = await send(
        "PUT",
        "/v1/auth/token/lookup-accessor",
        { accessor: of },
        { token, ...mine },
      );
      return [status, text];
    };
    expect(await lookedUp(accessor)).toEqual(await lookedUp("nobody"));
    expect((await lookedUp(accessor))[0]).toBeGreaterThan(399);
  });
});
