import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import { clusterRegistry } from "../../src/rpc/stubs.ts";
import { itRows } from "../support/rows.ts";
import { holderOf } from "./access.ts";
import { type Answer, del, get, put } from "./client.ts";
import { addNode, ask, finish, listed, make, nodeId, nodes, openNodes, register, run, volume } from "./host-volumes.ts";

beforeEach(() => openNodes(1));

const names = (answer: Answer): string[] => answer.body.map(({ Name }: { Name: string }) => Name).sort();
const list = (query = "", options?: Parameters<typeof get>[1]) => get(`/v1/volumes?type=host${query}`, options);

describe("the list of volumes", () => {
  // Proves: D.list.type.required
  it("requires a type", async () => {
    expect([(await get("/v1/volumes")).status, (await get("/v1/volumes")).text]).toEqual([
      400,
      "type: is required: csi or host",
    ]);
    expect((await get("/v1/volumes?type=disk")).status).toBe(404);
    const upstream = await get("/v1/volumes", { headers: { "X-Nomad-Token": "root" } });
    expect([upstream.status, upstream.body]).toEqual([200, []]);
  });

  // Proves: D.list.endpoint
  it("has the documented fields of each volume and the index of the table", async () => {
    expect((await list()).headers.get("X-Orch-Index")).toBe("1");
    const made = await make({ Parameters: { mode: "0700" } });
    const answer = await list();
    expect(answer.body).toEqual([
      {
        CapacityBytes: 0,
        CreateIndex: made.CreateIndex,
        CreateTime: made.CreateTime,
        ID: made.ID,
        ModifyIndex: made.ModifyIndex,
        ModifyTime: made.ModifyTime,
        Name: "db",
        Namespace: "default",
        NodeID: nodeId(1),
        NodePool: "default",
        PluginID: "mkdir",
        State: "pending",
      },
    ]);
    expect(answer.headers.get("X-Orch-Index")).toBe(String(made.ModifyIndex));
    const { body } = await del(`/v1/volume/host/${made.ID}`);
    const empty = await list();
    expect([empty.body, empty.headers.get("X-Orch-Index")]).toEqual([[], String(body.Index)]);
  });

  it("has ids that no two volumes of a moment begin alike, as clients show eight digits", async () => {
    const made = await Promise.all(Array.from({ length: 20 }, (_, at) => make({ Name: `db-${at}` })));
    expect(new Set(made.map(({ ID }) => ID.slice(0, 8))).size).toBe(20);
  });

  it("excludes a volume until it is created", async () => {
    nodes.behave = () => "hold";
    const asked = ask();
    while (nodes.holding === 0) await scheduler.wait(10);
    expect(await listed()).toEqual([]);
    await nodes.release();
    expect((await asked).status).toBe(200);
    expect(await listed()).toHaveLength(1);
  });

  describe("of several volumes", () => {
    const ids: Record<string, string> = {};

    beforeEach(async () => {
      await addNode(2, { NodePool: "gpu" });
      await put("/v1/namespace/prod", {});
      for (const [name, more] of [
        ["alpha", {}],
        ["beta", { NodeID: nodeId(2) }],
        ["gamma", { Namespace: "prod" }],
        ["delta", { Namespace: "prod", NodeID: nodeId(2) }],
      ] as const) {
        ids[name] = (await make({ Name: name, ...more })).ID;
      }
      await register({ Name: "by-hand" });
    });

    // Proves: D.list.filter, D.list.node_id, D.list.plugin_id, D.rules.2.reduce
    itRows<[query: string, found: string[]]>([
      ["", ["alpha", "beta", "by-hand"]],
      ["&namespace=prod", ["delta", "gamma"]],
      ["&namespace=*", ["alpha", "beta", "by-hand", "delta", "gamma"]],
      ["&namespace=none", []],
      [`&namespace=*&node_id=${nodeId(2)}`, ["beta", "delta"]],
      ["&namespace=*&node_id=0000000", []],
      ["&namespace=*&node_id=00000002", ["beta", "delta"]],
      ["&namespace=*&node_id=000000", ["alpha", "beta", "by-hand", "delta", "gamma"]],
      ["&namespace=*&node_id=00000002-0000", ["beta", "delta"]],
      ["&namespace=*&node_id=ff", []],
      ["&namespace=*&node_pool=gpu", ["beta", "delta"]],
      [`&namespace=*&node_pool=gpu&node_id=${nodeId(1)}`, []],
      ["&namespace=*&plugin_id=mkdir", ["alpha", "beta", "delta", "gamma"]],
      ["&namespace=*&plugin_id=mkdir&node_id=00000001", ["alpha", "gamma"]],
      ["&namespace=*&plugin_id=ab", []],
      ["&prefix=bet", ["beta"]],
      ["&namespace=*&filter=NodePool == gpu", ["beta", "delta"]],
      ["&namespace=*&filter=Name matches `^[ab]` and PluginID == mkdir", ["alpha", "beta"]],
      ["&namespace=*&filter=HostPath == `/srv/db`", ["by-hand"]],
      ['&namespace=*&filter=any RequestedCapabilities as c { c.AccessMode == "single-node-writer" } ', ["all"]],
      ["&namespace=*&filter=Constraints is not empty", []],
    ])("has those that %s selects", async (query, found) => {
      const answer = await list(query);
      const odd = query.endsWith("node_id=0000000");
      if (odd) expect([answer.status, answer.text]).toEqual([400, expect.stringMatching(/^node_id: .*even number/)]);
      else expect(names(answer)).toEqual(found[0] === "all" ? ["alpha", "beta", "by-hand", "delta", "gamma"] : found);
    });

    it("has the one that the eight digits which clients show select", async () => {
      for (const [name, id] of Object.entries(ids))
        expect(names(await list(`&namespace=*&prefix=${id.slice(0, 8)}`))).toEqual([name]);
    });

    itRows(["xyz", "abc", "z"])("refuses plugin_id=%s, which is neither a plugin nor a byte prefix", async (plugin) => {
      const answer = await list(`&plugin_id=${plugin}`);
      expect([answer.status, answer.text]).toEqual([400, expect.stringMatching(/^plugin_id: .*even number/)]);
    });

    it("compares plugin ids as texts in the upstream dialect", async () => {
      const upstream = { headers: { "X-Nomad-Token": "root" }, token: null };
      expect(names(await list("&plugin_id=mkd", upstream))).toEqual([]);
      expect(names(await list("&node_id=0", upstream))).toEqual([]);
      expect(names(await list(`&node_id=${nodeId(1)}`, upstream))).toEqual(["alpha", "by-hand"]);
    });

    // Proves: D.list.next_token
    it("is paged by namespace and id, in both directions", async () => {
      const seen: string[] = [];
      let token = "";
      for (let pages = 0; pages < 10; pages++) {
        const page = await list(`&namespace=*&per_page=2&next_token=${token}`);
        seen.push(...page.body.map(({ Namespace, ID }: Answer["body"]) => `${Namespace}.${ID}`));
        token = page.headers.get("X-Orch-NextToken") ?? "";
        if (token === "") break;
      }
      expect(seen).toEqual(seen.toSorted());
      expect(seen).toHaveLength(5);
      const reverse = await list("&namespace=*&reverse=true");
      expect(reverse.body.map(({ Namespace, ID }: Answer["body"]) => `${Namespace}.${ID}`)).toEqual(seen.toReversed());
      const first = await list("&namespace=*&per_page=2&reverse=true");
      const next = first.headers.get("X-Orch-NextToken");
      expect(next).toBe(seen[2]);
      const rest = await list(`&namespace=*&per_page=3&reverse=true&next_token=${next}`);
      expect(rest.body.map(({ Namespace, ID }: Answer["body"]) => `${Namespace}.${ID}`)).toEqual(
        seen.slice(0, 3).toReversed(),
      );
      expect((await list("&namespace=*&next_token=zzz")).body).toEqual([]);
    });

    // Proves: D.list.filter
    it("refuses an invalid filter", async () => {
      for (const filter of ["NotValid", "Nope == 1", "Name =="])
        expect((await list(`&filter=${encodeURIComponent(filter)}`)).status).toBe(400);
    });
  });
});

