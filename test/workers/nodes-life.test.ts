import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { NodeStore } from "../../src/cluster/nodes/node-store.ts";
import { Settings, settings } from "../../src/platform/settings.ts";
import { itRows } from "../support/rows.ts";
import { get, put } from "./client.ts";
import { clock, ShiftedClock } from "./clock.ts";
import {
  allLines,
  fingerprint,
  follow,
  ID,
  id,
  read,
  ready,
  register,
  registry,
  registryObject,
} from "./nodes-helpers.ts";
import { checkInRounds } from "./running-workers.ts";
import { closeAll } from "./streams.ts";

const { NODE_GRACE_MS: DOWN_AFTER_MS } = Settings.parse({});

clock.moves = true;

let time: ShiftedClock;
beforeEach(() => {
  time = new ShiftedClock();
});
afterEach(closeAll);

/** Lets time pass, and the registry's alarm ring. */
async function pass(ms: number): Promise<void> {
  time.advance(ms);
  await runDurableObjectAlarm(registryObject());
}

/** Actions on a node, by name. */
const acts = {
  register: () => registry().registerNode(ID, fingerprint()),
  connect: () => registry().nodeConnected(ID),
  lose: () => registry().nodeLost(ID),
  grace: () => pass(DOWN_AFTER_MS),
};
type Act = keyof typeof acts;

const nodeInfoOf = (ID: string) => ({
  ID,
  MaxVolumes: 5,
  AccessibleTopology: null,
  RequiresNodeStageVolume: false,
  SupportsStats: false,
  SupportsExpand: false,
  SupportsCondition: false,
});

const described = <Driver extends object>(drivers: Readonly<Record<string, Driver>>, HealthDescription: string) =>
  Object.fromEntries(Object.entries(drivers).map(([name, driver]) => [name, { ...driver, HealthDescription }]));

const inState: Readonly<Record<string, readonly Act[]>> = {
  initializing: ["register"],
  ready: ["register", "connect"],
  disconnected: ["register", "connect", "lose"],
  down: ["register", "connect", "lose", "grace"],
};

describe("a registration that changes figures only", () => {
  const plugin = {
    PluginID: "disk",
    Provider: "disk.example",
    ProviderVersion: "1.0",
    Healthy: true,
    HealthDescription: "",
    RequiresControllerPlugin: true,
    RequiresTopologies: false,
    UpdateTime: "2026-01-02T03:04:05Z",
  };
  const { NodeResources, Drivers } = fingerprint();
  const csi = {
    CSIControllerPlugins: { disk: { ...plugin, ControllerInfo: {}, AvailableCapacity: 42_000 } },
    CSINodePlugins: { disk: { ...plugin, NodeInfo: nodeInfoOf("far") } },
  };

  itRows<readonly [string, Parameters<typeof register>[1]]>([
    ["free capacity", { CSIControllerPlugins: { disk: { ...plugin, ControllerInfo: {}, AvailableCapacity: 41_000 } } }],
    [
      "time of a plugin's check",
      { CSINodePlugins: { disk: { ...plugin, UpdateTime: "2026-01-02T04:04:05Z", NodeInfo: nodeInfoOf("far") } } },
    ],
    ["text of a driver's check", { Drivers: described(Drivers, "Still healthy") }],
    [
      "speed of a link",
      {
        NodeResources: {
          ...NodeResources,
          Networks: NodeResources.Networks.map((each) => ({ ...each, MBits: 100 })),
          NodeNetworks: NodeResources.NodeNetworks.map((each) => ({ ...each, Speed: 100 })),
        },
      },
    ],
  ])("stores the %s without an event and without an index", async (_figure, change) => {
    await ready(ID, csi);
    const before = await read();
    const lines = await allLines();
    expect(await register(ID, change)).toBe(before.ModifyIndex);
    const { Resources, ...after } = await read();
    expect(after).toMatchObject(change ?? {});
    expect([after.ModifyIndex, after.Events]).toEqual([before.ModifyIndex, before.Events]);
    expect(await allLines()).toEqual(lines);
  });

  it("is a registration when the health of a plugin changes, too", async () => {
    await ready(ID, csi);
    const { ModifyIndex } = await read();
    const unwell = { ...plugin, Healthy: false, ControllerInfo: {}, AvailableCapacity: 41_000 };
    expect(await register(ID, { CSIControllerPlugins: { disk: unwell } })).toBeGreaterThan(ModifyIndex);
    expect((await read()).Events.at(-1)?.Message).toBe("Node re-registered");
  });

  it("is an event of the plugin when volumes of the node are unwell", async () => {
    await ready(ID, csi);
    const { ModifyIndex } = await read();
    const lines = await allLines();
    const VolumeProblems = [{ ExternalID: "far-1", AllocID: "a", Reason: "not mounted" }];
    await register(ID, { CSINodePlugins: { disk: { ...plugin, VolumeProblems, NodeInfo: nodeInfoOf("far") } } });
    expect((await read()).ModifyIndex).toBe(ModifyIndex);
    expect((await allLines()).slice(lines.length).flat()).toMatchObject([{ Topic: "CSIPlugin", Key: "disk" }]);
  });
});

