import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { Cluster, creation, PATIENT } from "./node-faults-world.ts";

/* Faults of the connection between the service and a node: nothing is created twice or lost. */

vi.setConfig({ testTimeout: 240_000 });

// A dead connection is detected after three pings.
const cluster = new Cluster({ AGENT_PING_MS: "2000" });
beforeAll(() => cluster.start(), 180_000);
afterAll(() => cluster.destroy(), 60_000);

describe("a connection", () => {
  it("that loses a result repeats it: one volume, created once", async () => {
    const node = await cluster.node("lost");
    node.stopAt("create 2");
    const asked = cluster.create({ NodePool: "lost" });
    await node.reached("create 2");
    cluster.line.deafen();
    node.letGo("create 2");
    await vi.waitFor(() => expect(readFileSync(node.at("state/journal"), "utf8")).toContain("4096"), PATIENT);
    expect(await cluster.list("&node_pool=lost")).toEqual([]);
    cluster.line.cut();
    const made = await asked;
    expect(made.status, made.text).toBe(200);
    await cluster.expectExactly("lost", [node], [made.body.Volume.ID]);
    expect(node.runs()).toHaveLength(1);
  });

  it("that is dead but looks open is replaced, and operations requested meanwhile run once", async () => {
    const node = await cluster.node("silent");
    cluster.line.silence();
    const asked = cluster.insist("PUT", "/v1/volume/host/create", creation({ NodePool: "silent" }, "silent"), [200]);
    const made = await asked;
    await cluster.expectExactly("silent", [node], [made.body.Volume.ID]);
    await cluster.waitForState(made.body.Volume.ID, "ready");
    cluster.line.cut();
  });
});

it("works for an agent whose clock is hours off", async () => {
  const node = await cluster.node("clock");
  await node.kill();
  await node.isReady("disconnected");
  const late = "const now = Date.now; Date.now = () => now() - 3 * 3600 * 1000;";
  node.start({ NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(late)}` });
  await node.isReady();
  expect(node.agent.log).toContain("clock_differs");
  const made = await cluster.create({ NodePool: "clock" });
  expect(made.status, made.text).toBe(200);
  await cluster.waitForState(made.body.Volume.ID, "ready");
});
