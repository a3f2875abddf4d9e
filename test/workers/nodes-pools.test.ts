import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { itRows } from "../support/rows.ts";
import { holderOf } from "./access.ts";
import { type Answer, get, put } from "./client.ts";
import { id, register, report } from "./nodes-helpers.ts";
import { closeAll } from "./streams.ts";

afterEach(closeAll);

const ids = (answer: Answer): string[] => answer.body.map(({ ID }: { ID: string }) => ID);

describe("node pools", () => {
  beforeEach(async () => {
    await register(id(1), { NodePool: "gpu" });
    await register(id(2));
  });

  const names = (answer: Answer): string[] => answer.body.map(({ Name }: { Name: string }) => Name);

  it("are the two built-in ones and those that nodes name", async () => {
    const answer = await get("/v1/node/pools");
    expect(names(answer)).toEqual(["all", "default", "gpu"]);
    expect(answer.body[0]).toEqual({
      Name: "all",
      Description: expect.any(String),
      Hash: "",
      Meta: null,
      NodeIdentityTTL: 0,
      SchedulerConfiguration: null,
      CreateIndex: 1,
      ModifyIndex: 1,
    });
    expect((await get("/v1/node/pool/default")).body).toEqual(answer.body[1]);
    expect((await get("/v1/node/pool/gpu")).body).toEqual(answer.body[2]);
  });

  it("are paged, by prefix and by filter", async () => {
    for (const NodePool of ["b", "gpu-2", "z"]) await report("NodeRegistration", { ID: crypto.randomUUID(), NodePool });
    const seen: string[] = [];
    for (let token: string | null = ""; token !== null; ) {
      const page: Answer = await get(`/v1/node/pools?per_page=1&next_token=${token}`);
      seen.push(...names(page));
      token = page.headers.get("X-Orch-NextToken");
    }
    expect(seen).toEqual(["all", "b", "default", "gpu", "gpu-2", "z"]);
    expect(names(await get("/v1/node/pools?prefix=gpu"))).toEqual(["gpu", "gpu-2"]);
    expect(names(await get("/v1/node/pools?prefix=d"))).toEqual(["default"]);
    expect(names(await get('/v1/node/pools?filter=Name matches "^g"'))).toEqual(["gpu", "gpu-2"]);
  });

  it("of any names are listed once each, for any page size", async () => {
    // Their order by bytes is not that of JavaScript's text.
    const given = ["x\uff5e", "x\u{1f600}", "xé"];
    const Payloads = given.map((Name) => ({ NodePool: { Name } }));
    const events = Payloads.map((Payload) => ({ Topic: "NodePool", Type: "NodePoolUpserted", Payload }));
    expect((await put("/v1/cluster/objects", events)).status).toBe(200);
    const seen: string[] = [];
    for (let token: string | null = ""; token !== null && seen.length < 10; ) {
      const page: Answer = await get(`/v1/node/pools?per_page=1&prefix=x&next_token=${token}`);
      seen.push(...names(page));
      token = page.headers.get("X-Orch-NextToken");
    }
    expect(seen.sort()).toEqual(given.sort());
  });

  it("list their nodes; the pool all lists every node", async () => {
    expect(ids(await get("/v1/node/pool/gpu/nodes"))).toEqual([id(1)]);
    expect(ids(await get("/v1/node/pool/default/nodes"))).toEqual([id(2)]);
    expect(ids(await get("/v1/node/pool/all/nodes"))).toEqual([id(1), id(2)]);
    expect(ids(await get("/v1/node/pool/all/nodes?per_page=1"))).toEqual([id(1)]);
  });

  it("return 404 if unknown", async () => {
    for (const path of ["/v1/node/pool/nope", "/v1/node/pool/nope/nodes"]) {
      const answer = await get(path);
      expect([answer.status, answer.text]).toEqual([404, "node pool not found"]);
    }
  });

  it("return 403 without a token", async () => {
    for (const path of ["/v1/node/pools", "/v1/node/pool/gpu", "/v1/node/pool/gpu/nodes"]) {
      expect((await get(path, { token: null })).status).toBe(403);
    }
  });

  it("support blocking queries", async () => {
    const index = (await get("/v1/node/pools")).headers.get("X-Orch-Index");
    const waiting = get(`/v1/node/pools?index=${index}&wait=10s`);
    await register(id(3), { NodePool: "new" });
    expect(names(await waiting)).toContain("new");
  });

  it("may be defined by a scheduler", async () => {
    await put("/v1/cluster/objects", [
      { Topic: "NodePool", Type: "NodePoolUpserted", Payload: { NodePool: { Name: "gpu", Description: "cards" } } },
    ]);
    expect((await get("/v1/node/pool/gpu")).body).toMatchObject({ Description: "cards", Meta: null });
  });

  itRows([
    ["one", 'node_pool "gpu" { policy = "read" }', ["gpu"]],
    ["all by a star", 'node_pool "*" { policy = "read" }', ["all", "default", "gpu"]],
    ["all but one", 'node_pool "*" { policy = "read" } node_pool "gpu" { policy = "deny" }', ["all", "default"]],
    ["nodes only", 'node { policy = "read" }', []],
  ])("list only pools that the token may read: %s", async (_what, rules, expected) => {
    const { client_token: token } = await holderOf(rules);
    expect(names(await get("/v1/node/pools", { token }))).toEqual(expected);
    const may = expected.includes("gpu");
    expect((await get("/v1/node/pool/gpu", { token })).status).toBe(may ? 200 : 403);
    expect((await get("/v1/node/pool/gpu/nodes", { token })).status).toBe(403);
    const both = rules.includes("node {") ? rules : `${rules} node { policy = "read" }`;
    const { client_token: reader } = await holderOf(both);
    expect((await get("/v1/node/pool/gpu/nodes", { token: reader })).status).toBe(may ? 200 : 403);
  });
});
