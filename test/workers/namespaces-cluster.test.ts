import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import { accessControl, clusterRegistry } from "../../src/rpc/stubs.ts";
import { requestOf } from "../../src/volumes/host/request-body.ts";
import { del, get, put } from "./client.ts";
import { addCsiNode, create as createCsi, ScriptedCsi } from "./csi-world.ts";
import { addNode, ask, finish, run, ScriptedNodes, volume } from "./host-volumes.ts";
import { allocation, gone, job, report } from "./reports.ts";

const deletion = async () => {
  const { status, text } = await del("/v1/namespace/x");
  return [status, text];
};

beforeEach(async () => {
  expect((await put("/v1/namespace/x", {})).status).toBe(200);
});

describe("DELETE namespace/:name", () => {
  it("returns 400 with the names while the namespace has jobs, allocations or volumes", async () => {
    const nodes = new ScriptedNodes();
    const node = await addNode(1);
    const IN = { Namespace: "x" };
    const running = `namespace "x" has non-terminal jobs in regions: [global]`;

    await report(job({ ID: "web", ...IN, Status: "running" }, IN));
    expect(await deletion(), "a job that runs").toEqual([400, running]);
    await report(job({ ID: "web", ...IN, Status: "dead" }, IN), allocation(IN, IN));
    expect(await deletion(), "an allocation that runs").toEqual([400, running]);
    await report(gone(allocation(IN, IN)));

    const made = await ask(IN);
    expect(made.status).toBe(200);
    const { ID } = made.body.Volume;
    const holds = `namespace "x" contains at least one host volume ${JSON.stringify(ID)}. All host volumes must be deleted in namespace before it can be deleted`;
    expect(await deletion(), "a host volume").toEqual([400, holds]);
    await run(node, [], { namespace: "x" });
    expect((await get(`/v1/volume/host/${ID}?namespace=x`)).status).toBe(200);
    await finish(node);
    await report(gone(job({ ID: "web", ...IN }, IN)), gone(allocation({ ID: "a1", ...IN }, IN)));
    expect((await del(`/v1/volume/host/${ID}/delete?namespace=x`)).status).toBe(200);

    nodes.behave = () => "hold";
    const creating = ask({ ...IN, Name: "late" });
    await expect.poll(() => nodes.holding).toBe(1);
    expect((await deletion())[0], "a host volume that is being made").toBe(400);
    await nodes.release();
    const late = (await creating).body.Volume.ID;
    nodes.behave = () => "work";
    expect((await del(`/v1/volume/host/${late}/delete?namespace=x`)).status).toBe(200);
    expect(await deletion(), "empty").toEqual([200, ""]);
    expect((await get("/v1/namespace/x")).status).toBe(404);
  });

  it("returns 400 while the namespace has CSI volumes or one is being created", async () => {
    const csi = new ScriptedCsi();
    await addCsiNode(1);
    csi.behave = () => "hold";
    const creating = createCsi({ Namespace: "x" });
    await expect.poll(() => csi.holding).toBe(1);
    const refused = await deletion();
    expect([refused[0], refused[1]]).toEqual([400, expect.stringContaining('contains at least one CSI volume "v1"')]);
    await csi.release();
    expect((await creating).status).toBe(200);
    expect((await deletion())[0]).toBe(400);
    expect((await del("/v1/volume/csi/v1?namespace=x")).status).toBe(200);
    expect((await deletion())[0]).toBe(200);
  });

  it("refuses content from an earlier authorized request, and the next namespace of the name accepts it", async () => {
    const nodes = new ScriptedNodes();
    await addNode(1);
    const before = await accessControl(env).clusterNamespaceId("x");
    if (!before.ok) throw new Error(before.message);
    expect((await deletion())[0]).toBe(200);
    expect((await put("/v1/namespace/x", {})).status).toBe(200);

    const request = requestOf(volume({ Namespace: "x" }) as Parameters<typeof requestOf>[0], "x", "create");
    if (!request.ok) throw new Error(request.message);
    const begun = { request: "r", named: false };
    const registry = clusterRegistry(env);
    const gone = { ok: false, message: "volume validation failed: the namespace was deleted meanwhile" };
    expect(await registry.createHostVolume(before.value, request.value, begun, { from: null } as never)).toMatchObject(
      gone,
    );
    expect(await registry.registerHostVolume(before.value, request.value, begun)).toMatchObject(gone);
    expect(await registry.commitCsiVolumes([before.value], [])).toMatchObject(gone);
    expect(nodes.sent).toEqual([]);
    expect((await ask({ Namespace: "x" })).status).toBe(200);
  });
});
