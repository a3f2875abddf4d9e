import { runDurableObjectAlarm } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it, vi } from "vitest";
import type { OperationResult } from "../../src/contracts/node-operation.ts";
import { clusterRegistry } from "../../src/rpc/stubs.ts";
import { type Answer, del, get } from "./client.ts";
import { clock } from "./clock.ts";
import { addCsiNode, claimsOf, create, csi, ends, openCsiNodes, putOff, runs, statesOf } from "./csi-world.ts";
import { lose, nodeId } from "./host-volumes.ts";
import { byItself } from "./host-volumes-world.ts";

clock.moves = true;

/** The first runs the controller, the second mounts: one may go without the other. */
const [HEAD, NODE] = [nodeId(1), nodeId(2)];

beforeEach(openCsiNodes);

const published = async () => {
  const made = await create();
  if (made.status !== 200) throw new Error(made.text);
  await runs(NODE);
  await expect.poll(() => statesOf()).toEqual(["published"]);
};

const refusal = ({ status, text }: Answer) => [status, text];
const failed = (message: string): OperationResult => ({ state: "failed", error: { kind: "plugin", message } });
const connect = (node: string) => clusterRegistry(env).nodeConnected(node);
const detach = () => del(`/v1/volume/csi/v1/detach?node=${NODE}`);
const freed = async () => expect(await statesOf()).toEqual([]);
const clean = () => expect([csi.attached.size, csi.published.size, csi.wrongs]).toEqual([0, 0, []]);

/** It is lost, and does not come back in time. */
async function goDown(node: string): Promise<void> {
  await lose(node);
  const real = Date.now.bind(Date);
  const now = vi.spyOn(Date, "now").mockImplementation(() => real() + 61_000);
  await runDurableObjectAlarm(env.CLUSTER_REGISTRY.getByName("main"));
  now.mockRestore();
  expect((await get(`/v1/node/${node}`)).body.Status).toBe("down");
}

describe("DELETE /v1/volume/csi/:id/detach", () => {
  it("returns 404 for an unknown node without a claim, and 200 for a known node", async () => {
    await published();
    const unknown = await del("/v1/volume/csi/v1/detach?node=11111111-2222-3333-4444-555555555555");
    expect([unknown.status, unknown.text]).toEqual([404, 'no such node "11111111-2222-3333-4444-555555555555"']);
    expect(await statesOf()).toEqual(["published"]);
    await addCsiNode(7);
    expect((await del(`/v1/volume/csi/v1/detach?node=${nodeId(7)}`)).status).toBe(200);
  });
});

