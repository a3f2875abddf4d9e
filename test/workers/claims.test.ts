import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import { amount } from "../support/long.ts";
import { eventsOf } from "./access.ts";
import { claims, ended, holders, listClaims, placed, stickyJob } from "./claims-helpers.ts";
import { del, get, put } from "./client.ts";
import { lose, make, nodeId, nodes, openNodes } from "./host-volumes.ts";
import { deployment, gone, report, send, uuid } from "./reports.ts";

beforeEach(() => openNodes(1));

const onlyClaim = async () => {
  const [claim, ...more] = await claims();
  expect(more).toEqual([]);
  return claim;
};

describe("a sticky volume", () => {
  // Proves: D.claims.list.endpoint, D.claims.sticky
  it("is claimed by the group of an allocation reported with it, in the same event line", async () => {
    const volume = await make();
    await report(stickyJob());
    const index = await report(placed("a1"));
    expect(await onlyClaim()).toEqual({
      AllocID: "a1",
      CreateIndex: index,
      ID: expect.stringMatching(/^[0-9a-f-]{36}$/),
      JobID: "web",
      ModifyIndex: index,
      Namespace: "default",
      TaskGroupName: "g",
      VolumeID: volume.ID,
      VolumeName: "db",
    });
  });

  it("is claimed once, for any number of reports of the allocation", async () => {
    await make();
    await report(stickyJob(), placed("a1"));
    const first = await onlyClaim();
    await report(placed("a1"));
    await report(stickyJob(), placed("a1", { ClientStatus: "unknown" }));
    expect(await onlyClaim()).toEqual(first);
  });

  it.each([
    ["its job", async () => [await make(), await report(placed("a1")), await report(stickyJob())]],
    ["the volume", async () => [await report(stickyJob()), await report(placed("a1")), await make()]],
    ["the job, then the volume", async () => [await report(placed("a1")), await report(stickyJob()), await make()]],
    ["the volume, then the job", async () => [await report(placed("a1")), await make(), await report(stickyJob())]],
    ["its job, in one report", async () => [await make(), await report(placed("a1"), stickyJob())]],
  ])("is claimed by an allocation that was reported before %s", async (_what, story) => {
    await story();
    const claim = await onlyClaim();
    expect(claim).toMatchObject({ AllocID: "a1", VolumeName: "db" });
    expect(claim.CreateIndex).toBeGreaterThan(0);
  });

  it("is claimed by the job inside the allocation, which its event leaves out", async () => {
    await make();
    const { TaskGroups } = stickyJob().Payload["Job"] as { TaskGroups: unknown };
    await report(placed("a1", { Job: { Version: 1, TaskGroups } }));
    expect(await holders()).toEqual([["db", "a1"]]);
    expect((await get("/v1/allocation/a1")).text).toContain("Sticky");
    const [event] = await eventsOf("Allocation");
    expect(JSON.stringify(event)).not.toContain("Sticky");
  });

  it("is claimed by the job inside the allocation although the known job differs", async () => {
    await make();
    await report(stickyJob([]), placed("a1", { Job: { TaskGroups: [{ Name: "g", Volumes: stickyVolumesOf() }] } }));
    expect(await holders()).toEqual([["db", "a1"]]);
  });

  it("waits for the job version of the allocation", async () => {
    await make();
    await report(stickyJob([], { Version: 1 }), placed("a1", { JobVersion: 2 }));
    expect(await claims()).toEqual([]);
    await report(stickyJob(["db"], { Version: 3 }));
    expect(await claims()).toEqual([]);
    await report(stickyJob(["db"], { Version: 2 }));
    expect(await holders()).toEqual([["db", "a1"]]);
  });

  it.each([
    ["the allocation", { JobVersion: 1 }, []],
    ["its deployment", { JobVersion: undefined, DeploymentID: uuid(3) }, [deployment({ JobVersion: 1 })]],
  ])("is claimed by the earlier job version that %s names", async (_what, version, before) => {
    await make();
    await report(stickyJob(["db"], { Version: 1 }), stickyJob([], { Version: 2 }), ...before, placed("a1", version));
    expect(await holders()).toEqual([["db", "a1"]]);
  });

  it("is claimed separately by each group of each job, as is each volume of a group", async () => {
    await make();
    await make({ Name: "log" });
    await report(stickyJob(["db", "log"]), stickyJob(["db"], { ID: "other" }));
    await report(placed("a1"), placed("b1", { JobID: "other" }));
    expect(await holders()).toEqual([
      ["db", "a1"],
      ["db", "b1"],
      ["log", "a1"],
    ]);
  });

  const stickyVolumesOf = () =>
    (stickyJob().Payload["Job"] as { TaskGroups: { Volumes: object }[] }).TaskGroups[0]?.Volumes;
});