describe("access", () => {
  const namespace = (capabilities: string[], name = "default") =>
    `namespace "${name}" { capabilities = ${JSON.stringify(capabilities)} }\n`;
  const holder = async (rules: string) => ({ token: (await holderOf(rules)).client_token as string });

  // Proves: D.host.create.acl, D.host.create.acl-override, D.host.delete.acl, D.host.read.acl, D.host.register.acl,
  // D.list.acl.host
  it.each<[what: string, rules: string, allowed: readonly ("create" | "register" | "read" | "delete" | "override")[]]>([
    ["nothing", namespace(["read-job"]), []],
    ["reading", namespace(["host-volume-read"]), ["read"]],
    ["the short word read", 'namespace "default" { policy = "read" }', ["read"]],
    ["the short word write", 'namespace "default" { policy = "write" }', ["read", "create"]],
    ["creating", namespace(["host-volume-create"]), ["create", "read"]],
    ["registering", namespace(["host-volume-register"]), ["create", "register", "read"]],
    ["writing", namespace(["host-volume-write"]), ["create", "register", "read", "delete"]],
    ["deleting", namespace(["host-volume-delete"]), ["delete"]],
    ["overriding", namespace(["host-volume-create", "policy-override"]), ["create", "read", "override"]],
    ["upstream's word for it", namespace(["host-volume-create", "sentinel-override"]), ["create", "read", "override"]],
    ["another namespace", namespace(["host-volume-write"], "prod"), []],
  ])("of a token with %s", async (_what, rules, allowed) => {
    const { ID } = await make();
    await addNode(2);
    const as = await holder(rules);
    const status = async (answer: Promise<Answer>) => ((await answer).status === 200 ? [] : [(await answer).status]);
    const tried = {
      create: await status(ask({ Name: "c" }, as)),
      register: await status(register({ Name: "r", HostPath: "/srv/r" }, as)),
      read: await status(get(`/v1/volume/host/${ID}`, as)),
      override: await status(
        put("/v1/volume/host/create", { Volume: volume({ Name: "o" }), PolicyOverride: true }, as),
      ),
      delete: await status(del(`/v1/volume/host/${ID}`, as)),
    };
    expect(tried).toEqual(
      Object.fromEntries(Object.keys(tried).map((what) => [what, allowed.some((each) => each === what) ? [] : [403]])),
    );
    // The list is empty without the right, and no error.
    const shown = await list("", as);
    expect([shown.status, shown.body.length > 0]).toEqual([
      200,
      allowed.includes("read") && (allowed.includes("create") || !allowed.includes("delete")),
    ]);
  });

  // Proves: D.list.acl.host
  it("with namespace=* returns only readable volumes", async () => {
    await put("/v1/namespace/prod", {});
    await make({ Name: "a" });
    const secret = await make({ Name: "b", Namespace: "prod" });
    const as = await holder(namespace(["host-volume-read"]));
    expect(names(await list("&namespace=*", as))).toEqual(["a"]);
    expect(names(await list("&namespace=*&filter=Name == b", as))).toEqual([]);
    expect((await get(`/v1/volume/host/${secret.ID}?namespace=prod`, as)).status).toBe(403);
    expect((await get(`/v1/volume/host/${secret.ID}?namespace=*`, as)).status).toBe(404);
    expect((await get(`/v1/volume/host/${secret.ID}`, as)).status).toBe(404);
  });

  // Proves: D.host.register.acl-override
  it("requires the override capability also for a registration", async () => {
    const body = { Volume: volume({ NodeID: nodeId(1), HostPath: "/srv/o", PluginID: "" }), PolicyOverride: true };
    const as = async (...rights: string[]) =>
      (await put("/v1/volume/host/register", body, await holder(namespace(rights)))).status;
    expect(await as("host-volume-register")).toBe(403);
    expect(await as("host-volume-register", "policy-override")).toBe(200);
  });

  it("returns 403 without a valid token", async () => {
    for (const token of [null, "no-such-token"]) {
      expect((await list("", { token })).status).toBe(403);
      expect((await ask({}, { token })).status).toBe(403);
    }
  });
});

