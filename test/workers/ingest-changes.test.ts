import { afterEach, describe, expect, it } from "vitest";
import { itRows } from "../support/rows.ts";
import { eventsOf } from "./access.ts";
import { get } from "./client.ts";
import { register } from "./nodes-helpers.ts";
import { allocation, evaluation, gone, job, node, nodePool, report, send, service, uuid } from "./reports.ts";
import { closeAll } from "./streams.ts";

afterEach(closeAll);

const changes = (events: readonly unknown[], more = "") => send(events, `?changes=true${more}`);
const keys = async (topic: string) => (await eventsOf(topic)).map(({ Type, Key }) => `${Type} ${Key}`);

describe("a report with changes=true", () => {
  itRows([
    ["a job", job({ Priority: 50, SubmitTime: 1_795_327_689_311 })],
    ["an allocation with its job", allocation({ Job: { Version: 3, Type: "batch" } })],
    ["an evaluation", evaluation({ QueuedAllocations: { a: 1, b: 2 } })],
    ["a service", service({ Tags: ["a"] })],
    ["a node pool", nodePool({ Description: "cards" })],
    ["a node", node({ Meta: { rack: "a" }, Events: [{ Message: "m", Timestamp: "2026-01-02T03:04:05Z" }] })],
  ])("publishes %s once, however often it is sent", async (_what, event) => {
    const first = await changes([event]);
    expect(first.body).toEqual({ Index: expect.any(Number), Applied: true });
    for (let times = 0; times < 2; times++)
      expect((await changes([event])).body).toEqual({ Index: null, Applied: false });
    expect(await eventsOf(event.Topic)).toHaveLength(1);
  });

  it("leaves out what is unchanged, and keeps the order of the rest", async () => {
    await report(job({ ID: "a" }), job({ ID: "b" }), job({ ID: "c" }));
    await changes([job({ ID: "c", Stop: true }), job({ ID: "b" }), job({ ID: "d" }), job({ ID: "a", Stop: true })]);
    expect((await keys("Job")).slice(3)).toEqual(["c", "d", "a"].map((id) => `JobRegistered ${id}`));
  });

  it("compares each report with the state after those before it", async () => {
    await report(job({ ID: "a" }));
    await changes([job({ ID: "a", Stop: true }), job({ ID: "a" }), gone(job({ ID: "a" })), gone(job({ ID: "a" }))]);
    expect(await eventsOf("Job")).toHaveLength(4);
    expect((await get("/v1/job/a")).status).toBe(404);
  });

  it("compares by value, not by the order of fields, and with all digits of numbers", async () => {
    const body = (text: string) => `[{"Topic":"Job","Type":"JobRegistered","Payload":{"Job":{"ID":"web",${text}}}}]`;
    const sent = async (text: string) => (await send(body(text), "?changes=true")).body.Applied;
    expect(await sent('"SubmitTime":1795327689311953341,"Meta":{"a":"1","b":"2"}')).toBe(true);
    expect(await sent('"Meta":{"b":"2","a":"1"},"SubmitTime":1795327689311953341')).toBe(false);
    expect(await sent('"Meta":{"b":"2","a":"1"},"SubmitTime":1795327689311953342')).toBe(true);
  });

  it("does not compare the indexes of a node's events, which each service counts itself", async () => {
    const sent = async (CreateIndex: number, Message = "m") => {
      const event = { Message, Timestamp: "2026-01-02T03:04:05Z", CreateIndex };
      return (await changes([node({ Events: [event] })])).body.Applied;
    };
    expect([await sent(5), await sent(7), await sent(7, "n")]).toEqual([true, false, true]);
  });

  it("deletes existing objects and nodes, and ignores missing ones", async () => {
    await report(job(), node());
    expect((await changes([gone(job({ ID: "none" })), gone(node({ ID: uuid(8) }))])).body.Applied).toBe(false);
    expect((await changes([gone(job()), gone(node())])).body.Applied).toBe(true);
    expect((await changes([gone(job()), gone(node())])).body.Applied).toBe(false);
  });

  it("publishes only the differences of a full list", async () => {
    await report(job({ ID: "a" }), job({ ID: "b" }), job({ ID: "c" }));
    await changes([job({ ID: "a" }), job({ ID: "c", Stop: true })], "&full=true&topic=Job");
    expect((await keys("Job")).slice(3)).toEqual(["JobRegistered c", "JobDeregistered b"]);
  });

  it("names the position of a refused report in the body", async () => {
    await report(job());
    await register(uuid(9), {});
    const refused = await changes([job(), job(), node({ Name: "other" })]);
    expect([refused.status, refused.text]).toEqual([409, expect.stringMatching(/^event 3: node .* is managed by/)]);
  });

  itRows([
    ["a source", "&source=eu&source_index=1", "changes: must not be given with source"],
    ["another value", "&changes=x", ""],
  ])("is not combined with %s", async (_what, more, text) => {
    const answer = await send([job()], more.startsWith("&changes") ? "?changes=x" : `?changes=true${more}`);
    expect([answer.status, answer.text]).toEqual([400, text || "changes: must be true or false"]);
  });
});
