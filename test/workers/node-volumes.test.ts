import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { CLOSE, type ReportedHostVolume, type Vols } from "@sallyport/agent-protocol";
import { describe, expect, it, vi } from "vitest";
import { ClusterRegistry } from "../../src/objects/cluster-registry.ts";
import { clusterRegistry } from "../../src/rpc/stubs.ts";
import { eventsOf } from "./access.ts";
import { del, get, put } from "./client.ts";
import { registryObject } from "./nodes-helpers.ts";
import { type AgentSocket, done, eventually, nodeReport, readNode, ScriptedAgent, statusOf } from "./scripted-agent.ts";

/** A volume that only the agent knows. */
const ghost = (number: number, more: Partial<ReportedHostVolume> = {}): ReportedHostVolume => ({
  ID: `0199d1f0-0000-7000-8000-${String(number).padStart(12, "0")}`,
  Name: `ghost-${number}`,
  Path: `/volumes/${number}`,
  ReadOnly: false,
  ...more,
});
const ghosts = (count: number) => Array.from({ length: count }, (_, at) => ghost(at));
const mapOf = (volumes: readonly ReportedHostVolume[]) => Object.fromEntries(volumes.map((one) => [one.Name, one]));
const reportOf = (volumes: readonly ReportedHostVolume[]) => nodeReport({ HostVolumes: mapOf(volumes) });

/** Counts the rows that an object reads from now on. */
const rowsRead = (stub: unknown): Promise<() => number> =>
  runInDurableObject(stub as DurableObjectStub, (object) => {
    const { sql } = object as unknown as { sql: SqlStorage };
    const exec = sql.exec.bind(sql) as SqlStorage["exec"];
    const cursors: { readonly rowsRead: number }[] = [];
    Object.defineProperty(sql, "exec", {
      configurable: true,
      value: (...given: Parameters<SqlStorage["exec"]>) => {
        const cursor = exec(...given);
        cursors.push(cursor);
        return cursor;
      },
    });
    return () => {
      Reflect.deleteProperty(sql, "exec");
      return cursors.reduce((sum, cursor) => sum + cursor.rowsRead, 0);
    };
  });

let seq = 0;
const vols = (change: Partial<Vols>): Vols => ({
  t: "vols",
  seq: ++seq,
  usable: [],
  unavailable: [],
  gone: [],
  ...change,
});

/** An agent whose node is ready and shows these volumes. */
async function nodeWith(volumes: readonly ReportedHostVolume[]): Promise<[ScriptedAgent, AgentSocket]> {
  const [agent, socket] = await ScriptedAgent.connected({ node: reportOf(volumes) });
  await eventually(async () => expect(await statusOf(agent.node)).toBe("ready"));
  return [agent, socket];
}

const shown = async (agent: ScriptedAgent): Promise<Record<string, ReportedHostVolume>> =>
  (await readNode(agent.node)).HostVolumes;
const shows = (agent: ScriptedAgent, volumes: readonly ReportedHostVolume[]) =>
  eventually(async () => expect(await shown(agent)).toEqual(mapOf(volumes)));

