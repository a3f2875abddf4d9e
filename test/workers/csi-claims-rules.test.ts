import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, expect, it } from "vitest";
import type { CsiClaim } from "../../src/contracts/csi-volumes.ts";
import { refuse } from "../../src/lib/result.ts";
import { clusterRegistry } from "../../src/rpc/stubs.ts";
import { failure } from "../../src/volumes/csi/claim-controller.ts";
import { type CsiFields, requestOf } from "../../src/volumes/csi/request-body.ts";
import { del, get } from "./client.ts";
import { clock } from "./clock.ts";
import {
  type Behaviour,
  claimsOf,
  create,
  csi,
  definition,
  ends,
  nodePlugins,
  openCsiNodes,
  putOff,
  register,
  runs,
  statesOf,
} from "./csi-world.ts";
import { addNode, nodeId } from "./host-volumes.ts";

clock.moves = true;

/** It mounts; another one runs the controller. */
const NODE = nodeId(2);
beforeEach(openCsiNodes);

const use = async (more: Record<string, unknown> = {}) => {
  expect((await create(more)).status).toBe(200);
  await runs(NODE);
};

it("an allocation that is running again while its claim is released gets a new claim", async () => {
  await use();
  await expect.poll(() => statesOf()).toEqual(["published"]);
  csi.behave = ({ method }) => (method === "csi.node.detach" ? "hold" : "work");
  await ends(NODE);
  await expect.poll(() => csi.holding).toBe(1);
  await runs(NODE);
  await csi.release();
  await expect.poll(() => csi.asked.slice(3)).toEqual(["node.detach", "unpublish", "publish", "node.publish"]);
  await expect.poll(() => statesOf()).toEqual(["published"]);
  expect([csi.published.size, csi.wrongs]).toEqual([1, []]);
});

it("a file system grows to the actual size of the disk, which may exceed the request", async () => {
  await use({ RequestedCapacityMin: 1_000 });
  await expect.poll(() => statesOf()).toEqual(["published"]);
  csi.behave = ({ method }): Behaviour =>
    method === "csi.controller.expand"
      ? { state: "done", result: { capacityBytes: 4_096, nodeExpansionRequired: true } }
      : "work";
  const grown = await create({ RequestedCapacityMin: 2_000, RequestedCapacityMax: 5_000 });
  expect(grown.body.Volumes[0]).toMatchObject({ Capacity: 4_096, RequestedCapacityMin: 2_000 });
  expect(csi.sent.at(-1)?.operation).toMatchObject({
    method: "csi.node.expand",
    params: { capacityMin: 4_096, capacityMax: 5_000 },
  });
});

it("no controller attaches to a node with an unknown provider id, which would mean every node", async () => {
  await addNode(2, nodePlugins({ NodeInfo: { ID: "", MaxVolumes: 5 } }));
  await use();
  await expect
    .poll(claimsOf)
    .toMatchObject([{ State: "taken", LastError: `controller publish volume: missing external node ID: ${NODE}` }]);
  expect(csi.asked).toEqual(["create"]);
  await addNode(2, nodePlugins({ NodeInfo: { ID: "far-two", MaxVolumes: 5 } }));
  await expect.poll(() => statesOf()).toEqual(["published"]);
  expect([...csi.attached]).toEqual(["ext-vol-one far-two"]);
});

const mode = (AccessMode: string) => ({ AccessMode, AttachmentMode: "file-system" });
const [many, one] = [mode("multi-node-multi-writer"), mode("multi-node-single-writer")];
const modeNow = async () => (await get("/v1/volume/csi/v1")).body.AccessMode;

