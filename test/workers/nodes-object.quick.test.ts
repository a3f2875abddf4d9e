import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { get } from "./client.ts";
import { fingerprint, follow, ID, id, read, ready, register, registry, type Told } from "./nodes-helpers.ts";
import { closeAll } from "./streams.ts";

afterEach(closeAll);

const ISO_WITH_OFFSET = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/;
const int = expect.toSatisfy(Number.isInteger);

/** Fields of a node: in the event of a registration and in a read, alike. */
describe("the Node object", () => {
  let told: Told;
  let node: Record<string, unknown>;

  beforeEach(async () => {
    const { next } = await follow();
    await register();
    told = await next();
    node = { ...(await read()) };
  });

  /** A promise about both. */
  const both = (check: (node: Record<string, unknown>) => void): void => {
    check({ ...told.Payload.Node });
    check(node);
  };

  // Proves: C.event.Payload, C.payload.Node, C.type.NodeRegistration, E.events.2.registration
  it("is equal in events and reads, with the same indexes", async () => {
    expect(node).toEqual(told.Payload.Node);
    expect(Object.keys(told.Payload)).toEqual(["Node"]);
    expect(told).toMatchObject({ Topic: "Node", Type: "NodeRegistration", Key: ID, Namespace: "", FilterKeys: null });
  });

  // Proves: C.node.strings
  it("has texts for its names", () => {
    both((each) =>
      expect(each).toMatchObject({
        ID,
        Datacenter: "dc1",
        Name: "node-1",
        HTTPAddr: "",
        NodeClass: "large",
        ComputedClass: expect.stringMatching(/^v1:.{22}$/),
        StatusDescription: "",
      }),
    );
  });

  // Proves: C.node.bools
  it("has TLSEnabled and Drain as flags", () => {
    both((each) => expect(each).toMatchObject({ TLSEnabled: false, Drain: false }));
  });

  // Proves: C.node.maps
  it("has Attributes and Meta as maps of texts", () => {
    both((each) => expect(each).toMatchObject({ Attributes: fingerprint().Attributes, Meta: { rack: "r1" } }));
  });

  // Proves: C.node.NodeResources
  it("has NodeResources", () => {
    both((each) =>
      expect(each["NodeResources"]).toMatchObject({
        Cpu: { CpuShares: 8000 },
        Memory: { MemoryMB: 16_000 },
        Disk: { DiskMB: 100_000 },
        Networks: [{}],
        NodeNetworks: [{}],
        Devices: null,
      }),
    );
  });

  // Proves: C.node.ReservedResources
  it("has ReservedResources", () => {
    both((each) =>
      expect(each["ReservedResources"]).toMatchObject({
        Cpu: { CpuShares: 100 },
        Memory: { MemoryMB: 256 },
        Disk: { DiskMB: 1024 },
        Networks: { ReservedHostPorts: "22,80" },
      }),
    );
  });

  // Proves: C.node.Resources
  it("has Resources, derived from NodeResources", () => {
    both((each) =>
      expect(each["Resources"]).toEqual({
        CPU: 8000,
        MemoryMB: 16_000,
        DiskMB: 100_000,
        IOPS: 0,
        Devices: null,
        Networks: (each["NodeResources"] as { Networks: unknown }).Networks,
      }),
    );
  });

  // Proves: C.node.Reserved
  it("has Reserved, derived from ReservedResources", () => {
    both((each) =>
      expect(each["Reserved"]).toEqual({
        CPU: 100,
        MemoryMB: 256,
        DiskMB: 1024,
        IOPS: 0,
        Networks: null,
        Devices: null,
      }),
    );
  });

  // Proves: C.node.nullable
  it("has null for absent fields", async () => {
    both((each) =>
      expect(each).toMatchObject({
        DrainStrategy: null,
        Links: null,
        CSIControllerPlugins: null,
        CSINodePlugins: null,
      }),
    );
    expect(node["HostVolumes"]).toEqual(fingerprint().HostVolumes);
    await registry().registerNode(id(2), { Name: "bare", Datacenter: "dc1", Attributes: { a: "b" } });
    expect((await read(id(2))).HostVolumes).toBeNull();
  });

  // Proves: C.node.SchedulingEligibility
  it("is eligible at first", () => {
    both((each) => expect(each["SchedulingEligibility"]).toBe("eligible"));
  });

  // Proves: C.node.Status, E.events.2.initializing
  it("is initializing at first", () => {
    both((each) => expect(each["Status"]).toBe("initializing"));
  });

  // Proves: C.node.StatusUpdatedAt
  it("has StatusUpdatedAt in Unix seconds", () => {
    both((each) => {
      expect(each["StatusUpdatedAt"]).toEqual(int);
      expect(Math.abs((each["StatusUpdatedAt"] as number) - Date.now() / 1000)).toBeLessThan(60);
    });
  });

  // Proves: C.node.Events
  it("has its events, each with the index of its line", () => {
    both((each) =>
      expect(each["Events"]).toEqual([
        {
          Message: "Node registered",
          Subsystem: "Cluster",
          Details: null,
          Timestamp: expect.any(String),
          CreateIndex: told.Index,
        },
      ]),
    );
  });

  // Proves: C.node.Events.Timestamp
  it("has event times with an offset", () => {
    both((each) => expect((each["Events"] as { Timestamp: string }[])[0]?.Timestamp).toMatch(ISO_WITH_OFFSET));
  });

  // Proves: C.node.Drivers
  it("has its drivers, with and without attributes", () => {
    both((each) =>
      expect(each["Drivers"]).toMatchObject({
        exec: {
          Attributes: { "driver.exec": "true" },
          Detected: true,
          Healthy: true,
          HealthDescription: "Healthy",
        },
        raw: { Attributes: null, Detected: false, Healthy: false, HealthDescription: "" },
      }),
    );
  });

  // Proves: C.node.Drivers.UpdateTime
  it("has the time of a driver in ISO 8601, as the agent sent it", () => {
    both((each) =>
      expect(each["Drivers"]).toMatchObject({
        exec: { UpdateTime: "2026-11-21T10:00:00.5+01:00" },
        raw: { UpdateTime: "2026-11-21T09:00:00Z" },
      }),
    );
  });

  // Proves: C.node.indexes
  it("has the index of its line as create and modify index", () => {
    both((each) => expect(each).toMatchObject({ CreateIndex: told.Index, ModifyIndex: told.Index }));
  });

  // Proves: C.node.Network
  it("has networks with all of their fields", () => {
    both((each) =>
      expect((each["NodeResources"] as { Networks: unknown }).Networks).toEqual([
        {
          Mode: "host",
          Device: "eth0",
          CIDR: "10.0.0.7/32",
          IP: "10.0.0.7",
          MBits: 1000,
          DNS: null,
          ReservedPorts: null,
          DynamicPorts: null,
        },
      ]),
    );
  });

  // Proves: C.node.NodeNetwork
  it("has node networks with all of their fields", () => {
    both((each) =>
      expect((each["NodeResources"] as { NodeNetworks: unknown }).NodeNetworks).toEqual([
        {
          Mode: "host",
          Device: "eth0",
          MacAddress: "02:00:00:00:00:01",
          Speed: 1000,
          Addresses: [expect.anything()],
        },
      ]),
    );
  });

  // Proves: C.node.NodeNetwork.Addresses
  it("has addresses with all of their fields", () => {
    both((each) =>
      expect((each["NodeResources"] as { NodeNetworks: { Addresses: unknown }[] }).NodeNetworks[0]?.Addresses).toEqual([
        { Family: "ipv4", Alias: "default", Address: "10.0.0.7", ReservedPorts: "22", Gateway: "10.0.0.1" },
      ]),
    );
  });

  it("has the fields of later versions, too", () => {
    both((each) =>
      expect(each).toMatchObject({
        NodePool: "default",
        LastDrain: null,
        HostNetworks: null,
        CgroupParent: "",
        IdentitySigningKeyID: "",
        GCVolumesOnNodeGC: false,
        NodeMaxAllocs: 0,
        LastAllocUpdateIndex: 0,
        LastMissedHeartbeatIndex: 0,
        NodeResources: {
          Cpu: { TotalCpuCores: 4, ReservableCpuCores: null },
          MinDynamicPort: 20_000,
          MaxDynamicPort: 32_000,
          Processors: { Topology: null },
        },
        ReservedResources: { Cpu: { ReservedCpuCores: null } },
      }),
    );
  });

  it("has an empty SecretID", () => {
    both((each) => expect(each["SecretID"]).toBe(""));
  });
});

