import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { part } from "../support/long.ts";
import { Cluster, creation, type Node, PATIENT } from "./node-faults-world.ts";

/* The service and its nodes, as they are, die and forget: nothing is made twice, lost, or deleted in use. */

vi.setConfig({ testTimeout: 240_000 });

const cluster = new Cluster();
beforeAll(() => cluster.start(), 180_000);
afterAll(() => cluster.destroy(), 60_000);

const path = (id: string) => `/v1/volume/host/${id}`;

describe("two nodes on one machine", () => {
  // Proves: D.rules.6.without-id
  it("have at most one volume of a name each without an ID; with an ID the volume stays on its node", async () => {
    const nodes = [await cluster.node("two", "n1"), await cluster.node("two", "n2")];
    const made = [await cluster.create({ NodePool: "two" }), await cluster.create({ NodePool: "two" })];
    expect(
      made.map(({ status }) => status),
      made.map(({ text }) => text).join(),
    ).toEqual([200, 200]);
    const volumes = made.map(({ body }) => body.Volume);
    expect(volumes.map(({ NodeID }) => NodeID).sort()).toEqual(nodes.map(({ id }) => id).sort());
    for (const { ID, NodeID, HostPath } of volumes) {
      expect(HostPath).toBe(nodes.find(({ id }) => id === NodeID)?.pathOf(ID));
      expect(existsSync(HostPath)).toBe(true);
    }
    expect((await cluster.create({ NodePool: "two" })).status).toBe(409);
    const [first] = volumes;
    const updated = await cluster.create({ ID: first.ID, Parameters: { note: "new" } });
    expect(updated.body?.Volume, updated.text).toMatchObject({ ID: first.ID, NodeID: first.NodeID });
    await cluster.expectExactly(
      "two",
      nodes,
      volumes.map(({ ID }) => ID),
    );
  });
});

describe("a request whose node or service crashes", () => {
  const faults = {
    "the agent": (node: Node) => node.restart(),
    "the service": () => cluster.restartService(),
    "the agent and the service": async (node: Node) => {
      await Promise.all([cluster.service.kill(), node.kill()]);
      await cluster.service.start();
      node.start();
    },
  };
  const cases = Object.keys(faults).flatMap((who) =>
    ["create 1", "create 2", "delete 1", "delete 2"].map((step): [keyof typeof faults, string] => [
      who as keyof typeof faults,
      step,
    ]),
  );
  it.each(part(cases))(
    "has one effect when it is repeated, with %s killed at step %s of the plugin",
    async (who, step) => {
      const pool = `${who} ${step}`.replaceAll(" ", "-");
      const node = await cluster.node(pool);
      const [volume, token] = [{ NodePool: pool }, pool];
      const [operation] = step.split(" ");
      if (operation === "delete") await cluster.insist("PUT", "/v1/volume/host/create", creation(volume, token), [200]);
      const id = (await cluster.list(`&node_pool=${pool}`))[0]?.ID;
      node.stopAt(step);
      const asked =
        operation === "create"
          ? cluster.insist("PUT", "/v1/volume/host/create", creation(volume, token), [200])
          : cluster.insist("DELETE", path(id), undefined, [200, 404]);
      await node.reached(step);
      await faults[who](node);
      node.letGo(step);
      const answer = await asked;
      if (operation === "create") {
        await cluster.expectExactly(pool, [node], [answer.body.Volume.ID]);
        await cluster.waitForState(answer.body.Volume.ID, "ready");
        expect(node.runs()).toEqual([`made ${answer.body.Volume.ID}`]);
        await cluster.insist("DELETE", path(answer.body.Volume.ID), undefined, [200, 404]);
      }
      await cluster.expectExactly(pool, [node], []);
    },
  );
});

describe("a volume in use", () => {
  // Proves: E.errors.4.host-delete
  it("is not deleted, with or without force, with its node ready or lost, under crashes", async () => {
    const node = await cluster.node("used");
    const { ID } = (await cluster.create({ NodePool: "used", PluginID: "mkdir" })).body.Volume;
    writeFileSync(`${node.pathOf(ID)}/data`, "precious");
    const Volumes = { v: { Type: "host", Name: "v", Source: "db" } };
    const job = { ID: "web", Namespace: "default", Version: 1, TaskGroups: [{ Name: "g", Volumes }] };
    const allocation = (ClientStatus: string) => ({
      ID: "a1",
      Namespace: "default",
      JobID: "web",
      JobVersion: 1,
      TaskGroup: "g",
      Name: "web.g[0]",
      NodeID: node.id,
      ClientStatus,
      DesiredStatus: "run",
    });
    const report = (status: string) =>
      cluster.call("PUT", "/v1/cluster/objects", [
        { Topic: "Job", Type: "JobRegistered", Namespace: "default", Payload: { Job: job } },
        {
          Topic: "Allocation",
          Type: "AllocationUpdated",
          Namespace: "default",
          Payload: { Allocation: allocation(status) },
        },
      ]);
    expect((await report("running")).status).toBe(200);
    const refused = async () => {
      for (const query of ["", "?force=true"]) {
        const answer = await cluster.call("DELETE", path(ID) + query);
        expect([answer.status, answer.text]).toEqual([409, expect.stringContaining("a1")]);
      }
    };
    await refused();
    await cluster.restartService();
    await refused();
    await node.kill();
    await node.isReady("disconnected");
    await refused();
    node.start();
    await cluster.waitForState(ID, "ready");
    expect(readFileSync(`${node.pathOf(ID)}/data`, "utf8")).toBe("precious");
    await report("complete");
    expect((await cluster.call("DELETE", path(ID))).status).toBe(200);
    expect(node.volumes()).toEqual([]);
  });
});

