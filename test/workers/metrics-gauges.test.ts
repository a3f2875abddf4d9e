import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { AccessControl } from "../../src/objects/access-control.ts";
import { EventLog } from "../../src/objects/event-log.ts";
import { EventRelay } from "../../src/objects/event-relay.ts";
import type { StoredObject } from "../../src/platform/durable/stored-object.ts";
import { issue } from "./access.ts";
import { placed, stickyJob } from "./claims-helpers.ts";
import { del, get, mountKv, patch, put } from "./client.ts";
import { clock, extendDeadlines } from "./clock.ts";
import { alarmsUntil } from "./clock-and-alarms.ts";
import { addCsiNodes, create, ends, putOff, runs, ScriptedCsi } from "./csi-world.ts";
import { creds, dynamicRole, engineObject, mountEngine, openTenant, revoke, writeRole } from "./engine-helpers.ts";
import { addNode, lose, make, nodeId, ScriptedNodes } from "./host-volumes.ts";
import { byItself } from "./host-volumes-world.ts";
import { counts, MEASURES } from "./metrics-recount.ts";
import { parseText, type Sample, valueIn } from "./metrics-text.ts";
import { openAt } from "./relay-helpers.ts";
import { gone, report } from "./reports.ts";
import { closeAll, openStream, throughRelays } from "./streams.ts";
import { eventually, makeDestination, removeAssociation, setAssociation, write } from "./sync-helpers.ts";

/** The exported gauges equal the state of the objects. */
clock.moves = true;

/** A scrape leaves an object out that does not answer within this time, see src/monitoring/scrape.ts. */
const SCRAPE_DEADLINE_MS = 2_000;

beforeEach(() => extendDeadlines(SCRAPE_DEADLINE_MS));

afterEach(async () => {
  await closeAll();
  throughRelays(0);
});

/** Current samples: drops the cached values of the object that scrapes the others. */
async function scrapeOnce(): Promise<Sample[]> {
  await evictDurableObject(env.METRICS.getByName("main")).catch(() => undefined);
  const answer = await get("/v1/metrics");
  expect(answer.status, answer.text).toBe(200);
  return parseText(answer.text);
}

/** Current samples of all objects: one that a busy machine delays is missing from a scrape, which counts it. */
const scrape = (): Promise<Sample[]> =>
  vi.waitFor(async () => {
    const samples = await scrapeOnce();
    expect(samples.filter(({ name, value }) => name === "sallyport_scrape_errors" && value > 0)).toEqual([]);
    return samples;
  });

/** The values of a metric, by the values of its labels. */
async function values(name: string): Promise<Record<string, number>> {
  const samples = (await scrape()).filter((each) => each.name === name);
  return Object.fromEntries(samples.map(({ labels, value }) => [Object.values(labels).join(" "), value]));
}

/** The counters kept as rows change equal a count of the rows. */
async function expectExact(stub: unknown, measures: (typeof MEASURES)[keyof typeof MEASURES]): Promise<void> {
  const look = (_object: StoredObject, { storage }: DurableObjectState) => counts(storage, measures);
  const { counted, recounted } = await runInDurableObject(stub as DurableObjectStub<StoredObject>, look);
  expect(counted).toEqual(recounted);
}

const registry = () => env.CLUSTER_REGISTRY.getByName("main");

/** Runs with the clock advanced by this many seconds. */
async function later<T>(seconds: number, run: () => Promise<T>): Promise<T> {
  const real = Date.now.bind(Date);
  const moved = vi.spyOn(Date, "now").mockImplementation(() => real() + seconds * 1000);
  try {
    return await run();
  } finally {
    moved.mockRestore();
  }
}

