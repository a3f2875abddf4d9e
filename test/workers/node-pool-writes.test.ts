import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { itRows } from "../support/rows.ts";
import { eventsOf } from "./access.ts";
import { type Answer, del, get, put } from "./client.ts";
import { id, register } from "./nodes-helpers.ts";
import { job, report, tokenWith } from "./reports.ts";
import { closeAll } from "./streams.ts";

afterEach(closeAll);

const ids = (answer: Answer): string[] => answer.body.map(({ ID }: { ID: string }) => ID);
const gpu = { Name: "gpu", Description: "cards", Meta: { rack: "a" } };

describe("writing a node pool", () => {
  it("creates it, changes it whole, and publishes both", async () => {
    const made = await put("/v1/node/pools", { ...gpu, NodeIdentityTTL: "24h" });
    expect([made.status, made.text]).toEqual([200, ""]);
    const Index = Number(made.headers.get("X-Orch-Index"));
    expect((await get("/v1/node/pool/gpu")).body).toEqual({
      ...gpu,
      Hash: "",
      NodeIdentityTTL: 86_400_000_000_000,
      SchedulerConfiguration: null,
      CreateIndex: Index,
      ModifyIndex: Index,
    });
    const scheduler = { SchedulerAlgorithm: "spread", MemoryOversubscriptionEnabled: true };
    const changed = await put("/v1/node/pool/gpu", { SchedulerConfiguration: scheduler });
    expect((await get("/v1/node/pool/gpu")).body).toMatchObject({
      Description: "",
      Meta: null,
      NodeIdentityTTL: 0,
      CreateIndex: Index,
      SchedulerConfiguration: scheduler,
      ModifyIndex: Number(changed.headers.get("X-Orch-Index")),
    });
    const events = await eventsOf("NodePool");
    expect(events.map(({ Type, Key }) => [Type, Key])).toEqual([
      ["NodePoolUpserted", "gpu"],
      ["NodePoolUpserted", "gpu"],
    ]);
  });

  it("without a change publishes nothing and returns the pool's index", async () => {
    const made = await put("/v1/node/pools", gpu);
    const again = await put("/v1/node/pools", (await get("/v1/node/pool/gpu")).body);
    expect(again.headers.get("X-Orch-Index")).toBe(made.headers.get("X-Orch-Index"));
    expect(await eventsOf("NodePool")).toHaveLength(1);
  });

  itRows([
    ["a built-in pool", "/v1/node/pools", { Name: "all" }, 'modifying node pool "all" is not allowed'],
    ["a built-in pool by path", "/v1/node/pool/default", {}, 'modifying node pool "default" is not allowed'],
    ["a name with a dot", "/v1/node/pools", { Name: "a.b" }, "Name: must match ^[a-zA-Z0-9_-]{1,128}$"],
    ["no name", "/v1/node/pools", {}, "Name: must match ^[a-zA-Z0-9_-]{1,128}$"],
    ["another name than the path's", "/v1/node/pool/gpu", { Name: "x" }, "Name: must be the name in the path"],
    [
      "a negative duration",
      "/v1/node/pools",
      { ...gpu, NodeIdentityTTL: "-1h" },
      "NodeIdentityTTL: must be a duration",
    ],
    ["no duration", "/v1/node/pools", { ...gpu, NodeIdentityTTL: true }, "NodeIdentityTTL: must be a duration"],
  ])("returns 400 for %s", async (_what, path, body, text) => {
    const answer = await put(path, body);
    expect([answer.status, answer.text]).toEqual([400, text]);
  });

  it("requires the write capability of the pool", async () => {
    const token = await tokenWith('node_pool "gpu" { policy = "write" } node_pool "*" { policy = "read" }');
    expect((await put("/v1/node/pools", { Name: "cpu" }, { token })).status).toBe(403);
    expect((await put("/v1/node/pools", gpu, { token })).status).toBe(200);
    expect((await del("/v1/node/pool/gpu", { token })).status).toBe(200);
  });
});

describe("deleting a node pool", () => {
  beforeEach(async () => {
    await put("/v1/node/pools", gpu);
  });

  it("removes it and publishes its last state", async () => {
    expect((await del("/v1/node/pool/gpu")).status).toBe(200);
    expect((await get("/v1/node/pool/gpu")).status).toBe(404);
    expect((await eventsOf("NodePool")).at(-1)).toMatchObject({
      Type: "NodePoolDeleted",
      Payload: { NodePool: { Name: "gpu", Description: "cards" }, Deleted: true },
    });
  });

  it("returns 404 for a missing one and 400 for a built-in one", async () => {
    expect((await del("/v1/node/pool/none")).status).toBe(404);
    expect((await del("/v1/node/pool/default")).status).toBe(400);
  });

  it("returns 409 while it has nodes or jobs that are not dead", async () => {
    await report(job({ ID: "train", NodePool: "gpu", Status: "running" }));
    const busy = await del("/v1/node/pool/gpu");
    expect([busy.status, busy.text]).toEqual([409, 'node pool "gpu" has non-terminal jobs']);
    await report(job({ ID: "train", NodePool: "gpu", Status: "dead" }));
    await register(id(1), { NodePool: "gpu" });
    const used = await del("/v1/node/pool/gpu");
    expect([used.status, used.text]).toEqual([409, 'node pool "gpu" has nodes']);
    await put(`/v1/node/${id(1)}/purge?force=true`, {});
    expect((await del("/v1/node/pool/gpu")).status).toBe(200);
  });
});

describe("the jobs of a node pool", () => {
  beforeEach(async () => {
    await put("/v1/node/pools", gpu);
    await report(
      job(),
      job({ ID: "train", NodePool: "gpu" }),
      job({ ID: "tune", NodePool: "gpu" }, { Namespace: "dev" }),
    );
  });

  it("are listed in the requested namespace or all, with those that name none in the default pool", async () => {
    expect(ids(await get("/v1/node/pool/gpu/jobs"))).toEqual(["train"]);
    expect(ids(await get("/v1/node/pool/gpu/jobs?namespace=*"))).toEqual(["train", "tune"]);
    expect(ids(await get("/v1/node/pool/default/jobs?namespace=*"))).toEqual(["web"]);
    expect((await get("/v1/node/pool/none/jobs")).status).toBe(404);
    expect((await get("/v1/node/pool/gpu/jobs")).body[0].JobSummary).toMatchObject({ Namespace: "default" });
  });

  it("require reading the pool, and listing jobs in their namespace", async () => {
    const token = await tokenWith(
      'node_pool "gpu" { policy = "read" } namespace "dev" { capabilities = ["list-jobs"] }',
    );
    expect(ids(await get("/v1/node/pool/gpu/jobs?namespace=*", { token }))).toEqual(["tune"]);
    expect((await get("/v1/node/pool/gpu/jobs", { token })).status).toBe(403);
    expect((await get("/v1/node/pool/default/jobs?namespace=*", { token })).status).toBe(403);
  });
});