describe("the life of a node", () => {
  // Proves: C.type.NodeEvent
  it.each([
    ["initializing", "connect", "ready", "Node is ready"],
    ["initializing", "lose", "disconnected", "Node disconnected"],
    ["initializing", "register", "initializing", null],
    ["initializing", "grace", "initializing", null],
    ["ready", "connect", "ready", null],
    ["ready", "register", "ready", null],
    ["ready", "lose", "disconnected", "Node disconnected"],
    ["ready", "grace", "ready", null],
    ["disconnected", "connect", "ready", "Node reregistered by heartbeat"],
    ["disconnected", "register", "disconnected", null],
    ["disconnected", "lose", "disconnected", null],
    ["disconnected", "grace", "down", "Node heartbeat missed"],
    ["down", "connect", "ready", "Node reregistered by heartbeat"],
    ["down", "register", "down", null],
    ["down", "lose", "down", null],
    ["down", "grace", "down", null],
  ] as const)("in %s, on %s: is %s, with the events %j", async (from, act, to, message) => {
    for (const step of inState[from] ?? []) await acts[step]();
    const before = await read();
    expect(before.Status).toBe(from);
    time.advance(5_000);
    await acts[act]();
    const after = await read();
    expect(after.Status).toBe(to);
    const lines = await allLines();
    const last = lines.at(-1)?.[0];
    if (message === null) {
      expect(after).toEqual(before);
      expect(last?.Index).toBe(before.ModifyIndex);
    } else {
      expect(last).toMatchObject({ Topic: "Node", Type: "NodeEvent", Key: ID, Payload: { Node: { Status: to } } });
      expect(after).toEqual(last?.Payload.Node);
      expect(after.Events.at(-1)).toMatchObject({ Message: message, Subsystem: "Cluster", CreateIndex: last?.Index });
      expect(after.StatusUpdatedAt).toBeGreaterThanOrEqual(before.StatusUpdatedAt + 5);
    }
  });

  it("has one event line per change", async () => {
    for (const act of ["register", "connect", "lose", "grace", "connect"] as const) await acts[act]();
    const lines = await allLines();
    expect(lines.map((events) => events.map(({ Type, Index }) => `${Index} ${Type}`))).toEqual([
      ["1 NodeRegistration"],
      ["2 NodeEvent"],
      ["3 NodeEvent"],
      ["4 NodeEvent"],
      ["5 NodeEvent"],
    ]);
    expect((await read()).Events.map(({ CreateIndex }) => CreateIndex)).toEqual([1, 2, 3, 4, 5]);
  });

  it("restarts its grace period when it comes back and leaves again", async () => {
    await ready();
    await registry().nodeLost(ID);
    time.advance(DOWN_AFTER_MS - 1_000);
    await registry().nodeConnected(ID);
    await registry().nodeLost(ID);
    await pass(2_000);
    expect((await read()).Status).toBe("disconnected");
    await pass(DOWN_AFTER_MS);
    expect((await read()).Status).toBe("down");
  });

  it("becomes down after the deployment's grace period", async () => {
    // The nodes read the settings of their object at each loss.
    const own = await runInDurableObject(registryObject(), (object) =>
      settings((object as unknown as { env: object }).env),
    );
    vi.spyOn(own, "NODE_GRACE_MS", "get").mockReturnValue(5_000);
    await ready();
    await registry().nodeLost(ID);
    await pass(4_000);
    expect((await read()).Status).toBe("disconnected");
    await pass(2_000);
    expect((await read()).Status).toBe("down");
  });

  it("becomes down together with all nodes of a site, more than one alarm handles", async () => {
    const count = 620;
    await runInDurableObject(registryObject(), async (object) => {
      for (let n = 1; n <= count; n++) {
        await object.registerNode(id(n), { Name: `n${n}`, Datacenter: "dc1", Attributes: { a: "b" } });
        await object.nodeLost(id(n));
      }
    });
    await pass(DOWN_AFTER_MS + 1_000);
    const allDown = async () => expect((await get("/v1/nodes?filter=Status == down")).body).toHaveLength(count);
    // An alarm that the runtime has begun by itself is not waited for.
    await checkInRounds(4, allDown, () => pass(1_000));
  }, 180_000);

  it("becomes down although the change of another node fails, which is tried again", async () => {
    const write = NodeStore.prototype.write;
    for (const node of [id(1), id(2)]) {
      await ready(node);
      await registry().nodeLost(node);
    }
    const failing = vi.spyOn(NodeStore.prototype, "write").mockImplementation(function (this: NodeStore, ...given) {
      if (given[2].ID === id(1)) throw new Error("too large");
      return write.apply(this, given);
    });
    const statuses = () => Promise.all([id(1), id(2)].map(async (node) => (await read(node)).Status));
    await pass(DOWN_AFTER_MS + 1_000);
    expect(await statuses()).toEqual(["disconnected", "down"]);
    failing.mockRestore();
    await pass(61_000);
    expect(await statuses()).toEqual(["down", "down"]);
  });

  it("keeps its status and grace period while other fields change", async () => {
    await ready();
    await registry().nodeLost(ID);
    await put(`/v1/node/${ID}/eligibility`, { Eligibility: "ineligible" });
    await registry().addNodeEvents(ID, [{ message: "m", subsystem: "Driver", details: null }]);
    await pass(DOWN_AFTER_MS);
    expect(await read()).toMatchObject({ Status: "down", SchedulingEligibility: "ineligible" });
  });
});