describe("an agent that lost", () => {
  it("its volume records reports the volumes as unavailable; a request with their ID makes them ready with their content", async () => {
    const node = await cluster.node("forgot");
    const { ID } = (await cluster.create({ NodePool: "forgot", PluginID: "mkdir" })).body.Volume;
    await cluster.waitForState(ID, "ready");
    writeFileSync(`${node.pathOf(ID)}/data`, "precious");
    await node.kill();
    for (const file of ["host-volumes", "journal"]) rmSync(node.at(`state/${file}`), { recursive: true });
    await node.isReady("disconnected");
    node.start();
    await node.isReady();
    await cluster.waitForState(ID, "unavailable");
    const again = await cluster.create({ ID, PluginID: "mkdir" });
    expect(again.status, again.text).toBe(200);
    await cluster.waitForState(ID, "ready");
    expect(readFileSync(`${node.pathOf(ID)}/data`, "utf8")).toBe("precious");
    expect(node.volumes()).toEqual([ID]);
  });

  it("all of its state is a new node; the old volumes stay on disk, and the old node can be purged", async () => {
    const node = await cluster.node("amnesia");
    const { ID } = (await cluster.create({ NodePool: "amnesia", PluginID: "mkdir" })).body.Volume;
    writeFileSync(`${node.pathOf(ID)}/data`, "precious");
    const old = node.id;
    await node.kill();
    rmSync(node.at("state"), { recursive: true });
    const token = await cluster.call("POST", "/v1/agent/tokens", { NodePool: "amnesia" });
    node.id = "";
    node.startWith(token.body.Token);
    await vi.waitFor(async () => {
      const nodes = (await cluster.call("GET", "/v1/nodes?filter=NodePool == amnesia")).body;
      const statuses = nodes.map((each: { ID: string; Status: string }) => [each.ID === old, each.Status]).sort();
      expect(statuses, node.agent.log).toEqual([
        [false, "ready"],
        [true, "disconnected"],
      ]);
      node.id = nodes.find((each: { ID: string }) => each.ID !== old).ID;
    }, PATIENT);
    await cluster.waitForState(ID, "unavailable");
    const other = await cluster.create({ NodePool: "amnesia", PluginID: "mkdir" });
    expect(other.body?.Volume, other.text).toMatchObject({ NodeID: node.id });
    expect((await cluster.call("PUT", `/v1/node/${old}/purge`)).status).toBe(200);
    expect((await cluster.call("GET", path(ID))).status).toBe(404);
    expect(node.volumes()).toEqual([ID, other.body.Volume.ID].sort());
    expect(readFileSync(`${node.pathOf(ID)}/data`, "utf8")).toBe("precious");
  });
});

it("a service that lost its state rejects agents, whose volumes stay and are reported as unknown after a new join", async () => {
  const node = await cluster.node("before");
  const { ID } = (await cluster.create({ NodePool: "before", PluginID: "mkdir" })).body.Volume;
  writeFileSync(`${node.pathOf(ID)}/data`, "precious");
  await cluster.replaceService();
  expect(await node.agent.exit, node.agent.log).toBe(4);
  rmSync(node.at("state/node.json"));
  const token = await cluster.call("POST", "/v1/agent/tokens", { NodePool: "before" });
  node.startWith(token.body.Token);
  node.id = "";
  await node.isReady();
  await vi.waitFor(() => expect(node.agent.log).toContain("volume_unknown_to_service"), PATIENT);
  expect(await cluster.list("")).toEqual([]);
  const blocked = await cluster.create({ NodePool: "before", PluginID: "mkdir" });
  expect([blocked.status, node.volumes()]).toEqual([409, [ID]]);
  const free = await cluster.create({ NodePool: "before", PluginID: "mkdir", Name: "free" });
  expect(free.status, free.text).toBe(200);
  expect(readFileSync(`${node.pathOf(ID)}/data`, "utf8")).toBe("precious");
  expect(readdirSync(node.at("volumes")).length).toBe(2);
});