it("a volume keeps the mode of its first claim until its last claim is released", async () => {
  expect((await create({ RequestedCapabilities: [many, one] })).status).toBe(200);
  await runs(NODE, { ...many });
  await runs(NODE, { alloc: "a2", ...one });
  await expect.poll(() => statesOf()).toEqual(["published", "published"]);
  await ends(NODE, "a1", { ...many });
  await expect.poll(() => statesOf()).toEqual(["published"]);
  expect(await modeNow()).toBe(many.AccessMode);
  await runs(NODE, { alloc: "a3" });
  await expect.poll(() => statesOf()).toEqual(["published", "published"]);
  for (const alloc of ["a2", "a3"]) await ends(NODE, alloc);
  await expect.poll(() => statesOf()).toEqual([]);
  expect(await modeNow()).toBe("");
  await runs(NODE, { alloc: "a4", ...one });
  await expect.poll(modeNow).toBe(one.AccessMode);
});

it("a later claim is attached and published with the modes of its own job", async () => {
  expect((await create({ RequestedCapabilities: [many, one] })).status).toBe(200);
  await runs(NODE, { ...many });
  await expect.poll(() => statesOf()).toEqual(["published"]);
  await runs(NODE, { alloc: "a2", ...one });
  await expect.poll(() => statesOf()).toEqual(["published", "published"]);
  expect((await claimsOf()).map(({ AccessMode }: { AccessMode: string }) => AccessMode)).toEqual([
    many.AccessMode,
    one.AccessMode,
  ]);
  const asked = csi.sent.filter(({ operation }) => operation.params["capability"]);
  expect(asked.map(({ operation: { method, params } }) => [method, params["capability"]])).toEqual(
    [many, one].flatMap(({ AccessMode, AttachmentMode }) =>
      ["csi.controller.publish", "csi.node.publish"].map((method) => [
        method,
        { accessMode: AccessMode, attachmentMode: AttachmentMode },
      ]),
    ),
  );
  expect(await modeNow()).toBe(many.AccessMode);
});

it("a claim that is older but admitted later does not change the mode of the volume", async () => {
  expect((await create({ RequestedCapabilities: [one, many] })).status).toBe(200);
  await runs(NODE, { ...one });
  await runs(NODE, { alloc: "a2", ...many });
  await runs(NODE, { alloc: "a3", ...one, ReadOnly: true });
  await expect.poll(() => statesOf()).toEqual(["published", "pending", "published"]);
  await ends(NODE, "a1", { ...one });
  await expect.poll(() => statesOf()).toEqual(["published", "published"]);
  await runs(NODE, { alloc: "a4", ...one });
  await expect.poll(async () => (await claimsOf()).at(-1).LastError).toContain("volume max claims reached");
  expect(await modeNow()).toBe(one.AccessMode);
});

it("claims that wait for capacity on a node do not block each other", async () => {
  await addNode(2, nodePlugins({ NodeInfo: { ID: "far-two", MaxVolumes: 1 } }));
  const ids = ["v1", "v2", "v3"];
  for (const id of ids) {
    await create({ ID: id, Name: id });
    await runs(NODE, { alloc: `a-${id}`, source: id });
  }
  const states = async () => (await Promise.all(ids.map(statesOf))).flat().toSorted();
  await expect.poll(states).toEqual(["pending", "pending", "published"]);
  await ends(NODE, "a-v1", { source: "v1" });
  await expect.poll(states).toEqual(["pending", "published"]);
});

it("a repeatedly failing step is retried with growing delays of up to five minutes", () => {
  const pauseAfter = (attempts: number) => {
    const { due } = failure({ attempts } as CsiClaim, refuse("faulty", "stuck"));
    return (due - Date.now()) / 1_000;
  };
  for (const [attempts, longest] of [
    [0, 1],
    [3, 8],
    [30, 300],
  ] as const) {
    expect(pauseAfter(attempts)).toBeGreaterThan(longest / 2 - 0.1);
    expect(pauseAfter(attempts)).toBeLessThanOrEqual(longest);
  }
});

