import { beforeEach, describe, expect, it, vi } from "vitest";
import type { Operation } from "../../src/contracts/node-operation.ts";
import { ClaimController } from "../../src/volumes/csi/claim-controller.ts";
import { eventsOf } from "./access.ts";
import { get } from "./client.ts";
import { clock } from "./clock.ts";
import { type Behaviour, claimsOf, create, csi, ends, openCsiNodes, runs, statesOf } from "./csi-world.ts";
import { nodeId } from "./host-volumes.ts";
import { byItself, killRegistry } from "./host-volumes-world.ts";

clock.moves = true;

const NODE = nodeId(2);
beforeEach(async () => {
  await openCsiNodes();
  await create();
});

/** The registry may die while it answers; a scheduler reports again. */
const report = async (tell: () => Promise<void>): Promise<void> => {
  for (let tries = 0; ; tries++) {
    try {
      return await tell();
    } catch (failure) {
      if (tries === 20) throw failure;
      await scheduler.wait(20);
    }
  }
};

const isPublished = async () => {
  expect(await statesOf()).toEqual(["published"]);
  expect([csi.attached.size, csi.published.size]).toEqual([1, 1]);
};

/** Nothing remains, and the events confirm that. */
const isFree = async () => {
  expect(await statesOf()).toEqual([]);
  expect([csi.attached.size, csi.published.size]).toEqual([0, 0]);
  const { ModifyIndex, WriteAllocs } = (await get("/v1/volume/csi/v1")).body;
  const last = (await eventsOf("CSIVolume")).at(-1);
  expect([last.Index, last.Payload.Volume.WriteAllocs, WriteAllocs]).toEqual([ModifyIndex, {}, {}]);
};

const METHODS = ["csi.controller.publish", "csi.node.publish", "csi.node.detach", "csi.controller.unpublish"];

/** Moment of the crash: the node's handling of the operation meanwhile. */
const MOMENTS: Readonly<Record<string, (operation: Operation) => Behaviour>> = {
  "before it is taken on": () => {
    void killRegistry();
    return { ok: false, reason: "unavailable", message: "cut off" };
  },
  "when it is taken on": () => {
    void killRegistry();
    return "work";
  },
  "while it runs": () => {
    setTimeout(() => void killRegistry(), 20);
    return "hold";
  },
};

describe("a claim survives a crash of the registry", () => {
  for (const method of METHODS) {
    for (const [moment, dies] of Object.entries(MOMENTS)) {
      it(`${moment}: ${method}`, async () => {
        let died = false;
        csi.behave = (operation) => {
          if (operation.method !== method || died) return "work";
          died = true;
          return dies(operation);
        };
        await report(() => runs(NODE));
        const held = async () => {
          if (csi.holding > 0 && died) await csi.release();
        };
        await byItself(async () => {
          await held();
          await isPublished();
        });
        await report(() => ends(NODE));
        await byItself(async () => {
          await held();
          await isFree();
        });
        expect([died, csi.wrongs]).toEqual([true, []]);
      });
    }
  }

  it("after each of its steps was reported", async () => {
    const tell = csi.tell;
    csi.tell = async (...told) => {
      await tell(...told);
      await killRegistry();
    };
    await report(() => runs(NODE));
    await byItself(isPublished);
    await report(() => ends(NODE));
    await byItself(isFree);
    expect(csi.wrongs).toEqual([]);
    expect(csi.asked.slice(1)).toEqual(["publish", "node.publish", "node.detach", "unpublish"]);
  });

  it("before pending steps run: the alarm runs them", async () => {
    vi.spyOn(ClaimController.prototype, "soon").mockImplementation(() => {});
    await report(() => runs(NODE));
    await byItself(isPublished);
    await report(() => ends(NODE));
    await byItself(isFree);
  });

  it("before its next retry, with its state and error", async () => {
    csi.behave = ({ method }) =>
      method === "csi.node.detach" ? { state: "failed", error: { kind: "plugin", message: "stuck" } } : "work";
    await report(() => runs(NODE));
    await byItself(isPublished);
    await report(() => ends(NODE));
    await expect.poll(async () => (await claimsOf())[0]?.Attempts).toBeGreaterThan(0);
    await killRegistry();
    expect((await claimsOf())[0]).toMatchObject({
      State: "unpublishing",
      LastError: "could not detach from node: stuck",
      ExternalNodeID: "far-node-2",
    });
    csi.behave = () => "work";
    await byItself(isFree);
    expect(csi.wrongs).toEqual([]);
  });
});