it("a job is accepted for any number of waiting allocations", async () => {
  const count = amount(10_000, 30_000);
  await make();
  await report(placed("a1"));
  await runInDurableObject(env.CLUSTER_REGISTRY.getByName("main"), (_registry, { storage: { sql } }) => {
    sql.exec(
      `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
       INSERT INTO claim_asks (namespace, alloc_id, node_id, job_id, job_version, task_group, volume_name)
       SELECT 'default', 'b' || i, ?, 'web', 1, 'g', '' FROM n`,
      count,
      nodeId(1),
    );
  });
  await report(stickyJob());
  expect(await holders()).toEqual([["db", `b${count}`]]);
}, 300_000);

describe("no claim is made", () => {
  beforeEach(() => make());

  // Proves: D.claims.sticky
  it.each<[string, () => Promise<unknown>]>([
    ["of a volume that is not sticky", () => report(stickyJob(["db"], {}, { Sticky: false }), placed("a1"))],
    [
      "of one that each allocation has for itself",
      () => report(stickyJob(["db"], {}, { PerAlloc: true }), placed("a1")),
    ],
    ["of a CSI volume", () => report(stickyJob(["db"], {}, { Type: "csi" }), placed("a1"))],
    ["of a volume on another node", () => report(stickyJob(), placed("a1", { NodeID: nodeId(2) }))],
    ["without a node", () => report(stickyJob(), placed("a1", { NodeID: "" }))],
    ["by another group", () => report(stickyJob(), placed("a1", { TaskGroup: "h" }))],
    ["by an allocation that has ended", () => report(stickyJob(), ended("a1"))],
    ["by an allocation that ended before its job came", () => report(placed("a1"), ended("a1"), stickyJob())],
    ["by an allocation that went before its job came", () => report(placed("a1"), gone(placed("a1")), stickyJob())],
    ["for a job that was purged before it came", () => report(placed("a1"), gone(stickyJob()), stickyJob())],
    ["without a job", () => report(placed("a1", { JobID: "" }))],
    [
      "in another namespace",
      async () => {
        await put("/v1/namespace/prod", {});
        await report({ ...stickyJob(), Namespace: "prod" }, { ...placed("a1"), Namespace: "prod" });
      },
    ],
  ])("%s", async (_what, story) => {
    await story();
    expect(await claims()).toEqual([]);
  });

  it("by an allocation that ended before the volume was created", async () => {
    await report(stickyJob(["log"]), placed("a1"));
    await report(ended("a1"));
    await make({ Name: "log" });
    expect(await claims()).toEqual([]);
  });
});

