import { beforeEach, describe, expect, it } from "vitest";
import { mountRoutes, secretsRoutes } from "../../src/routes/table.ts";
import { holderOf, issue, policies } from "./access.ts";
import { get, list, mountKv, put, send } from "./client.ts";
import { mountEngine } from "./engine-helpers.ts";
import {
  type Asks,
  allBut,
  asked,
  Findings,
  forgetTokens,
  onlyOn,
  presented,
  type Row,
  rowsOf,
  strangers,
  tokenOf,
} from "./rights.ts";
import { mountRights, secretsRights } from "./rights-table.ts";

/*
 * Every route of areas A and B, of the key-value store and of the service itself, against every kind of caller. What is asked for
 * is mostly absent: who is let in reads 404, or that something is missing.
 */

const asks: Asks = {
  "GET /v1/sys/internal/ui/mounts/:path+": { path: "/sys/internal/ui/mounts/kv" },
  "LIST /v1/sys/sync/destinations/:type": { path: "/sys/sync/destinations/in-mem" },
  "GET /v1/auth/token/lookup": { query: "token=somebody" },
  "POST /v1/auth/token/lookup": { body: { token: "somebody" } },
};
/** Destinations of a type that there is. */
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
const ofMounts = rowsOf(
  [
    ["/kv", mountRoutes.kv],
    ["/cloud-b", mountRoutes["cloud-b"]],
  ],
  mountRights,
  {},
  "absent",
);

beforeEach(async () => {
  forgetTokens();
  await mountKv("kv");
  await mountEngine(null);
  await put("/v1/sys/namespaces/theirs", {});
  await issue({ id: "somebody" });
});

/** All of one namespace, and nothing of any other. */
async function tokenElsewhere(): Promise<string> {
  const there = { headers: { "X-Orch-Namespace": "theirs" } };
  await policies({ all: allBut([]) }, there);
  return (await issue({ policies: ["all"], no_default_policy: true }, there)).client_token;
}

/** What a capability on the path is worth: each of these lets in, and all others together do not. */
function waysOf(right: string): { ways: string[][]; lacking: string[][] } {
  if (right === "create or update") return { ways: [["create"], ["update"]], lacking: [["create", "update"]] };
  const needed = right.split(" ");
  return { ways: [needed], lacking: needed.map((capability) => [capability]) };
}

async function judge(row: Row, found: Findings, refused: Record<string, Record<string, string>>): Promise<void> {
  if (row.right === "anybody") {
    return found.alike(row, {
      ...refused,
      "a powerless token": presented.neutral(await tokenOf(onlyOn("/none", ["read"]))),
    });
  }
  for (const [who, headers] of Object.entries(refused)) await found.denied(row, who, headers);
  const { ways, lacking } = waysOf(row.right);
  for (const capabilities of lacking) {
    const rules = row.right === "in the mount" ? onlyOn("/elsewhere/x", ["read"]) : allBut(capabilities);
    await found.denied(row, `all but ${capabilities}`, presented.neutral(await tokenOf(rules)));
  }
  const ruled = row.ruled ?? row.path;
  const exactly = `${allBut([])}${onlyOn(ruled, ["deny"])}`;
  if (row.right !== "in the mount")
    await found.denied(row, "all, but denied here", presented.vault((await holderOf(exactly)).client_token));
  for (const capabilities of ways) {
    const rules = row.right === "in the mount" ? onlyOn("/kv/data/x", ["read"]) : onlyOn(ruled, capabilities);
    const how = presented[capabilities.includes("create") ? "bearer" : "vault"];
    await found.allowed(row, `only ${capabilities}`, how((await holderOf(rules)).client_token));
  }
  await found.allowed(row, "a root token", presented.neutral((await issue({ policies: ["root"] })).client_token));
}

async function judgeAll(rows: readonly Row[]): Promise<void> {
  const refused = {
    ...(await strangers()),
    "a token without rights": presented.neutral(
      (await issue({ policies: ["none"], no_default_policy: true })).client_token,
    ),
    "a token of another namespace": presented.neutral(await tokenElsewhere()),
    "a client of the cluster": presented.nomad(
      await tokenOf('namespace "*" { policy = "write" }\nnode { policy = "write" }\noperator { policy = "write" }\n'),
    ),
  };
  const found = new Findings();
  for (const row of rows) await judge(row, found, refused);
  found.expectNone();
}

/** Routes that have upstream names, asked for by one name with rules that use the other. */
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

/** A few worlds for many routes: each takes a while to make. */
const groups = {
  "the service and its mounts": own.filter(({ path }) => !/^\/(auth|sys\/(sync|leases|re(new|voke)|polic))/.test(path)),
  "tokens and policies": own.filter(({ path }) => /^\/(auth|sys\/polic)/.test(path)),
  leases: own.filter(({ path }) => /^\/sys\/(leases|re(new|voke))/.test(path)),
  sync: own.filter(({ path }) => path.startsWith("/sys/sync")),
  "sync, by two names": otherNames,
  "the key-value store": ofMounts.filter(({ path }) => path.startsWith("/kv")),
  "cloud credentials": ofMounts.filter(({ path }) => path.startsWith("/cloud-b")),
};

describe("lets in whoever holds the right of the route, and nobody else", () => {
  it.each(Object.entries(groups))("%s", { timeout: 120_000 }, async (_about, rows) => judgeAll(rows));
});

describe("the namespaces of others", () => {
  it("are not told of by any list or read", async () => {
    const theirs = { headers: { "X-Orch-Namespace": "theirs" } };
    await put("/v1/sys/namespaces/secretly", {}, theirs);
    await policies({ "secretly-policy": allBut([]) }, theirs);
    await mountKv("secretly-kv", theirs);
    await put("/v1/secretly-kv/data/secretly", { data: {} }, theirs);
    await put("/v1/sys/sync/destinations/in-mem/secretly", {}, theirs);
    await put("/v1/sys/namespaces/mine", {});
    const mine = { headers: { "X-Orch-Namespace": "mine" } };
    await policies({ all: allBut([]) }, mine);
    const token = (await issue({ policies: ["all"], no_default_policy: true }, mine)).client_token;
    const accessor = (await issue({ policies: ["secretly-policy"] }, theirs)).accessor;
    const lists = [...own, ...ofMounts].filter(({ method }) => method === "GET" || method === "LIST");
    for (const row of lists) {
      for (const namespace of ["", "mine", "theirs", "mine/../theirs"]) {
        const reply = await asked(row, { "X-Orch-Token": token, "X-Orch-Namespace": namespace });
        const told = [reply.text.includes("secretly"), reply.text.includes(accessor)];
        expect([row.name, namespace, ...told]).toEqual([row.name, namespace, false, false]);
      }
    }
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