describe("releasing a claim", () => {
  it("waits for a node that is away, shows that, and continues when the node is back", async () => {
    await published();
    await lose(NODE);
    await ends(NODE);
    await expect.poll(() => statesOf()).toEqual(["unpublishing"]);
    expect(await claimsOf()).toMatchObject([
      {
        LastError: `could not detach from node: node ${NODE} is not there, or its plugin is not well`,
        NextRetry: null,
      },
    ]);
    expect(csi.asked).not.toContain("node.detach");
    await connect(NODE);
    await expect.poll(() => statesOf()).toEqual([]);
    clean();
  });

  it("calls no node that is down, and passes the node's id at the provider to the controller", async () => {
    await published();
    await goDown(NODE);
    csi.lostNodes = true;
    await ends(NODE);
    await expect.poll(() => statesOf()).toEqual([]);
    expect(csi.asked.slice(3)).toEqual(["unpublish"]);
    expect(csi.sent.at(-1)?.operation.params["externalNodeId"]).toBe("far-node-2");
  });

  it("works for an unknown node", async () => {
    await published();
    csi.lostNodes = true;
    await clusterRegistry(env).purgeNode(NODE, true);
    await ends(NODE);
    await expect.poll(() => statesOf()).toEqual([]);
    expect([csi.asked.slice(3), csi.attached.size]).toEqual([["unpublish"], 0]);
  });

  it("does not wait for operations of a node that goes down, and ignores their late results", async () => {
    await published();
    csi.behave = ({ method }) => (method === "csi.node.detach" ? "hold" : "work");
    await ends(NODE);
    await expect.poll(() => csi.holding).toBe(1);
    csi.lostNodes = true;
    await goDown(NODE);
    await expect.poll(() => statesOf()).toEqual([]);
    await connect(NODE);
    await runs(NODE, { alloc: "a2" });
    await expect.poll(() => statesOf()).toEqual(["published"]);
    await csi.release();
    await scheduler.wait(50);
    expect(await statesOf()).toEqual(["published"]);
  });

  it("continues when a claim was waiting for a node that goes down", async () => {
    await published();
    await lose(NODE);
    await ends(NODE);
    await expect.poll(() => statesOf()).toEqual(["unpublishing"]);
    csi.lostNodes = true;
    await goDown(NODE);
    await expect.poll(() => statesOf()).toEqual([]);
  });

  it("retries a failed step automatically, and shows its progress", async () => {
    await published();
    let tries = 0;
    csi.behave = () => (tries++ < 4 ? failed("stuck") : "work");
    await ends(NODE);
    await expect.poll(async () => (await claimsOf())[0]?.Attempts).toBeGreaterThan(0);
    expect(await claimsOf()).toMatchObject([
      {
        State: "unpublishing",
        LastError: "could not detach from node: stuck",
        NextRetry: expect.stringMatching(/^20\d\d-/),
      },
    ]);
    await byItself(freed);
    expect(csi.asked.slice(3)).toEqual([...Array(5).fill("node.detach"), "unpublish"]);
    clean();
  });

  it("repeats a step of unknown outcome, and ignores a late result of the first try", async () => {
    await published();
    csi.behave = ({ method }) => (method === "csi.controller.unpublish" ? "hold" : "work");
    await ends(NODE);
    await expect.poll(() => csi.holding).toBe(1);
    const first = csi.sent.at(-1) ?? expect.fail();
    await csi.tell(first.node, first.operation.id, { state: "unknown", error: { kind: "timeout", message: "silent" } });
    expect((await claimsOf())[0]).toMatchObject({
      State: "node-detached",
      LastError: expect.stringContaining("not answered"),
    });
    await expect.poll(() => csi.asked.filter((each) => each === "unpublish").length).toBe(2);
    await csi.tell(first.node, first.operation.id, { state: "done", result: {} });
    expect(await statesOf()).toEqual(["node-detached"]);
    await csi.release();
    await expect.poll(() => statesOf()).toEqual([]);
    clean();
  });

  it("waits for a controller when none is available", async () => {
    await published();
    await lose(HEAD);
    await ends(NODE);
    await expect.poll(() => statesOf()).toEqual(["node-detached"]);
    await expect.poll(async () => (await claimsOf())[0].LastError).toContain("no healthy controllers");
    await putOff();
    await connect(HEAD);
    await expect.poll(() => statesOf()).toEqual([]);
    clean();
  });

  it("starts after the operation that was taking it has ended", async () => {
    await create();
    csi.behave = ({ method }) => (method === "csi.node.publish" ? "hold" : "work");
    await runs(NODE);
    await expect.poll(() => csi.holding).toBe(1);
    await ends(NODE);
    await scheduler.wait(50);
    expect(csi.asked).not.toContain("node.detach");
    await csi.release();
    await expect.poll(() => statesOf()).toEqual([]);
    clean();
  });

  it("rolls back a partial failure", async () => {
    await create();
    csi.behave = ({ method }) => (method === "csi.node.publish" ? failed("no mount") : "work");
    await runs(NODE);
    await expect.poll(async () => (await claimsOf())[0]?.LastError).toBe("node publish volume: no mount");
    await ends(NODE);
    await byItself(freed);
    expect(csi.asked.at(-1)).toBe("unpublish");
    clean();
  });
});

