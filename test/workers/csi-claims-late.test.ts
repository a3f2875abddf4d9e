import { beforeEach, expect, it } from "vitest";
import { create, csi, ends, openCsiNodes, runs, statesOf } from "./csi-world.ts";
import { nodeId } from "./host-volumes.ts";

const NODE = nodeId(2);

beforeEach(openCsiNodes);

const sent = (method: string) => csi.sent.find(({ operation }) => operation.method === method) ?? expect.fail();

it("a volume is detached again when a late result reports an attachment during its detachment by another controller", async () => {
  await create();
  const once = new Set(["csi.controller.publish", "csi.controller.unpublish"]);
  csi.behave = ({ method }) => (once.delete(method) ? "hold" : "work");
  await runs(NODE);
  await expect.poll(() => csi.holding).toBe(1);
  const publish = sent("csi.controller.publish");
  const silent = { kind: "timeout", message: "silent" } as const;
  await csi.tell(publish.node, publish.operation.id, { state: "unknown", error: silent });
  await ends(NODE);
  await expect.poll(() => csi.holding).toBe(2);
  const unpublish = sent("csi.controller.unpublish");
  // At the provider the second comes first.
  const detached = csi.work(unpublish.operation);
  await csi.tell(publish.node, publish.operation.id, csi.work(publish.operation));
  await csi.tell(unpublish.node, unpublish.operation.id, detached);
  await expect.poll(() => statesOf()).toEqual([]);
  expect([csi.attached.size, csi.wrongs]).toEqual([0, []]);
});
