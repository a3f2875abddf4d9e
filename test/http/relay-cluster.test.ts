import { afterAll, afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { digits, type Fields, TABLES } from "../doubles/nomad-state.ts";
import { amount } from "../support/long.ts";
import { Service } from "./events-service.ts";
import { brief, RelayWorld } from "./relay-world.ts";

/* The relay against a stand-in for a cluster that restarts, elects leaders, collects garbage and is restored. */

/** Shared by the tests, each of which removes what its relay has reported. */
let service: Service | undefined;
let world: RelayWorld;
let used = { since: 0, source: "nomad/0" };
let tests = 0;

beforeEach(async () => {
  if (!service) {
    const created = new Service({});
    await created.create();
    service = created;
    used = { ...used, since: 0 };
  }
  used = { ...used, source: `nomad/${++tests}` };
  world = new RelayWorld(service, {}, used);
  await world.open();
}, 120_000);
afterEach(async ({ task }) => {
  if (task.result?.state === "fail") console.error(world.log);
  await world.close();
  const newest = task.result?.state === "fail" ? undefined : await world.clear();
  if (newest === undefined) await stopService();
  else used = { ...used, since: newest };
});
afterAll(() => stopService());

async function stopService(): Promise<void> {
  await service?.destroy();
  service = undefined;
}

function shared(): Service {
  if (!service) throw new Error("no service");
  return service;
}

const job = (ID: string, more: Fields = {}): Fields => ({
  ID,
  Name: ID,
  Namespace: "default",
  Type: "service",
  Status: "running",
  Priority: 50,
  Version: 0,
  SubmitTime: digits("1795327689311953341"),
  TaskGroups: [{ Name: "g", Count: 1, Tasks: [{ Name: "t" }] }],
  ...more,
});
const id = (number: number): string => `${number.toString(16).padStart(8, "0")}-0000-4000-8000-000000000000`;
const evaluation = (number: number, JobID: string, more: Fields = {}): Fields => ({
  ID: id(number),
  JobID,
  Namespace: "default",
  Type: "service",
  Status: "complete",
  TriggeredBy: "job-register",
  ...more,
});
const allocation = (number: number, JobID: string, more: Fields = {}): Fields => ({
  ID: id(number),
  JobID,
  Namespace: "default",
  NodeID: id(1),
  EvalID: id(2),
  TaskGroup: "g",
  Name: `${JobID}.g[0]`,
  ClientStatus: "running",
  DesiredStatus: "run",
  CreateTime: digits("1795327689795004686"),
  ...more,
});
const node: Fields = {
  ID: id(1),
  Name: "n1",
  Datacenter: "dc1",
  NodePool: "default",
  Status: "ready",
  SchedulingEligibility: "eligible",
  Attributes: { "kernel.name": "linux" },
};

const registered = (object: Fields) => ({ topic: "Job", type: "JobRegistered", object });
const evaluated = (object: Fields) => ({ topic: "Evaluation", type: "EvaluationUpdated", object });
const allocated = (object: Fields) => ({ topic: "Allocation", type: "AllocationUpdated", object });

const logged = (text: string) => vi.waitFor(() => expect(world.log).toContain(text), { timeout: 60_000 });
/** Every list equals the cluster's. */
const equal = ({ timeout = 120_000, interval = 250 } = {}) =>
  vi.waitFor(
    async () => {
      for (const topic of TABLES) expect(await world.mirrored(topic), topic).toEqual(world.existing(topic));
    },
    { timeout, interval },
  );
const published = async () => (await world.published()).map(brief);
const doubled = (events: readonly string[]) => events.filter((event, at) => events.indexOf(event) !== at);

async function started(...args: string[]): Promise<void> {
  world.start(...args);
  await logged('"event":"compared"');
}

describe("a relay of a cluster", () => {
  it("keeps every digit and every field", async () => {
    world.nomad.commit([registered(job("web", { Meta: { a: "1" }, Unknown: { deep: [1.5] } }))]);
    await started();
    world.nomad.commit([allocated(allocation(7, "web"))]);
    await equal();
    const read = async (path: string) =>
      (await fetch(`${shared().base}/v1/${path}`, { headers: { "X-Orch-Token": "root" } })).text();
    const text = await read("job/web");
    expect(text).toContain('"SubmitTime":1795327689311953341');
    expect(JSON.parse(text)).toMatchObject({ Meta: { a: "1" }, Unknown: { deep: [1.5] } });
    expect(await read(`allocation/${id(7)}`)).toContain('"CreateTime":1795327689795004686');
  });

  it("finds the changes of the time when it was down, beyond the cluster's buffer, and reports no others", async () => {
    world.nomad.commit([{ topic: "Node", type: "NodeRegistration", object: node }]);
    for (let at = 0; at < 30; at++)
      world.nomad.commit([registered(job(`j${at}`)), evaluated(evaluation(at + 10, `j${at}`))]);
    await started();
    await equal();
    const before = await published();
    await world.kill();
    for (let at = 0; at < 150; at++) world.nomad.commit([registered(job(`j${at % 5}`, { Version: at }))]);
    world.nomad.commit([registered(job("new"))]);
    world.nomad.state.collect("Evaluation", [id(10), id(11)]);
    await started();
    await equal();
    const after = (await published()).slice(before.length);
    const changed = [...[0, 1, 2, 3, 4].map((at) => `j${at}`), "new"].map((key) => `Job JobRegistered ${key} default`);
    expect(after).toEqual([...changed, ...[10, 11].map((at) => `Evaluation EvaluationUpdated ${id(at)} default`)]);
  });

  it("reports nothing twice when its state is lost", async () => {
    for (let at = 0; at < 20; at++)
      world.nomad.commit([registered(job(`j${at}`)), allocated(allocation(at, `j${at}`))]);
    await started();
    world.nomad.commit([registered(job("j3", { Version: 1 }))]);
    await equal();
    const before = await published();
    await world.close();
    const { state } = world.nomad;
    world = new RelayWorld(shared(), {}, used);
    for (const [topic, rows] of state.tables) world.nomad.state.tables.set(topic, rows);
    for (const [topic, index] of state.indexes) world.nomad.state.indexes.set(topic, index);
    world.nomad.state.index = state.index;
    await world.open();
    await started();
    world.nomad.commit([registered(job("j4", { Version: 1 }))]);
    await vi.waitFor(async () => expect(await published()).toHaveLength(before.length + 1));
    expect((await published()).at(-1)).toBe("Job JobRegistered j4 default");
  });

  it("goes on after a restart of the cluster and after a leader change with an empty buffer", async () => {
    world.nomad.commit([registered(job("a"))]);
    await started();
    await world.nomad.stop();
    world.nomad.state.commit([registered(job("b"))]);
    world.nomad.state.lines = [];
    world.nomad.elections = 3;
    await world.nomad.start();
    await equal();
    world.nomad.changeLeader();
    world.nomad.commit([registered(job("c"))]);
    await equal();
    world.nomad.commit([registered(job("d"))]);
    await equal();
    expect(doubled(await published())).toEqual([]);
  });

  it("finds namespaces that are made later, with what happened before they were found", async () => {
    world.nomad.commit([registered(job("a"))]);
    await started();
    world.nomad.addNamespace("dev");
    world.nomad.commit([registered(job("b", { Namespace: "dev" }))]);
    world.nomad.commit([registered(job("c"))]);
    await equal();
    world.nomad.commit([registered(job("d", { Namespace: "dev" }))]);
    await equal();
    expect(doubled(await published())).toEqual([]);
  });

  it("removes objects that garbage collection deletes without an event, each with one event", async () => {
    world.nomad.commit([{ topic: "Node", type: "NodeRegistration", object: node }]);
    const all = Array.from({ length: 50 }, (_, at) => evaluated(evaluation(at + 10, "a")));
    world.nomad.commit([registered(job("a")), ...all, allocated(allocation(100, "a", { ClientStatus: "complete" }))]);
    await started("--reconcile", "1s");
    await equal();
    const before = await published();
    world.nomad.state.collect(
      "Evaluation",
      all.slice(0, 40).map(({ object }) => String(object["ID"])),
    );
    world.nomad.state.collect("Allocation", [id(100)]);
    world.nomad.state.collect("Node", [id(1)]);
    await equal();
    await logged('"event":"reconciled"');
    world.nomad.commit([registered(job("b"))]);
    await equal();
    const after = (await published()).slice(before.length);
    expect(doubled(after)).toEqual([]);
    expect(after).toHaveLength(43);
    expect(after).toContain(`Node NodeDeregistration ${id(1)} `);
  });

  it("reports changes that the cluster makes without an event, each once, also those of the time when it was down", {
    timeout: 200_000,
  }, async () => {
    const { nomad } = world;
    const deployment = { ID: id(5), JobID: "a", Namespace: "default", Status: "running" };
    nomad.commit([{ topic: "Node", type: "NodeRegistration", object: node }]);
    nomad.commit([
      ...["a", "b", "c"].map((name) => registered(job(name))),
      evaluated(evaluation(10, "a", { Status: "pending" })),
      allocated(allocation(7, "a")),
      { topic: "Deployment", type: "DeploymentStatusUpdate", object: deployment },
      { topic: "NodePool", type: "NodePoolUpserted", object: { Name: "gpu", Description: "old" } },
    ]);
    await started("--reconcile", "1s");
    await equal();
    const before = await published();
    nomad.state.changeSilently("Job", { Status: "dead" }, ["a"]);
    nomad.state.changeSilently("Node", { Status: "down" }, [id(1)]);
    nomad.state.changeSilently("Allocation", { ClientStatus: "lost" }, [id(7)]);
    nomad.state.changeSilently("Evaluation", { Status: "complete" }, [id(10)]);
    nomad.state.changeSilently("Deployment", { Status: "failed" }, [id(5)]);
    nomad.state.changeSilently("NodePool", { Description: "new" }, ["gpu"]);
    await equal();
    await world.kill();
    nomad.state.changeSilently("Job", { Status: "dead" }, ["b"]);
    // Events of other objects move the position beyond the silent change.
    nomad.commit([registered(job("c", { Version: 1 }))]);
    world.start("--reconcile", "1s");
    await equal();
    // Several comparisons, and the events of a busy stream in time.
    for (let at = 2; at < 30; at++) {
      nomad.commit([registered(job("c", { Version: at }))]);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    await equal();
    const after = (await published()).slice(before.length);
    const ofC = "Job JobRegistered c default";
    expect(after.filter((event) => event !== ofC).sort()).toEqual(
      [
        "Job JobRegistered a default",
        "Job JobRegistered b default",
        `Node NodeRegistration ${id(1)} `,
        `Allocation AllocationUpdated ${id(7)} default`,
        `Evaluation EvaluationUpdated ${id(10)} default`,
        `Deployment DeploymentStatusUpdate ${id(5)} default`,
        "NodePool NodePoolUpserted gpu ",
      ].sort(),
    );
    expect(after.filter((event) => event === ofC)).toHaveLength(29);
  });

  it("reports the lines that wait together in one request, each as one line", async () => {
    await started();
    let release = () => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    world.proxy.fate = async () => held.then(() => "pass" as const);
    const writes = world.proxy.writes;
    for (let at = 0; at < 60; at++)
      world.nomad.commit([registered(job(`j${at}`)), evaluated(evaluation(at, `j${at}`))]);
    await vi.waitFor(() => expect(world.proxy.writes).toBe(writes + 1));
    release();
    await equal();
    expect(world.proxy.writes - writes).toBeLessThanOrEqual(4);
    const lines = Map.groupBy(await world.published(), ({ Index }) => Index);
    expect([...lines.values()].map((events) => events.length)).toEqual(Array.from({ length: 60 }, () => 2));
  });

  it("leaves out a refused event of lines that wait together", async () => {
    await started();
    let release = () => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    world.proxy.fate = async () => held.then(() => "pass" as const);
    world.nomad.commit([registered(job("first"))]);
    for (let at = 0; at < 9; at++)
      world.nomad.commit([
        registered(job(`j${at}`, at === 4 ? { Type: "strange" } : {})),
        evaluated(evaluation(at, "x")),
      ]);
    release();
    await logged("event refused");
    await vi.waitFor(async () => expect(await world.mirrored("Evaluation")).toHaveLength(9));
    expect(doubled(await published())).toEqual([]);
    expect(await world.mirrored("Job")).toHaveLength(9);
  });

  it("removes the objects of a deleted namespace", async () => {
    world.nomad.addNamespace("dev");
    world.nomad.commit([registered(job("a", { Namespace: "dev" })), registered(job("b"))]);
    await started();
    await equal();
    world.nomad.state.collect("Job", ["a"], "dev");
    world.nomad.removeNamespace("dev");
    await equal();
    expect(await world.mirrored("Job")).toHaveLength(1);
  });

  it("leaves nodes, pools and namespaces of others alone", async () => {
    const own = { Node: { ...node, ID: id(99), Name: "other" } };
    await shared().must("PUT", "/v1/cluster/objects", [
      { Topic: "Node", Type: "NodeRegistration", Payload: own },
      { Topic: "NodePool", Type: "NodePoolUpserted", Payload: { NodePool: { Name: "other" } } },
      { Topic: "Job", Type: "JobRegistered", Namespace: "theirs", Payload: { Job: { ID: "other" } } },
    ]);
    await started("--reconcile", "1s");
    await vi.waitFor(() => expect(world.nomad.requests.get("jobs") ?? 0).toBeGreaterThan(6), { timeout: 30_000 });
    expect(await world.mirrored("Node")).toHaveLength(1);
    expect(await world.mirrored("NodePool")).toHaveLength(1);
    expect(await world.mirrored("Job")).toHaveLength(1);
  });

  it("mirrors one namespace with tokens that have no rights in others", async () => {
    await world.close();
    world = new RelayWorld(shared(), { namespace: "dev" }, used);
    await world.open();
    world.nomad.addNamespace("dev");
    const both = (ID: string) => [registered(job(ID)), registered(job(ID, { Namespace: "dev" }))];
    world.nomad.commit(both("before"));
    await started("--namespace", "dev");
    world.nomad.commit(both("after"));
    await vi.waitFor(async () => {
      const names = (await world.mirrored("Job")).map((name) => name.split(" ").slice(0, 2).join(" "));
      expect(names).toEqual(["dev after", "dev before"]);
    });
  });

  it("begins a new source when the cluster is restored to an earlier index", async () => {
    for (let at = 0; at < 5; at++) world.nomad.commit([registered(job(`j${at}`))]);
    await started();
    await equal();
    await world.nomad.stop();
    const { state } = world.nomad;
    state.collect("Job", ["j3", "j4"]);
    state.index = 12;
    state.lines = [];
    state.indexes.set("Job", 12);
    for (const row of state.list("Job")) Object.assign(row, { ModifyIndex: 11 });
    await world.nomad.start();
    await logged("cluster restored");
    await equal();
    world.nomad.commit([registered(job("later"))]);
    await equal();
    expect(world.position().epoch).toBe(1);
  });

  it("splits a line that the service would refuse as too large, in order", async () => {
    await started();
    const many = Array.from({ length: 20_000 }, (_, at) => evaluated(evaluation(at, "big")));
    world.nomad.commit([registered(job("big")), ...many]);
    await vi.waitFor(() => expect(world.position().index).toBe(world.nomad.state.index), { timeout: 60_000 });
    const keys = (await world.published()).map(({ Key }) => Key);
    expect(keys).toEqual(["big", ...many.map(({ object }) => object["ID"])]);
    expect(world.proxy.writes).toBe(3);
  });

  it("leaves out an event that the service refuses, and mirrors the rest of its line", async () => {
    await started();
    world.nomad.commit([registered(job("a")), registered(job("b", { Type: "strange" })), registered(job("c"))]);
    await vi.waitFor(async () => expect(await world.mirrored("Job")).toHaveLength(2));
    await logged('"event":"event refused","topic":"Job","key":"b"');
    world.nomad.commit([registered(job("d"))]);
    await vi.waitFor(async () => expect(await world.mirrored("Job")).toHaveLength(3));
  });

  it("waits for a service that is away, and holds back the cluster's lines meanwhile", {
    timeout: 200_000,
  }, async () => {
    await started();
    await shared().kill();
    for (let at = 0; at < 20; at++) world.nomad.commit([registered(job(`j${at}`))]);
    await logged("report unanswered");
    await shared().start();
    await equal();
    expect(await published()).toEqual(Array.from({ length: 20 }, (_, at) => `Job JobRegistered j${at} default`));
  });

  it("finishes its report and ends on SIGTERM", async () => {
    await started();
    world.proxy.fate = async () => {
      void world.kill("SIGTERM");
      await logged('"event":"stopping"');
      return "pass" as const;
    };
    world.nomad.commit([registered(job("a"))]);
    await vi.waitFor(() => expect(world.isRunning).toBe(false));
    expect(await world.exitCode()).toBe(0);
    expect(world.position().index).toBe(world.nomad.state.index);
  });
});

/** Comparisons of many objects compete with the lists of this test. */
const PATIENT = { timeout: 400_000, interval: amount(1_000, 5_000) };

it("a cluster of many jobs is mirrored whole, through restarts, elections, collections and kills", {
  timeout: 600_000,
}, async () => {
  const jobs = amount(600, 10_000);
  const { nomad } = world;
  nomad.commit([{ topic: "Node", type: "NodeRegistration", object: node }]);
  for (let at = 0; at < jobs; at++)
    nomad.state.commit([registered(job(`job-${at}`)), evaluated(evaluation(at + 10, `job-${at}`))]);
  await started("--reconcile", "5s");
  await equal(PATIENT);
  expect(await published()).toHaveLength(1 + 2 * jobs);
  // Each of the four kinds of trouble comes at least once.
  const kills = amount(4, 20);
  for (let round = 0; round < kills; round++) {
    for (let at = 0; at < 30; at++) {
      const name = `job-${(round * 37 + at * 101) % jobs}`;
      nomad.commit([
        registered(job(name, { Version: round + 1 })),
        evaluated(evaluation(jobs + round * 30 + at + 10, name)),
      ]);
    }
    if (round % 4 === 1) nomad.changeLeader(nomad.state.lines.slice(-3));
    if (round % 4 === 2) nomad.state.collect("Evaluation", [id(round * 5 + 10), id(round * 5 + 11)]);
    if (round % 4 === 3) {
      await nomad.stop();
      nomad.state.lines = [];
      await nomad.start();
    }
    // All lines of a round may be one request.
    const reports = world.proxy.writes + 1;
    await vi.waitFor(() => expect(world.proxy.writes).toBeGreaterThanOrEqual(reports), {
      timeout: 120_000,
      interval: 5,
    });
    await world.kill();
    world.start("--reconcile", "5s");
  }
  await equal(PATIENT);
  for (const topic of ["Evaluation", "Node"] as const) {
    const created = (await world.published()).filter(({ Topic }) => Topic === topic).map(brief);
    const gone = new Set(doubled(created));
    // A garbage-collected evaluation has a second event, its deletion.
    expect(gone.size).toBeLessThanOrEqual(2 * kills);
  }
});