describe("a blocking query", () => {
  // Proves: D.host.read.blocking
  it("of one volume returns when it changes", async () => {
    const { ID, ModifyIndex } = await make();
    const waiting = get(`/v1/volume/host/${ID}?index=${ModifyIndex}&wait=10s`);
    await scheduler.wait(50);
    await make({ Name: "unrelated" });
    const updated = await ask({ ID, Parameters: { mode: "0700" } });
    const answer = await waiting;
    expect([answer.body.ModifyIndex, answer.headers.get("X-Orch-Index")]).toEqual([
      updated.body.Index,
      String(updated.body.Index),
    ]);
  });

  it("of one volume returns when it is deleted", async () => {
    const { ID, ModifyIndex } = await make();
    const waiting = get(`/v1/volume/host/${ID}?index=${ModifyIndex}&wait=300ms`);
    await del(`/v1/volume/host/${ID}`);
    expect((await waiting).status).toBe(404);
  });

  // Proves: D.list.blocking
  it("of the list returns when any volume changes", async () => {
    await make();
    const before = (await list()).headers.get("X-Orch-Index");
    const waiting = list(`&index=${before}&wait=10s`);
    await make({ Name: "two" });
    expect((await waiting).body).toHaveLength(2);
  });

  // Proves: D.host.read.blocking
  it("returns the current data after the wait", async () => {
    const { ID, ModifyIndex } = await make();
    const answer = await get(`/v1/volume/host/${ID}?index=${ModifyIndex}&wait=50ms`);
    expect([answer.status, answer.body.ID]).toEqual([200, ID]);
  });
});