describe("a change of volumes", () => {
  it("lists new, broken and deleted volumes, and keeps the others", async () => {
    const [agent, socket] = await nodeWith(ghosts(4));
    const before = (await readNode(agent.node)).ModifyIndex;
    socket.send(
      vols({
        usable: [ghost(1, { Name: "ghost-2" }), ghost(2, { Name: "ghost-1" }), ghost(9)],
        unavailable: [{ id: ghost(3).ID, name: "ghost-3", reason: "its plugin is gone" }],
        gone: [ghost(0).ID, ghost(77).ID],
      }),
    );
    await shows(agent, [ghost(1, { Name: "ghost-2" }), ghost(2, { Name: "ghost-1" }), ghost(9)]);
    // The index is that of the event, which the log appends after the change is stored.
    await eventually(async () => expect((await readNode(agent.node)).ModifyIndex).toBeGreaterThan(before));
    socket.send(vols({ usable: [ghost(3)] }));
    await eventually(async () => expect(Object.keys(await shown(agent))).toHaveLength(4));
  });

  it("without a difference changes no index", async () => {
    const [agent, socket] = await nodeWith(ghosts(2));
    const index = (await readNode(agent.node)).ModifyIndex;
    socket.send(vols({ usable: [ghost(1)], gone: [ghost(5).ID] }));
    await socket.settled();
    expect((await readNode(agent.node)).ModifyIndex).toBe(index);
  });

  it("wakes a blocking query of the node", async () => {
    const [agent, socket] = await nodeWith([]);
    const { ModifyIndex } = await readNode(agent.node);
    const read = get(`/v1/node/${agent.node}?index=${ModifyIndex}&wait=20s`);
    await scheduler.wait(50);
    socket.send(vols({ usable: [ghost(1)] }));
    expect(Object.keys((await read).body.HostVolumes)).toEqual(["ghost-1"]);
  });

  it("waits while the registry is away; a volume that was created and deleted meanwhile is not reported", async () => {
    const [agent, socket] = await nodeWith(ghosts(2));
    const down = vi.spyOn(ClusterRegistry.prototype, "agentNews").mockRejectedValue(new Error("down"));
    socket.send(vols({ usable: [ghost(5), ghost(6)] }));
    socket.send(vols({ gone: [ghost(5).ID, ghost(0).ID] }));
    await socket.settled();
    expect(Object.keys(await shown(agent))).toEqual(["ghost-0", "ghost-1"]);
    down.mockRestore();
    await shows(agent, [ghost(1), ghost(6)]);
    // The registry shows the change before its answer reaches the session, which then deletes what it has reported.
    await eventually(async () =>
      expect(await agent.rows("SELECT id FROM report_volumes WHERE body IS NULL")).toEqual([]),
    );
  });

  it("is stored together with a change of the node", async () => {
    const [agent, socket] = await nodeWith(ghosts(2));
    const down = vi.spyOn(ClusterRegistry.prototype, "agentNews").mockRejectedValue(new Error("down"));
    socket.send({ t: "fp", seq: 1, node: { Meta: { a: "1" } } });
    socket.send(vols({ usable: [ghost(5)], gone: [ghost(0).ID] }));
    await socket.settled();
    down.mockRestore();
    await shows(agent, [ghost(1), ghost(5)]);
    expect((await readNode(agent.node)).Meta).toEqual({ a: "1" });
  });

  it("of a node that was purged meanwhile restores all of its volumes", async () => {
    const [agent, socket] = await nodeWith(ghosts(3));
    await clusterRegistry(env).purgeNode(agent.node, true);
    socket.send(vols({ gone: [ghost(0).ID] }));
    await eventually(async () => expect(await statusOf(agent.node)).toBe("ready"));
    await shows(agent, [ghost(1), ghost(2)]);
  });

  it("of a node that was purged meanwhile are restored by its next report, which has none of them", async () => {
    const [agent, socket] = await nodeWith(ghosts(3));
    await clusterRegistry(env).purgeNode(agent.node, true);
    socket.send({ t: "fp", seq: 1, node: { Meta: { a: "1" } } });
    await eventually(async () => expect(await statusOf(agent.node)).toBe("ready"));
    await shows(agent, ghosts(3));
  });

  it("above the maximum number of volumes closes the connection without a change", async () => {
    const [agent, socket] = await nodeWith(ghosts(2_000));
    socket.send(vols({ usable: [ghost(5_000)], gone: [ghost(0).ID] }));
    await eventually(async () => expect(Object.keys(await shown(agent))).toContain("ghost-5000"));
    socket.send(vols({ usable: [ghost(5_001)] }));
    expect(await socket.closed).toMatchObject({
      code: CLOSE.protocol,
      reason: expect.stringContaining("2000 volumes"),
    });
    expect(Object.keys(await shown(agent))).not.toContain("ghost-5001");
  });

  it("before hello closes the connection", async () => {
    const agent = await ScriptedAgent.joined();
    const socket = await agent.connect();
    socket.send(vols({ usable: [ghost(1)] }));
    expect(await socket.closed).toMatchObject({ code: CLOSE.protocol, reason: "vols before welcome" });
  });
});

describe("a report at connect", () => {
  it("replaces the known volumes", async () => {
    const [agent, socket] = await nodeWith(ghosts(3));
    socket.close();
    await (await agent.connect()).welcome({ node: reportOf([ghost(1), ghost(7)]) });
    await shows(agent, [ghost(1), ghost(7)]);
  });

  it("that exceeds a frame keeps the omitted volumes, and lists all names", async () => {
    const [agent, socket] = await nodeWith(ghosts(4));
    socket.close();
    const next = await agent.connect();
    const asked = vi.spyOn(ClusterRegistry.prototype, "unknownVolumes");
    const held = [ghost(0).ID, ghost(1).ID, ghost(2).ID, ghost(9).ID];
    const unavailable = { id: ghost(1).ID, name: "ghost-1", reason: "gone" };
    const welcome = await next.welcome({ node: reportOf([ghost(0)]), unavailableVolumes: [unavailable], held });
    expect(asked).toHaveBeenCalledWith(agent.node, held);
    expect(welcome.unknownVolumes).toEqual(held);
    await shows(agent, [ghost(0), ghost(2)]);
    next.send(vols({ usable: [ghost(9)] }));
    await shows(agent, [ghost(0), ghost(2), ghost(9)]);
  });

  it("of an agent of the first release is followed by complete maps, which show deletions", async () => {
    const [agent, socket] = await nodeWith(ghosts(3));
    socket.send({ t: "fp", seq: 1, node: { HostVolumes: mapOf([ghost(1), ghost(8)]) }, unavailableVolumes: [] });
    await shows(agent, [ghost(1), ghost(8)]);
    const events = await eventsOf(`Node:${agent.node}`);
    expect(events.filter(({ Type }) => Type === "NodeRegistration")).toHaveLength(1);
  });
});