describe("secret sync", () => {
  it("exports each destination's pending work, states of associations and outcomes of pushes", async () => {
    await mountKv();
    await makeDestination("in-mem", "d");
    await write("a", { k: "v" });
    await write("b", { k: "v" });
    await setAssociation("in-mem/d", "a");
    await eventually(async () => expect(await values("sallyport_sync_associations")).toEqual({ "in-mem/d SYNCED": 1 }));
    await patch("/v1/sys/sync/config", { disabled: true });
    await setAssociation("in-mem/d", "b");
    const paused = await scrape();
    expect(valueIn(paused, "sallyport_sync_paused")).toBe(1);
    expect(valueIn(paused, "sallyport_sync_queue_granted")).toBeGreaterThan(0);
    expect(valueIn(paused, "sallyport_sync_pending", { destination: "in-mem/d", state: "queued" })).toBe(1);
    expect(await values("sallyport_sync_associations")).toEqual({ "in-mem/d SYNCED": 1, "in-mem/d PENDING": 1 });
    await patch("/v1/sys/sync/config", { disabled: false });
    await eventually(async () => expect(await values("sallyport_sync_associations")).toEqual({ "in-mem/d SYNCED": 2 }));
    await removeAssociation("in-mem/d", "a");
    await eventually(async () => expect(await values("sallyport_sync_associations")).toEqual({ "in-mem/d SYNCED": 1 }));
    const samples = await scrape();
    expect(valueIn(samples, "sallyport_sync_pending", { destination: "in-mem/d", state: "queued" })).toBe(0);
    const done = { destination: "in-mem/d", result: "pushed" };
    expect(valueIn(samples, "sallyport_sync_objects_total", done)).toBeGreaterThanOrEqual(2);
    expect(
      valueIn(samples, "sallyport_sync_tasks_total", { destination: "in-mem/d", outcome: "ok" }),
    ).toBeGreaterThanOrEqual(3);
    await expectExact(env.SYNC_DESTINATION.getByName("in-mem/d"), MEASURES.destinationMeasures);
  });
});

describe("the credentials engine", () => {
  it("exports each mount's number of leases and outcomes of cloud operations", async () => {
    const tenant = await openTenant();
    const uuid = await mountEngine(tenant);
    await writeRole("app", dynamicRole(tenant));
    const { body } = await creds("app");
    await creds("app");
    expect(await values("sallyport_leases")).toEqual({ "cloud-b/ live": 2 });
    await revoke(body.lease_id);
    expect(await values("sallyport_leases")).toEqual({ "cloud-b/ live": 1 });
    expect(await values("sallyport_engine_jobs_ended_total")).toMatchObject({
      "cloud-b/ role ok": 1,
      "cloud-b/ issue ok": 2,
      "cloud-b/ removal ok": 1,
    });
    await runInDurableObject(engineObject(uuid), (_engine, { storage }) =>
      storage.sql.exec("UPDATE leases SET state = 'irrevocable'"),
    );
    expect(await values("sallyport_leases")).toEqual({ "cloud-b/ irrevocable": 1 });
    await expectExact(engineObject(uuid), MEASURES.engineMeasures);
    await runInDurableObject(engineObject(uuid), (_engine, { storage }) =>
      storage.sql.exec("UPDATE leases SET state = 'live'"),
    );
  });
});

describe("the event stream", () => {
  it("exports its buffer, its streams and the lines sent to them", async () => {
    await put("/v1/sys/policies/acl/p", { policy: 'path "a" {}' });
    const first = await openStream("?topic=*");
    await first.nextLine();
    const samples = await scrape();
    expect(valueIn(samples, "sallyport_event_streams")).toBe(1);
    expect(valueIn(samples, "sallyport_event_buffer_lines")).toBe(valueIn(samples, "sallyport_event_index"));
    expect(valueIn(samples, "sallyport_event_buffer_bytes")).toBeGreaterThan(50);
    const delivered = valueIn(samples, "sallyport_event_lines_delivered_total") ?? 0;
    expect(delivered).toBe(valueIn(samples, "sallyport_event_buffer_lines"));
    const second = await openStream("?topic=Node");
    await second.next();
    await put("/v1/sys/policies/acl/q", { policy: 'path "a" {}' });
    await first.nextLine();
    // The second has asked for nothing of this.
    expect(await values("sallyport_event_lines_delivered_total")).toEqual({ log: delivered + 1 });
    expect(await values("sallyport_event_streams")).toEqual({ log: 2 });
    const ages = await later(90, () => values("sallyport_event_buffer_oldest_age_seconds"));
    expect(ages[""]).toBeGreaterThanOrEqual(90);
    expect(ages[""]).toBeLessThan(150);
  });

  it("exports the reasons for which streams were cut", async () => {
    const made = await put("/v1/acl/token", { Type: "management", Name: "reader" });
    const stream = await openStream("?topic=*", { token: made.body.SecretID });
    await stream.next();
    await del(`/v1/acl/token/${made.body.AccessorID}`);
    while ((await stream.nextText()) !== null);
    expect(await values("sallyport_event_streams_cut_total")).toEqual({
      "log slow_consumer": 0,
      "log permission_denied": 1,
    });
  });

  it("counts each stream of a relay once, and no relay as a client", async () => {
    throughRelays(2);
    await put("/v1/sys/policies/acl/p", { policy: 'path "a" {}' });
    const streams = [await openAt(0), await openAt(0), await openAt(1)];
    for (const stream of streams) await stream.nextLine();
    const [first, second] = ["anywhere-0", "anywhere-1"];
    await eventually(async () =>
      expect(await values("sallyport_event_streams")).toEqual({ log: 0, [first]: 2, [second]: 1 }),
    );
    const lines = valueIn(await scrape(), "sallyport_event_buffer_lines") ?? 0;
    await eventually(async () =>
      expect(await values("sallyport_event_lines_delivered_total")).toEqual({
        log: 0,
        [first]: 2 * lines,
        [second]: lines,
      }),
    );
    expect(await values("sallyport_event_relays")).toEqual({ "": 2 });
    const sizes = await values("sallyport_object_size_bytes");
    expect(
      Object.keys(sizes)
        .filter((name) => name.startsWith("EventRelay"))
        .sort(),
    ).toEqual([`EventRelay ${first}`, `EventRelay ${second}`]);
    vi.spyOn(EventRelay.prototype, "vitals").mockImplementationOnce(() => {
      throw new Error("broken");
    });
    const samples = await scrapeOnce();
    expect(valueIn(samples, "sallyport_scrape_errors", { class: "EventRelay" })).toBe(1);
    expect(samples.filter(({ name }) => name === "sallyport_event_streams")).toHaveLength(2);
  });
});