describe("a claim", () => {
  let claim: Awaited<ReturnType<typeof onlyClaim>>;
  let volume: Awaited<ReturnType<typeof make>>;

  beforeEach(async () => {
    volume = await make();
    await report(stickyJob(), placed("a1"));
    claim = await onlyClaim();
  });

  it("stays when its allocation ends, and moves to the next allocation under its id", async () => {
    await report(ended("a1"));
    expect(await onlyClaim()).toEqual(claim);
    const index = await report(placed("a2"));
    expect(await onlyClaim()).toEqual({ ...claim, AllocID: "a2", ModifyIndex: index });
  });

  it("is unchanged when its lost allocation comes back", async () => {
    await report(placed("a1", { ClientStatus: "lost" }));
    await report(placed("a1"));
    expect(await onlyClaim()).toEqual(claim);
  });

  it("of a running allocation is replaced by one with another id", async () => {
    const index = await report(placed("a2"));
    const next = await onlyClaim();
    expect(next).toEqual({ ...claim, ID: expect.any(String), AllocID: "a2", CreateIndex: index, ModifyIndex: index });
    expect(next.ID).not.toBe(claim.ID);
  });

  it("of an unreported allocation is replaced by one with another id", async () => {
    await report(gone(ended("a1")));
    expect(await onlyClaim()).toEqual(claim);
    await report(placed("a2"));
    const next = await onlyClaim();
    expect(next.AllocID).toBe("a2");
    expect(next.ID).not.toBe(claim.ID);
  });

  it("moves when one report ends an allocation and starts the next", async () => {
    const index = await report(ended("a1"), placed("a2"));
    expect(await onlyClaim()).toEqual({ ...claim, AllocID: "a2", ModifyIndex: index });
  });

  // Proves: D.claims.delete.empty, D.claims.delete.endpoint
  it("is not created again after its deletion by later reports of the same allocation", async () => {
    const deleted = await del(`/v1/volumes/claim/${claim.ID}`);
    expect([deleted.status, deleted.text]).toEqual([200, ""]);
    const index = Number(deleted.headers.get("X-Orch-Index"));
    expect(index).toBeGreaterThan(claim.ModifyIndex);
    expect((await listClaims()).headers.get("X-Orch-Index")).toBe(String(index));
    await report(placed("a1", { ClientDescription: "still there" }), stickyJob());
    expect(await claims()).toEqual([]);
    await report(placed("a2"));
    expect(await holders()).toEqual([["db", "a2"]]);
  });

  // Proves: D.claims.delete.blocking
  it("is deleted at once, for any index in the request", async () => {
    const deleted = await del(`/v1/volumes/claim/${claim.ID}?index=${2 ** 40}&wait=300s`);
    expect([deleted.status, await claims()]).toEqual([200, []]);
  });

  it.each(["/v1/volumes/claim", "/v1/volume/claim"])("is deleted once at %s", async (path) => {
    expect((await del(`${path}/${claim.ID.toUpperCase()}`)).status).toBe(200);
    const again = await del(`${path}/${claim.ID}`);
    expect([again.status, again.text]).toEqual([404, "task group volume claim does not exist"]);
  });

  it("is found in its own namespace only", async () => {
    await put("/v1/namespace/prod", {});
    for (const namespace of ["prod", "*", "nowhere"]) {
      const refused = await del(`/v1/volumes/claim/${claim.ID}?namespace=${namespace}`);
      expect([refused.status, refused.text]).toEqual([404, "task group volume claim does not exist"]);
    }
    expect(await onlyClaim()).toEqual(claim);
  });

  // Proves: D.claims.delete.claim_id-required
  it("must be named in a deletion", async () => {
    for (const path of ["/v1/volumes/claim/", "/v1/volumes/claim"]) expect((await del(path)).status).toBe(404);
    expect(await onlyClaim()).toEqual(claim);
  });

  it("is deleted when its job is purged, not when it stops", async () => {
    await report(stickyJob(["db"], { Stop: true, Status: "dead" }));
    expect(await onlyClaim()).toEqual(claim);
    await report(gone(stickyJob()));
    expect(await claims()).toEqual([]);
  });

  it("has the name of its volume, also after that is renamed", async () => {
    await report(ended("a1"));
    const renamed = await put("/v1/volume/host/create", { Volume: { ID: volume.ID, Name: "data" } });
    expect(await onlyClaim()).toEqual({ ...claim, VolumeName: "data", ModifyIndex: renamed.body.Index });
    expect((await listClaims("&volume_name=data")).body.Claims).toHaveLength(1);
    const same = await put("/v1/volume/host/create", { Volume: { ID: volume.ID, Name: "data" } });
    expect(same.body.Index).toBeGreaterThan(renamed.body.Index);
    expect((await onlyClaim())?.ModifyIndex).toBe(renamed.body.Index);
  });

  it("of another job or namespace stays when a job is purged", async () => {
    await report(gone(stickyJob(["db"], { ID: "other" })), { ...gone(stickyJob()), Namespace: "prod" });
    expect(await onlyClaim()).toEqual(claim);
  });

  it("makes its volume used while its allocation runs, and is deleted with the volume after that", async () => {
    const refused = await del(`/v1/volume/host/${volume.ID}`);
    expect([refused.status, refused.text]).toEqual([409, `volume ${volume.ID} in use by allocations: [a1]`]);
    await report(ended("a1"));
    expect((await del(`/v1/volume/host/${volume.ID}`)).status).toBe(200);
    expect(await claims()).toEqual([]);
  });

  it("of the job inside an allocation makes the volume used, too", async () => {
    await report(gone(stickyJob()), ended("a1"));
    const [group] = (stickyJob().Payload["Job"] as { TaskGroups: object[] }).TaskGroups;
    await report(placed("a3", { JobID: "unheard", Job: { TaskGroups: [group] } }));
    expect((await del(`/v1/volume/host/${volume.ID}`)).text).toContain("in use by allocations: [a3]");
    expect((await get(`/v1/volume/host/${volume.ID}`)).body.Allocations).toMatchObject([{ ID: "a3" }]);
  });

  it("is deleted with a volume that is deleted by force while its node is lost", async () => {
    await report(ended("a1"));
    await lose(nodeId(1));
    expect((await del(`/v1/volume/host/${volume.ID}?force=true`)).status).toBe(200);
    expect(await claims()).toEqual([]);
  });

  it("is deleted with the node of its volume", async () => {
    await lose(nodeId(1));
    expect((await put(`/v1/node/${nodeId(1)}/purge?force=true`, {})).status).toBe(200);
    expect((await get(`/v1/volume/host/${volume.ID}`)).status).toBe(404);
    expect(await claims()).toEqual([]);
  });

  it("stays with a volume whose deletion failed", async () => {
    await report(ended("a1"));
    nodes.behave = () => ({ state: "failed", error: { kind: "plugin", message: "no" } });
    expect((await del(`/v1/volume/host/${volume.ID}`)).status).toBe(502);
    expect(await onlyClaim()).toEqual(claim);
  });

  // Proves: D.claims.list.blocking
  it("wakes blocking queries when it is created, moved or deleted", async () => {
    for (const change of [
      () => report(ended("a1"), placed("a2")),
      () => report(placed("b1", { JobID: "other" }), stickyJob(["db"], { ID: "other" })),
      () => del(`/v1/volumes/claim/${claim.ID}`),
      () => report(gone(stickyJob(["db"], { ID: "other" }))),
    ]) {
      const index = Number((await listClaims()).headers.get("X-Orch-Index"));
      const waiting = listClaims(`&index=${index}&wait=60s`);
      await change();
      expect(Number((await waiting).headers.get("X-Orch-Index"))).toBeGreaterThan(index);
    }
  });

  // Proves: D.claims.list.blocking
  it("does not wake blocking queries without a change", async () => {
    const index = Number((await listClaims()).headers.get("X-Orch-Index"));
    await report(placed("a1"), placed("x", { TaskGroup: "h" }));
    await make({ Name: "log" });
    expect(Number((await listClaims()).headers.get("X-Orch-Index"))).toBe(index);
  });
});