describe("a read of a node", () => {
  it("omits the two legacy fields in the upstream dialect", async () => {
    await register();
    const { body } = await get(`/v1/node/${ID}`, { headers: { "X-Nomad-Token": "root" } });
    expect(Object.keys(body)).not.toContain("Resources");
    expect(Object.keys(body)).not.toContain("Reserved");
    expect(body.NodeResources.Cpu.CpuShares).toBe(8000);
  });

  it("has a value for every field, also of a node with a minimal report", async () => {
    await register();
    await registry().registerNode(id(2), { Name: "bare", Datacenter: "dc1", Attributes: { a: "b" } });
    const [full, bare] = [await read(), await read(id(2))];
    expect(Object.keys(bare).sort()).toEqual(Object.keys(full).sort());
    expect(Object.keys(bare.NodeResources).sort()).toEqual(Object.keys(full.NodeResources).sort());
    expect(bare).toMatchObject({ Meta: {}, Drivers: {}, NodeResources: { Networks: [], NodeNetworks: [] } });
  });
});

describe("the computed class", () => {
  const classOf = async (n: number, more: Parameters<typeof fingerprint>[0]): Promise<string> => {
    await register(id(n), more);
    return (await read(id(n))).ComputedClass;
  };

  it("is equal for nodes that differ only in names and unique attributes", async () => {
    const one = await classOf(1, {});
    const { Attributes, Meta } = fingerprint();
    const reordered = Object.fromEntries(Object.entries(Attributes).reverse());
    expect(
      await classOf(2, {
        Name: "other",
        Attributes: { ...reordered, "unique.hostname": "h2" },
        Meta: { ...Meta, "unique.serial": "77" },
      }),
    ).toBe(one);
  });

  it.each([
    ["datacenter", { Datacenter: "dc2" }],
    ["class", { NodeClass: "small" }],
    ["an attribute", { Attributes: { "kernel.name": "plan9" } }],
    ["its metadata", { Meta: { rack: "r2" } }],
  ])("differs by %s", async (_what, more) => {
    expect(await classOf(2, more)).not.toBe(await classOf(1, {}));
  });

  it("changes with the agent's later reports", async () => {
    const before = await classOf(1, {});
    await registry().registerNode(ID, { NodeClass: "small" });
    expect((await read()).ComputedClass).not.toBe(before);
    expect((await read()).Resources.CPU).toBe(8000);
    await registry().registerNode(ID, { NodeResources: { Cpu: { CpuShares: 9 } } });
    expect((await read()).Resources.CPU).toBe(9);
  });
});

describe("the events of a node", () => {
  it("are the last ten, each with the index of its line", async () => {
    await ready();
    const { next } = await follow();
    const indexes: number[] = [];
    for (let n = 1; n <= 11; n++) {
      await registry().addNodeEvents(ID, [
        { message: `event ${n}`, subsystem: "Driver", details: { n: String(n) }, at: 1_700_000_000_000 },
      ]);
      indexes.push((await next()).Index);
    }
    const { Events } = await read();
    expect(Events.map(({ Message }) => Message)).toEqual(Array.from({ length: 10 }, (_, n) => `event ${n + 2}`));
    expect(Events.map(({ CreateIndex }) => CreateIndex)).toEqual(indexes.slice(1));
    expect(Events[0]).toMatchObject({
      Subsystem: "Driver",
      Details: { n: "2" },
      Timestamp: "2023-11-14T22:13:20.000Z",
    });
  });
});