describe("the cluster", () => {
  it("exports nodes, host volumes, their claims and operations of nodes", async () => {
    const nodes = new ScriptedNodes();
    await addNode(1);
    await addNode(2);
    await make({ Name: "db", NodeID: nodeId(1) });
    await report(stickyJob(["db", "other"]), placed("a1"));
    await lose(nodeId(2));
    expect(await values("sallyport_nodes")).toEqual({ ready: 1, disconnected: 1 });
    expect(await values("sallyport_host_volumes")).toEqual({ pending: 1 });
    expect(await values("sallyport_volume_claims")).toEqual({ made: 1, asked: 1 });
    nodes.behave = () => "hold";
    const waiting = put("/v1/volume/host/create", { Volume: { Name: "held", PluginID: "mkdir", NodeID: nodeId(1) } });
    await eventually(async () =>
      expect(await values("sallyport_volume_operations")).toEqual({ "host dhv.create running": 1 }),
    );
    await eventually(() => expect(nodes.holding).toBe(1));
    nodes.behave = () => ({ state: "failed", error: { kind: "plugin", message: "broken" } });
    await nodes.release();
    await waiting;
    await put("/v1/volume/host/create", { Volume: { Name: "broken", PluginID: "mkdir", NodeID: nodeId(1) } });
    expect(await values("sallyport_volume_operations")).toEqual({});
    expect(await values("sallyport_volume_operations_ended_total")).toEqual({
      "host dhv.create ok": 2,
      "host dhv.create faulty": 1,
    });
    await report(gone(placed("a1")));
    await expectExact(registry(), MEASURES.clusterMeasures);
  });

  it("exports CSI plugins, volumes, their claims and operations of plugins", async () => {
    const csi = new ScriptedCsi();
    await addCsiNodes();
    expect(await values("sallyport_csi_plugin_instances")).toMatchObject({ "disk controller healthy": 1 });
    await create();
    expect(await values("sallyport_csi_volumes")).toEqual({ disk: 1 });
    csi.behave = ({ method }) =>
      method === "csi.node.publish" ? { state: "failed", error: { kind: "plugin", message: "broken" } } : "work";
    await runs(nodeId(2));
    await eventually(async () =>
      expect(Object.keys(await values("sallyport_csi_claims"))).toEqual([expect.stringMatching(/ failing$/)]),
    );
    // A failed call may have been repeated by now, and is not from here on.
    await putOff();
    await eventually(async () =>
      expect(await values("sallyport_volume_operations_ended_total")).toMatchObject({
        "csi csi.controller.create ok": 1,
        "csi csi.controller.publish ok": 1,
        "csi csi.node.publish faulty": csi.asked.filter((method) => method === "node.publish").length,
      }),
    );
    await expectExact(registry(), MEASURES.clusterMeasures);
    csi.behave = () => "work";
    await ends(nodeId(2));
    await byItself(async () => expect(await values("sallyport_csi_claims")).toEqual({}));
    await expectExact(registry(), MEASURES.clusterMeasures);
  });

  it("names a hundred plugins, and exports the rest as one series", async () => {
    await addNode(1);
    await runInDurableObject(registry(), (_registry, { storage }) => {
      for (let n = 0; n < 130; n++)
        storage.sql.exec("INSERT INTO csi_plugin_instances VALUES (?, 'node', ?, 1, '{}')", `p${n}`, nodeId(1));
    });
    const instances = await values("sallyport_csi_plugin_instances");
    expect(Object.keys(instances)).toHaveLength(101);
    expect(instances["other other other"]).toBe(30);
    expect(await values("sallyport_nodes")).toEqual({ ready: 1 });
  });

  it("counts rows that are older than the counters", async () => {
    const nodes = new ScriptedNodes();
    await addNode(1);
    await addNode(2);
    await make({ Name: "db", NodeID: nodeId(1) });
    await report(stickyJob(["db", "other"]), placed("a1"));
    expect(nodes.sent).toHaveLength(1);
    await runInDurableObject(registry(), (_registry, { storage }) => {
      const { sql } = storage;
      for (const { name } of sql
        .exec<{ name: string }>("SELECT name FROM sqlite_master WHERE type = 'trigger'")
        .toArray())
        if (name.startsWith("counted_")) sql.exec(`DROP TRIGGER ${name}`);
      sql.exec("DROP TABLE counted");
      sql.exec("DELETE FROM migrations WHERE module = 'measures'");
    });
    await evictDurableObject(registry());
    expect(await values("sallyport_nodes")).toEqual({ ready: 2 });
    expect(await values("sallyport_volume_claims")).toEqual({ made: 1, asked: 1 });
    await lose(nodeId(2));
    expect(await values("sallyport_nodes")).toEqual({ ready: 1, disconnected: 1 });
    await expectExact(registry(), MEASURES.clusterMeasures);
  });
});