it("a claim that waits for another one's attachment on its node continues when that fails", async () => {
  csi.behave = ({ method }) => (method === "csi.controller.publish" ? "hold" : "work");
  await use({ RequestedCapabilities: [many] });
  await expect.poll(() => csi.holding).toBe(1);
  await runs(NODE, { alloc: "a2" });
  await expect.poll(() => statesOf()).toEqual(["taken", "taken"]);
  // It has failed so often that it is not tried again for minutes.
  await runInDurableObject(env.CLUSTER_REGISTRY.getByName("main"), (_registry, { storage: { sql } }) => {
    sql.exec("UPDATE csi_claims SET attempts = 20 WHERE alloc_id = 'a1'");
  });
  csi.behave = () => "work";
  const { node, operation } = csi.sent.at(-1) ?? expect.fail();
  await csi.tell(node, operation.id, { state: "failed", error: { kind: "plugin", message: "stuck" } });
  await expect.poll(() => statesOf()).toEqual(["taken", "published"]);
});

it("a volume is not written during an operation on it, nor with an operation's result", async () => {
  expect((await create()).status).toBe(200);
  csi.behave = () => "hold";
  const deletion = del("/v1/volume/csi/v1/delete");
  await expect.poll(() => csi.holding).toBe(1);
  const requests = ["v2", "v1"].map((id) => {
    const { ID: _id, ...given } = definition({ Name: "" });
    const request = requestOf({ ...given, ID: id } as CsiFields, "default");
    return request.ok ? request.value : expect.fail();
  });
  expect(await clusterRegistry(env).commitCsiVolumes([], requests)).toMatchObject({
    ok: false,
    reason: "conflict",
    message: expect.stringMatching(/^operation .* on volume v1 has not ended yet$/),
  });
  expect((await get("/v1/volume/csi/v2")).status).toBe(404);
  await csi.release();
  expect((await deletion).status).toBe(200);
});

it("a list of claims without pages is complete for any number", async () => {
  expect((await create()).status).toBe(200);
  await runInDurableObject(env.CLUSTER_REGISTRY.getByName("main"), (_registry, { storage: { sql } }) => {
    sql.exec(`WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 2100)
      INSERT INTO csi_claims (namespace, volume_id, alloc_id, node_id, mode, state, created, updated)
      SELECT 'default', 'v1', 'a' || n, 'n', 'read', 'pending', 1, 1 FROM numbers`);
  });
  const found = (await claimsOf()).map(({ AllocID }: { AllocID: string }) => AllocID);
  expect(found).toEqual(Array.from({ length: 2_100 }, (_, at) => `a${at + 1}`));
});

it("a released claim has no pending expansion", async () => {
  await use({ RequestedCapacityMin: 1_000 });
  await expect.poll(() => statesOf()).toEqual(["published"]);
  csi.behave = ({ method }): Behaviour => {
    if (method === "csi.node.detach") return "hold";
    if (method === "csi.node.expand") return { state: "failed", error: { kind: "plugin", message: "busy" } };
    return method === "csi.controller.expand"
      ? { state: "done", result: { capacityBytes: 2_000, nodeExpansionRequired: true } }
      : "work";
  };
  expect((await create({ RequestedCapacityMin: 2_000 })).status).toBe(502);
  expect(await claimsOf()).toMatchObject([{ ExpansionOwed: true }]);
  await ends(NODE);
  await expect.poll(() => csi.holding).toBe(1);
  expect(await claimsOf()).toMatchObject([{ State: "unpublishing", ExpansionOwed: false, LastError: "" }]);
  await csi.release();
  await expect.poll(() => statesOf()).toEqual([]);
});

