import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it } from "vitest";
import { clusterRegistry } from "../../src/objects/stubs.ts";
import { closeAll, openStream } from "./streams.ts";

afterEach(closeAll);

const ID = "afb9c810-d701-875a-b2a6-f2631d7c2f60";
const registry = () => clusterRegistry(env);

describe("a node", () => {
  it("registers, is ready, is told, and reads as told", async () => {
    const stream = await openStream("?topic=Node&index=-1");
    await stream.next();
    expect(await registry().registerNode(ID, { Name: "n1", Datacenter: "dc1", Attributes: { "os.name": "x" } })).toEqual({
      ok: true,
      value: { index: 1 },
    });
    const line = await stream.nextLine();
    const read = await registry().readNode(ID);
    expect(JSON.parse(read?.body ?? "")).toEqual((line.Events[0]?.Payload as { Node: object }).Node);
    await registry().nodeConnected(ID);
    expect((await stream.nextLine()).Events).toMatchObject([{ Type: "NodeEvent" }]);
  });
});