describe("a report with an invalid sticky volume is refused completely and creates no claim:", () => {
  const groups = (Volumes: unknown, more: object = {}) => [{ Name: "g", Volumes, ...more }];

  it.each<[what: string, groups: unknown, field: string]>([
    ["groups as a text", "g", "TaskGroups"],
    ["groups as an object", {}, "TaskGroups"],
    ["a group as null", [null], "TaskGroups.0"],
    ["a group's name as a number", groups({}, { Name: 1 }), "TaskGroups.0.Name"],
    ["a long group", groups({}, { Name: "x".repeat(257) }), "TaskGroups.0.Name"],
    ["volumes as a list", groups([]), "TaskGroups.0.Volumes"],
    ["a volume as a text", groups({ v: "db" }), "TaskGroups.0.Volumes.v"],
    ["a volume as null", groups({ v: null }), "TaskGroups.0.Volumes.v"],
    ["an unknown type", groups({ v: { Type: "disk" } }), "TaskGroups.0.Volumes.v.Type"],
    ["a source as a list", groups({ v: { Source: ["db"] } }), "TaskGroups.0.Volumes.v.Source"],
    ["a long source", groups({ v: { Source: "x".repeat(257) } }), "TaskGroups.0.Volumes.v.Source"],
    ["a source of two lines", groups({ v: { Source: "a\nb" } }), "TaskGroups.0.Volumes.v.Source"],
    ["sticky as a text", groups({ v: { Type: "host", Source: "db", Sticky: "yes" } }), "TaskGroups.0.Volumes.v.Sticky"],
    ["sticky as null", groups({ v: { Type: "host", Source: "db", Sticky: null } }), "TaskGroups.0.Volumes.v.Sticky"],
    ["per_alloc as a number", groups({ v: { Source: "db", PerAlloc: 1 } }), "TaskGroups.0.Volumes.v.PerAlloc"],
  ])("%s", async (_what, TaskGroups, field) => {
    await make();
    const asJob = await send([stickyJob([], { TaskGroups }), placed("a1")]);
    expect([asJob.status, asJob.text]).toEqual([400, expect.stringContaining(`event 1: Payload.Job.${field}: `)]);
    const asCopy = await send([stickyJob(), placed("a1", { Job: { TaskGroups } })]);
    expect([asCopy.status, asCopy.text]).toEqual([
      400,
      expect.stringContaining(`event 2: Payload.Allocation.Job.${field}: `),
    ]);
    expect([(await get("/v1/jobs")).body, await claims()]).toEqual([[], []]);
  });
});