describe("taking a claim", () => {
  it("continues after a failed step, also when the volume is in use elsewhere at that time", async () => {
    await create();
    let tries = 0;
    csi.behave = ({ method }) =>
      method === "csi.controller.publish" && tries++ < 2
        ? { state: "failed", error: { kind: "conflict", message: "in use elsewhere" } }
        : "work";
    await runs(NODE);
    await byItself(async () => expect(await statesOf()).toEqual(["published"]));
    expect(csi.asked).toEqual(["create", "publish", "publish", "publish", "node.publish"]);
  });

  it("detaches a late attachment of a controller after the claim has gone", async () => {
    await addCsiNode(3);
    await create();
    csi.behave = (_operation, node) => (node === HEAD ? "hold" : "work");
    await runs(NODE);
    await expect.poll(() => csi.holding).toBe(1);
    const first = csi.sent.at(-1) ?? expect.fail();
    await goDown(HEAD);
    await byItself(async () => expect(await statesOf()).toEqual(["published"]));
    await ends(NODE);
    await expect.poll(() => statesOf()).toEqual([]);
    expect(csi.attached.size).toBe(0);
    await connect(HEAD);
    csi.behave = () => "work";
    await csi.tell(first.node, first.operation.id, csi.work(first.operation, first.node));
    await expect.poll(() => csi.attached.size).toBe(0);
    await expect.poll(() => statesOf()).toEqual([]);
    clean();
  });
});

describe("detaching a volume from a node", () => {
  it("is refused while an allocation on the node uses it, without a change", async () => {
    await published();
    expect(refusal(await detach())).toEqual([
      409,
      `volume in use: v1: held by allocation a1 on node ${NODE} (published)`,
    ]);
    expect(await statesOf()).toEqual(["published"]);
  });

  // Proves: D.csi.detach.endpoint
  it("runs at once when the release was to be retried later, and frees the claim", async () => {
    await published();
    csi.behave = () => failed("stuck");
    await ends(NODE);
    await expect.poll(async () => (await claimsOf())[0].Attempts).toBeGreaterThan(0);
    await putOff();
    csi.behave = () => "work";
    const done = await detach();
    expect([done.status, done.text]).toEqual([200, ""]);
    expect(await statesOf()).toEqual([]);
    clean();
  });

  it.each<[string, string]>([
    ["csi.node.detach", "could not detach from node: "],
    ["csi.controller.unpublish", "could not detach from controller: controller detach volume: "],
  ])("returns the plugin's error of %s, and keeps retrying", async (method, said) => {
    await published();
    csi.behave = (operation) => (operation.method === method ? failed("stuck") : "work");
    await ends(NODE);
    expect(refusal(await detach())).toEqual([502, `${said}stuck`]);
    csi.behave = () => "work";
    await byItself(freed);
    clean();
  });

  it("reports that the node is away, and continues when it is back", async () => {
    await published();
    await lose(NODE);
    await ends(NODE);
    const answer = await detach();
    expect([answer.status, answer.text]).toEqual([503, expect.stringContaining("could not detach from node")]);
    await connect(NODE);
    await expect.poll(() => statesOf()).toEqual([]);
  });

  it("calls only the controller when the node is down", async () => {
    await published();
    csi.lostNodes = true;
    csi.behave = ({ method }) => (method.endsWith("unpublish") ? failed("stuck") : "work");
    await goDown(NODE);
    await ends(NODE);
    await expect.poll(async () => (await claimsOf())[0]?.State).toBe("node-detached");
    csi.behave = () => "work";
    // A call that began before may still fail.
    await expect.poll(async () => (await detach()).status).toBe(200);
    expect(csi.asked).not.toContain("node.detach");
    await freed();
  });

  it("has no effect without a claim", async () => {
    await published();
    expect((await del(`/v1/volume/csi/v1/detach?node=${HEAD}`)).status).toBe(200);
    expect(await statesOf()).toEqual(["published"]);
  });
});