describe("a node with 2 000 volumes", () => {
  /** Creates and deletes a volume by the API. @returns the bytes of each event line about it */
  async function bytesOfLines(existing: number): Promise<number[]> {
    const [agent, socket] = await nodeWith(ghosts(existing));
    const seen = new Set((await eventsOf("*")).map(({ Index }) => Index));
    const asked = put("/v1/volume/host/create", { Volume: { Name: "db", PluginID: "mkdir", NodeID: agent.node } });
    const [create] = await socket.seen("req");
    const [op, params] = [create?.op as string, create?.params as { id: string }];
    socket.send(vols({ usable: [{ ID: params.id, Name: "db", Path: "/volumes/db", ReadOnly: false }] }));
    socket.send(done(op, { path: "/volumes/db", bytes: 0 }));
    const made = await asked;
    expect([made.status, made.body.Volume.State]).toEqual([200, "ready"]);
    socket.send(vols({ unavailable: [{ id: params.id, name: "db", reason: "its plugin is gone" }] }));
    await eventually(async () => expect((await get(`/v1/volume/host/${params.id}`)).body.State).toBe("unavailable"));
    const asking = del(`/v1/volume/host/${params.id}`);
    const [, deletion] = await socket.seen("req", 2);
    socket.send(vols({ gone: [params.id] }));
    socket.send(done(deletion?.op as string));
    expect((await asking).status).toBe(200);
    const events = (await eventsOf("*")).filter(({ Index }) => !seen.has(Index));
    expect(events.map(({ Topic, Type }) => [Topic, Type])).toEqual([
      ["HostVolume", "HostVolumeRegistered"],
      ["HostVolume", "NodeRegistration"],
      ["HostVolume", "HostVolumeDeleted"],
    ]);
    return events.map((event) => JSON.stringify({ ...event, Index: 0 }).length);
  }

  it("sends event lines as small as those of a node with one", async () => {
    const [few, many] = [await bytesOfLines(1), await bytesOfLines(1_999)];
    for (const [at, bytes] of many.entries()) expect(Math.abs(bytes - (few[at] ?? 0))).toBeLessThan(16);
    expect(Math.max(...many)).toBeLessThan(2_000);
  });

  it("costs the registry as many rows to read as a node with one, and its session one index of the volumes", async () => {
    const rows = async (existing: number) => {
      const [agent, socket] = await nodeWith(ghosts(existing));
      // The registry answers the report of the connection behind its welcome.
      await eventually(async () => expect(await agent.rows("SELECT seq FROM outbox")).toEqual([]));
      const spent = [await rowsRead(registryObject()), await rowsRead(agent.stub)] as const;
      socket.send(vols({ gone: [ghost(0).ID], usable: [ghost(9_000)] }));
      const told = "SELECT 1 FROM report_volumes AS v, report WHERE v.seq <= report.told AND v.id = ?";
      await eventually(async () => expect(await agent.rows(told, ghost(9_000).ID)).toHaveLength(1));
      return spent.map((read) => read());
    };
    const [few, many] = [await rows(1), await rows(1_999)];
    expect(many[0]).toBeLessThan((few[0] ?? 0) + 20);
    expect(many[1]).toBeLessThan((few[1] ?? 0) + 2_000 + 20);
  });

  it("costs its session and the registry one row per changed volume", async () => {
    const [agent, socket] = await nodeWith(ghosts(2_000));
    const told = vi.spyOn(ClusterRegistry.prototype, "agentNews");
    socket.send(vols({ gone: [ghost(7).ID] }));
    await eventually(() => expect(told).toHaveBeenCalled());
    const [, change] = told.mock.calls.at(-1) ?? [];
    expect(change).toEqual({ ...change, volumes: { put: [], gone: [ghost(7).ID] } });
    expect(change).not.toHaveProperty("report");
    expect(JSON.stringify(await agent.rows("SELECT body FROM report")).length).toBeLessThan(2_000);
  });
});

it("a removed agent's volumes are deleted", async () => {
  const [agent] = await nodeWith(ghosts(3));
  await del(`/v1/agent/${agent.node}`);
  expect(await agent.rows("SELECT * FROM report_volumes")).toEqual([]);
});