describe("a read of one volume", () => {
  it("returns the allocations that use it, and no others", async () => {
    const { ID } = await make();
    await run(nodeId(1), ["db"]);
    await run(nodeId(1), ["other"], { alloc: "a2", namespace: "default" }).catch(() => undefined);
    await run(nodeId(1), ["db"], { alloc: "a1" });
    const shown = (await get(`/v1/volume/host/${ID}`)).body;
    expect(shown.Allocations.map((each: Answer["body"]) => [each.ID, each.JobID, each.ClientStatus])).toContainEqual([
      "a1",
      "web",
      "running",
    ]);
    await finish(nodeId(1), "a1");
    await finish(nodeId(1), "a2");
    expect((await get(`/v1/volume/host/${ID}`)).body).not.toHaveProperty("Allocations");
  });

  // Proves: D.host.read.volume_id
  it("accepts an id in any case, and returns 404 for an unknown one", async () => {
    const { ID } = await make();
    expect((await get(`/v1/volume/host/${ID.toUpperCase()}`)).body.ID).toBe(ID);
    for (const id of ["nothing", nodeId(1)]) {
      const none = await get(`/v1/volume/host/${id}`);
      expect([none.status, none.text]).toEqual([404, "volume not found"]);
    }
  });
});

// Proves: D.rules.2.reduce
it("reads a constant number of rows per page for any number of volumes", async () => {
  const { runInDurableObject } = await import("cloudflare:test");
  await make();
  const rowsRead = () =>
    runInDurableObject(env.CLUSTER_REGISTRY.getByName("main"), (_registry, { storage: { sql } }) => {
      const cursor = sql.exec(
        "SELECT * FROM host_volumes WHERE namespace = 'default' AND (namespace, id) >= ('default', '') ORDER BY namespace ASC, id ASC LIMIT 10",
      );
      cursor.toArray();
      return cursor.rowsRead;
    });
  const fill = (count: number) =>
    runInDurableObject(env.CLUSTER_REGISTRY.getByName("main"), (_registry, { storage: { sql } }) => {
      sql.exec(
        `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
         INSERT OR IGNORE INTO host_volumes SELECT printf('%08x-0000-7000-8000-000000000000', i), 'default', 'v' || i, printf('%08x', i % 100),
           'default', 'mkdir', 'ready', 1, 1, '{"parameters":{},"constraints":[],"capabilities":[],"capacityMin":0,"capacityMax":0}', 0, '/x', 1, 1, 5, 5 FROM n`,
        count,
      );
    });
  await fill(1_000);
  const [few, page] = [await rowsRead(), await list("&per_page=10")];
  await fill(50_000);
  expect(await rowsRead()).toBe(few);
  expect((await list("&per_page=10")).body).toHaveLength(page.body.length);
  const registry = clusterRegistry(env);
  const rare = await registry.hostVolumes({
    namespace: null,
    prefix: "v49999",
    from: ["", ""],
    limit: 5,
    reverse: false,
  });
  expect([rare.rows.length, rare.next]).toEqual([0, ["default", expect.any(String)]]);
  expect(names(await list("&prefix=v49999"))).toEqual(["v49999"]);
});