describe("every object", () => {
  it("exports its size under its public name", async () => {
    const { uuid } = await mountKv("team/kv");
    const before = await values("sallyport_object_size_bytes");
    expect(before["KvStore team/kv/"]).toBeGreaterThan(0);
    await put("/v1/team/kv/data/a", { data: { a: "x".repeat(500_000) } });
    const after = await values("sallyport_object_size_bytes");
    expect(after["KvStore team/kv/"]).toBeGreaterThan((before["KvStore team/kv/"] ?? 0) + 400_000);
    expect(JSON.stringify(after)).not.toContain(uuid);
  });

  it("exports the number and age of the rows in its outbox", async () => {
    await get("/v1/metrics");
    const down = vi.spyOn(EventLog.prototype, "append").mockRejectedValue(new Error("down"));
    const line = put("/v1/acl/policy/p", { Name: "p", Rules: 'path "a" {}' });
    await eventually(async () => expect((await values("sallyport_outbox_rows"))["AccessControl main"]).toBe(1));
    const samples = await later(40, scrape);
    const of = (name: string) => valueIn(samples, name, { class: "AccessControl", object: "main" });
    expect(of("sallyport_outbox_oldest_age_seconds")).toBeGreaterThanOrEqual(40);
    expect(of("sallyport_outbox_oldest_age_seconds")).toBeLessThan(60);
    down.mockRestore();
    // An attempt that failed while the clock was ahead is repeated at a time that the clock has not reached again.
    await alarmsUntil(
      () => env.ACCESS_CONTROL.getByName("main") as DurableObjectStub,
      async () => expect((await values("sallyport_outbox_rows"))["AccessControl main"]).toBe(0),
      { step: 40_000 },
    );
    await line;
    expect((await values("sallyport_outbox_oldest_age_seconds"))["AccessControl main"]).toBe(0);
  });

  it("exports the delay of its due work", async () => {
    await issue({ ttl: "60s" });
    expect((await values("sallyport_alarm_lag_seconds"))["AccessControl main"]).toBeLessThan(10);
    const late = await later(400, () => values("sallyport_alarm_lag_seconds"));
    expect(late["AccessControl main"]).toBeGreaterThanOrEqual(340);
    expect(late["AccessControl main"]).toBeLessThan(400);
  });

  it("beyond the hundredth mount of a type is left out, and the omission is exported", async () => {
    const { everyMount } = AccessControl.prototype;
    // Each mount costs an object: here one counts as twenty.
    const asked = vi.spyOn(AccessControl.prototype, "everyMount").mockImplementation(function (
      this: AccessControl,
      most,
    ) {
      return everyMount.call(this, most / 20);
    });
    for (let n = 1; n <= 7; n++) await mountKv(`m${n}`);
    const samples = await scrape();
    const sizes = samples.filter(
      ({ name, labels }) => name === "sallyport_object_size_bytes" && labels["class"] === "KvStore",
    );
    expect(sizes).toHaveLength(5);
    expect(valueIn(samples, "sallyport_scrape_skipped_objects", { class: "KvStore" })).toBe(2);
    expect(asked.mock.calls).toEqual(asked.mock.calls.map(() => [100]));
  });
});
