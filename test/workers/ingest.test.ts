import { afterEach, describe, expect, it } from "vitest";
import { get, put } from "./client.ts";
import { closeAll, openStream } from "./streams.ts";

afterEach(closeAll);

const job = (more: object = {}) => ({
  Topic: "Job",
  Type: "JobRegistered",
  Payload: { Job: { ID: "web", SubmitTime: 1, ...more } },
});

describe("what a scheduler reports", () => {
  it("is one line of the stream, and what a read shows, under one index", async () => {
    const stream = await openStream("?topic=Job&index=-1");
    await stream.next();
    const taken = await put("/v1/cluster/objects", [job()]);
    expect([taken.status, taken.body]).toEqual([200, { Index: expect.any(Number), Applied: true }]);
    const { Index } = taken.body;
    expect(await stream.nextLine()).toMatchObject({
      Index,
      Events: [
        { Topic: "Job", Key: "web", Index, Payload: { Job: { ID: "web", CreateIndex: Index, ModifyIndex: Index } } },
      ],
    });
    const read = await get("/v1/job/web");
    expect([read.status, read.body]).toEqual([
      200,
      { ID: "web", Namespace: "default", SubmitTime: 1, CreateIndex: Index, ModifyIndex: Index },
    ]);
  });

  it("counts once, however often it is told", async () => {
    const once = (await put("/v1/cluster/objects?source=eu&source_index=7", [job()])).body;
    const again = (await put("/v1/cluster/objects?source=eu&source_index=7", [job()])).body;
    expect(again).toEqual({ Index: once.Index, Applied: false });
  });

  it("keeps numbers beyond 2^53", async () => {
    await put(
      "/v1/cluster/objects",
      '[{"Topic":"Job","Type":"JobRegistered","Payload":{"Job":{"ID":"web","SubmitTime":1736191993011000123}}}]',
    );
    const stream = await openStream("?topic=Job");
    expect(await stream.nextText()).toContain('"SubmitTime":1736191993011000123');
  });
});
