import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import type { NodeReport } from "@sallyport/agent-protocol";
import { expect } from "vitest";
import type { Node } from "../../src/contracts/node.ts";
import type { ClusterRegistry } from "../../src/objects/cluster-registry.ts";
import { clusterRegistry } from "../../src/rpc/stubs.ts";
import { type Answer, get, put } from "./client.ts";
import { openStream } from "./streams.ts";

/** Helpers for tests of nodes. */

export const registry = () => clusterRegistry(env);
export const registryObject = () => env.CLUSTER_REGISTRY.getByName("main") as DurableObjectStub<ClusterRegistry>;

/** The id of the nth node; they sort by number. */
export const id = (n: number): string => `${String(n).padStart(8, "0")}-d701-875a-b2a6-f2631d7c2f60`;
export const ID = id(1);

/** A complete report of an agent. */
export const fingerprint = (more: Partial<NodeReport> = {}): NodeReport => ({
  Name: "node-1",
  Datacenter: "dc1",
  NodeClass: "large",
  NodePool: "default",
  Attributes: { "kernel.name": "linux", "os.name": "debian", "agent.version": "1.2.3", "unique.hostname": "h1" },
  Meta: { rack: "r1" },
  NodeResources: {
    Cpu: { CpuShares: 8000, TotalCpuCores: 4 },
    Memory: { MemoryMB: 16_000 },
    Disk: { DiskMB: 100_000 },
    Networks: [{ Mode: "host", Device: "eth0", CIDR: "10.0.0.7/32", IP: "10.0.0.7", MBits: 1000 }],
    NodeNetworks: [
      {
        Mode: "host",
        Device: "eth0",
        MacAddress: "02:00:00:00:00:01",
        Speed: 1000,
        Addresses: [
          { Family: "ipv4", Alias: "default", Address: "10.0.0.7", ReservedPorts: "22", Gateway: "10.0.0.1" },
        ],
      },
    ],
  },
  ReservedResources: {
    Cpu: { CpuShares: 100 },
    Memory: { MemoryMB: 256 },
    Disk: { DiskMB: 1024 },
    Networks: { ReservedHostPorts: "22,80" },
  },
  Drivers: {
    exec: {
      Attributes: { "driver.exec": "true" },
      Detected: true,
      Healthy: true,
      HealthDescription: "Healthy",
      UpdateTime: "2026-11-21T10:00:00.5+01:00",
    },
    raw: {
      Attributes: null,
      Detected: false,
      Healthy: false,
      HealthDescription: "",
      UpdateTime: "2026-11-21T09:00:00Z",
    },
  },
  HostVolumes: {
    data: { ID: "0192f0c4-0000-7000-8000-000000000001", Name: "data", Path: "/srv/data", ReadOnly: false },
  },
  ...more,
});

/** Registers a node by its agent and answers its index. */
export async function register(node = ID, more: Partial<NodeReport> = {}): Promise<number> {
  const registered = await registry().registerNode(node, fingerprint(more));
  if (!registered.ok) throw new Error(`not registered: ${registered.message}`);
  return registered.value.index ?? 0;
}

/** A node that is ready. */
export async function ready(node = ID, more: Partial<NodeReport> = {}): Promise<void> {
  await register(node, more);
  expect(await registry().nodeConnected(node)).toMatchObject({ ok: true });
}

type ReadNode = Node & { readonly CreateIndex: number; readonly ModifyIndex: number };

/** A node as it is read; fails the test when it is not there. */
export async function read(node = ID): Promise<ReadNode> {
  const answer = await get(`/v1/node/${node}`);
  expect(answer.status, answer.text).toBe(200);
  return answer.body;
}

export interface Told {
  readonly Index: number;
  readonly Topic: string;
  readonly Type: string;
  readonly Key: string;
  readonly Payload: { readonly Node: ReadNode };
}

/** The lines about nodes from here on. `next` is the following one's only event. */
export async function follow(query = "?topic=Node&index=-1") {
  const stream = await openStream(query);
  await stream.next();
  const nextLine = async (): Promise<Told[]> => (await stream.nextLine()).Events as unknown as Told[];
  return {
    stream,
    nextLine,
    next: async (): Promise<Told> => {
      const events = await nextLine();
      expect(events).toHaveLength(1);
      return events[0] as Told;
    },
  };
}

/** Every line of the stream so far, of any topic. */
export async function allLines(): Promise<Told[][]> {
  const stream = await openStream("");
  const lines: Told[][] = [];
  for (;;) {
    const line = await stream.next();
    if (line.Events.length === 0) {
      await stream.close();
      return lines;
    }
    lines.push(line.Events as unknown as Told[]);
  }
}

/** Reports allocations of a node, by id: what their clients say of them. */
export async function allocations(
  states: Readonly<Record<string, string>>,
  { node = ID, job = "web" }: { node?: string; job?: string } = {},
): Promise<Answer> {
  const events = Object.entries(states).map(([name, ClientStatus]) => ({
    Topic: "Allocation",
    Type: "AllocationUpdated",
    Payload: { Allocation: { ID: name, NodeID: node, JobID: job, Namespace: "default", ClientStatus } },
  }));
  const taken = await put("/v1/cluster/objects", events);
  expect(taken.status, taken.text).toBe(200);
  return taken;
}

/** Reports nodes as a scheduler does. */
export const report = (Type: string, node: object, more: object = {}): Promise<Answer> =>
  put("/v1/cluster/objects", [{ Topic: "Node", Type, Payload: { Node: node, ...more } }]);

/** Runs statements of the registry and counts the rows that they read. */
export const counted = <T>(work: (sql: SqlStorage) => T): Promise<{ result: T; rows: number }> =>
  runInDurableObject(registryObject(), (_object, state) => {
    const cursors: { rowsRead: number }[] = [];
    const sql = {
      exec: (query: string, ...values: unknown[]) => {
        const cursor = state.storage.sql.exec(query, ...values);
        cursors.push(cursor);
        return cursor;
      },
    } as unknown as SqlStorage;
    const result = work(sql);
    return { result, rows: cursors.reduce((sum, cursor) => sum + cursor.rowsRead, 0) };
  });