it("a plugin continues with other operations while the outcome of one is unknown", async () => {
  for (const id of ["v1", "v2"]) expect((await create({ ID: id, Name: id })).status).toBe(200);
  csi.behave = () => "hold";
  const first = del("/v1/volume/csi/v1/delete");
  await expect.poll(() => csi.holding).toBe(1);
  const { node, operation } = csi.sent.at(-1) ?? expect.fail();
  csi.behave = () => "work";
  await csi.tell(node, operation.id, { state: "unknown", error: { kind: "timeout", message: "silent" } });
  expect((await del("/v1/volume/csi/v2/delete")).status).toBe(200);
  expect((await get("/v1/volume/csi/v1/operations")).body[0]).toMatchObject({ State: "unknown" });
  await csi.release();
  expect((await first).status).toBe(200);
});

it("sealed data of an operation is deleted when it ends, unless it may still create a volume", async () => {
  const sealed = () =>
    runInDurableObject(env.CLUSTER_REGISTRY.getByName("main"), (_registry, { storage: { sql } }) =>
      sql.exec("SELECT method, state FROM csi_operations WHERE sealed IS NOT NULL").toArray(),
    );
  const secrets = { Secrets: { key: "canary" } };
  await use({ ...secrets, RequestedCapacityMin: 1_000 });
  await expect.poll(() => statesOf()).toEqual(["published"]);
  expect((await create({ ...secrets, RequestedCapacityMin: 2_000 })).status).toBe(200);
  await ends(NODE);
  await expect.poll(() => statesOf()).toEqual([]);
  expect((await del("/v1/volume/csi/v1/delete")).status).toBe(200);
  expect(await sealed()).toEqual([]);
  csi.behave = () => ({ state: "failed", error: { kind: "plugin", message: "broken" } });
  expect((await create({ ...secrets, ID: "v2", Name: "v2" })).status).toBe(502);
  expect(await sealed()).toEqual([]);
  csi.behave = () => ({ state: "given-up", error: { kind: "timeout", message: "silent" } });
  expect((await create({ ...secrets, ID: "v3", Name: "v3" })).status).toBe(504);
  expect(await sealed()).toEqual([{ method: "csi.controller.create", state: "failed" }]);
});

it("a completed operation is kept for an hour, a read for a minute, an unknown outcome for 30 days", async () => {
  const kept = (volume: string) =>
    runInDurableObject(env.CLUSTER_REGISTRY.getByName("main"), (_registry, { storage: { sql } }) =>
      sql.exec("SELECT (due - ended) / 3600000.0 AS hours FROM csi_operations WHERE volume_id = ?", volume).one(),
    );
  expect((await create({ ID: "made", Name: "made" })).status).toBe(200);
  expect((await register({ ID: "seen", Name: "seen", ExternalID: "x-seen" })).status).toBe(200);
  csi.behave = () => ({ state: "failed", error: { kind: "plugin", message: "broken" } });
  expect((await create({ ID: "failed", Name: "failed" })).status).toBe(502);
  csi.behave = () => ({ state: "given-up", error: { kind: "timeout", message: "silent" } });
  expect((await create({ ID: "lost", Name: "lost" })).status).toBe(504);
  expect([await kept("seen"), await kept("made"), await kept("failed"), await kept("lost")]).toEqual([
    { hours: 1 / 60 },
    { hours: 1 },
    { hours: 1 },
    { hours: 30 * 24 },
  ]);
});

it("a claim during the deletion of its volume waits for it, and is taken at once when it fails", async () => {
  expect((await create()).status).toBe(200);
  csi.behave = () => "hold";
  const deletion = del("/v1/volume/csi/v1/delete");
  await expect.poll(() => csi.holding).toBe(1);
  const { node, operation } = csi.sent.at(-1) ?? expect.fail();
  csi.behave = () => "work";
  await runs(NODE);
  await expect.poll(claimsOf).toMatchObject([{ State: "pending", LastError: "volume v1 is being deleted" }]);
  await putOff();
  await csi.tell(node, operation.id, { state: "failed", error: { kind: "plugin", message: "broken" } });
  expect((await deletion).status).toBe(502);
  await expect.poll(() => statesOf()).toEqual(["published"]);
});