describe("a registration", () => {
  it("without a difference sends no event", async () => {
    const index = await register();
    expect(await register()).toBe(index);
    expect(await allLines()).toHaveLength(1);
  });

  it("with a difference keeps the node's eligibility, drain and create index", async () => {
    await ready();
    await put(`/v1/node/${ID}/drain`, { DrainSpec: { Deadline: 0 } });
    const before = await read();
    const { next } = await follow();
    await registry().registerNode(ID, { Meta: { rack: "r9" } });
    const told = await next();
    expect(told).toMatchObject({ Type: "NodeRegistration", Payload: { Node: { Meta: { rack: "r9" } } } });
    const after = await read();
    expect(after).toEqual(told.Payload.Node);
    expect(after).toMatchObject({
      CreateIndex: before.CreateIndex,
      SchedulingEligibility: "ineligible",
      Status: "ready",
      Name: "node-1",
      Attributes: before.Attributes,
      LastDrain: before.LastDrain,
    });
    expect(after.Events.at(-1)).toMatchObject({ Message: "Node re-registered", Subsystem: "Cluster" });
  });

  itRows([
    ["no name", { Name: "" }, "missing node name for client registration"],
    ["no datacenter", { Datacenter: "" }, "missing datacenter for client registration"],
    ["no attributes", { Attributes: {} }, "missing attributes for client registration"],
    ["the pool all", { NodePool: "all" }, 'NodePool: node is not allowed to register in node pool "all"'],
    ["no name of a pool", { NodePool: "a b" }, "NodePool: must be 1 to 128 letters, digits, - or _"],
  ])("with %s is refused without a change", async (_what, more, message) => {
    expect(await registry().registerNode(ID, { ...fingerprint(), ...more })).toEqual({
      ok: false,
      reason: "invalid",
      message,
    });
    expect((await get(`/v1/node/${ID}`)).status).toBe(404);
    expect(await allLines()).toEqual([]);
  });

  it("of an unknown node requires all fields", async () => {
    expect(await registry().registerNode(ID, { Meta: {} })).toMatchObject({ ok: false, reason: "invalid" });
    for (const refused of [
      await registry().nodeConnected(ID),
      await registry().nodeLost(ID),
      await registry().addNodeEvents(ID, []),
    ]) {
      expect(refused).toEqual({ ok: false, reason: "missing", message: "node not found" });
    }
  });

  it("creates a pool that is named for the first time, in the same event line", async () => {
    const { nextLine } = await follow("?topic=Node&topic=NodePool&index=-1");
    await register(ID, { NodePool: "gpu" });
    const line = await nextLine();
    expect(line.map(({ Topic, Type, Key }) => [Topic, Type, Key])).toEqual([
      ["Node", "NodeRegistration", ID],
      ["NodePool", "NodePoolUpserted", "gpu"],
    ]);
    expect((await get("/v1/node/pool/gpu")).body).toMatchObject({ Name: "gpu", CreateIndex: line[0]?.Index });
    await register(id(2), { NodePool: "gpu" });
    expect((await nextLine()).map(({ Topic }) => Topic)).toEqual(["Node"]);
  });
});

describe("a report of a session", () => {
  it("is applied once, if it is newer than the last one", async () => {
    await registry().registerNode(ID, fingerprint(), 10);
    await registry().nodeConnected(ID, 11);
    expect(await registry().nodeLost(ID, 9)).toMatchObject({ ok: true });
    expect((await read()).Status).toBe("ready");
    await registry().nodeLost(ID, 12);
    await registry().nodeConnected(ID, 11);
    expect((await read()).Status).toBe("disconnected");
    await registry().nodeConnected(ID, 13);
    await registry().registerNode(ID, fingerprint({ Name: "old" }), 13);
    expect(await read()).toMatchObject({ Status: "ready", Name: "node-1" });
    // A message without changes also counts as a sign of life.
    await registry().nodeConnected(ID, 20);
    await registry().nodeLost(ID, 20);
    expect((await read()).Status).toBe("ready");
  });

  it("starts a new sequence for a purged node", async () => {
    await registry().registerNode(ID, fingerprint(), 50);
    await registry().purgeNode(ID, true);
    await registry().registerNode(ID, fingerprint(), 1);
    expect((await registry().nodeConnected(ID, 2)).ok).toBe(true);
    expect((await read()).Status).toBe("ready");
  });
});
