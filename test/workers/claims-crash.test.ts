import { beforeEach, describe, expect, it } from "vitest";
import { attempt, both, type Cut, cut, insist } from "../crash/crash-point.ts";
import { part } from "../support/long.ts";
import { claims, ended, listClaims, placed, stickyJob } from "./claims-helpers.ts";
import { type Answer, del, get } from "./client.ts";
import { clock } from "./clock.ts";
import { addNode, ask, make, ScriptedNodes } from "./host-volumes.ts";
import { byItself } from "./host-volumes-world.ts";
import { report, send } from "./reports.ts";

clock.moves = true;

beforeEach(async () => {
  new ScriptedNodes();
  await addNode(1);
});

const INGEST: Cut[] = [...both("ClusterRegistry", "ingest"), ...both("EventLog", "append")];
const DELETE: Cut[] = [...both("ClusterRegistry", "deleteVolumeClaim"), ...both("EventLog", "append")];

/** Claims show the lines that made and moved them, and the list's index is the newest of these. */
const expectWhole = (alloc: string, volume: string) =>
  byItself(async () => {
    const { body, headers } = await listClaims();
    const allocation = (await get(`/v1/allocation/${alloc}`)).body;
    expect(body.Claims).toMatchObject([{ AllocID: alloc, VolumeID: volume }]);
    const [claim] = body.Claims;
    expect(claim.CreateIndex).toBeGreaterThan(0);
    expect(claim.ModifyIndex).toBeGreaterThanOrEqual(claim.CreateIndex);
    expect(Number(headers.get("X-Orch-Index"))).toBe(claim.ModifyIndex);
    expect(allocation.ModifyIndex).toBeGreaterThan(0);
    expect(claim.CreateIndex).toBeLessThanOrEqual(allocation.ModifyIndex);
  });

describe("a claim exists once and completely after a power cut", () => {
  it.each(part(INGEST))("while an allocation is reported (%s.%s, %s)", async (...place) => {
    const { ID } = await make();
    await report(stickyJob());
    const happened = cut(place);
    await insist(() => send([placed("a1")], "?source=eu&source_index=1"));
    expect(happened()).toBe(true);
    await expectWhole("a1", ID);
  });

  it.each(part(INGEST))("while its job is reported (%s.%s, %s)", async (...place) => {
    const { ID } = await make();
    await report(placed("a1"));
    const happened = cut(place);
    await insist(() => send([stickyJob()], "?source=eu&source_index=1"));
    expect(happened()).toBe(true);
    // Told again, a job makes no second claim.
    await send([stickyJob()], "?source=eu&source_index=1");
    const before = (await claims()).map((claim) => claim.ID);
    await report(stickyJob());
    expect((await claims()).map((claim) => claim.ID)).toEqual(before);
    await byItself(async () => {
      const [claim, ...more] = await claims();
      expect([claim.AllocID, claim.VolumeID, more]).toEqual(["a1", ID, []]);
      expect(claim.CreateIndex).toBeGreaterThan(0);
    });
  });

  it.each(part([...both("ClusterRegistry", "createHostVolume", "operationDone"), ...both("EventLog", "append")]))(
    "while its volume is created (%s.%s, %s)",
    async (...place) => {
      await report(stickyJob());
      await report(placed("a1"));
      const happened = cut(place);
      const made = await insist(() => ask({}));
      // One whose answer was lost is found by its name.
      if (made.status !== 200) expect([made.status, made.text]).toEqual([409, expect.stringContaining("node")]);
      expect(happened()).toBe(true);
      await byItself(async () => {
        const [volume] = (await get("/v1/volumes?type=host")).body;
        const { body, headers } = await listClaims();
        expect(body.Claims).toMatchObject([
          { AllocID: "a1", VolumeID: volume.ID, CreateIndex: volume.CreateIndex, ModifyIndex: volume.CreateIndex },
        ]);
        expect(headers.get("X-Orch-Index")).toBe(String(volume.CreateIndex));
      });
    },
  );

  it.each(part(INGEST))("while it moves to another allocation (%s.%s, %s)", async (...place) => {
    const { ID } = await make();
    await report(stickyJob(), placed("a1"));
    const [claim] = await claims();
    const happened = cut(place);
    await insist(() => send([ended("a1"), placed("a2")], "?source=eu&source_index=1"));
    expect(happened()).toBe(true);
    await expectWhole("a2", ID);
    expect(await claims()).toMatchObject([{ ID: claim.ID, CreateIndex: claim.CreateIndex }]);
  });
});

describe("a claim is deleted permanently, and its list's index has advanced, after a power cut", () => {
  const gone = (index: number) =>
    byItself(async () => {
      const { body, headers } = await listClaims();
      expect(body.Claims).toEqual([]);
      expect(Number(headers.get("X-Orch-Index"))).toBeGreaterThan(index);
    });

  it.each(part(DELETE))("while it is deleted (%s.%s, %s)", async (...place) => {
    await make();
    await report(stickyJob(), placed("a1"));
    const [claim] = await claims();
    const remove = (): Promise<Answer> => del(`/v1/volumes/claim/${claim.ID}`);
    const happened = cut(place);
    const first = await attempt(remove());
    expect(happened()).toBe(true);
    // Whose answer was lost finds it gone, or deletes it now.
    if (first) expect(first.status).toBe(200);
    else expect([200, 404]).toContain((await insist(remove)).status);
    await gone(claim.ModifyIndex);
    await report(placed("a1"));
    expect(await claims()).toEqual([]);
  });

  it.each(part(INGEST))("while its job is purged (%s.%s, %s)", async (...place) => {
    await make();
    await report(stickyJob(), placed("a1"));
    const [claim] = await claims();
    const happened = cut(place);
    const job = stickyJob();
    const purge = [{ ...job, Payload: { ...job.Payload, Deleted: true } }];
    await insist(() => send(purge, "?source=eu&source_index=1"));
    expect(happened()).toBe(true);
    await gone(claim.ModifyIndex);
  });

  it.each(part([...both("ClusterRegistry", "deleteHostVolume", "operationDone"), ...both("EventLog", "append")]))(
    "while its volume is deleted (%s.%s, %s)",
    async (...place) => {
      const { ID } = await make();
      await report(stickyJob(), placed("a1"));
      await report(ended("a1"));
      const [claim] = await claims();
      const happened = cut(place);
      expect([200, 404]).toContain((await insist(() => del(`/v1/volume/host/${ID}`))).status);
      expect(happened()).toBe(true);
      await gone(claim.ModifyIndex);
    },
  );
});
