import { setTimeout as sleep } from "node:timers/promises";
import type { Rpc } from "@sallyport/csi-wire";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { part } from "../support/long.ts";
import { type Answer, type CsiNode, World } from "./csi-chain-world.ts";
import type { Faults } from "./csi-process.ts";
import { PATIENT } from "./node-faults-world.ts";

/* Faults between the real service, agents and plugins: nothing is created twice or lost. */

vi.setConfig({ testTimeout: 240_000 });
const world = new World();

beforeAll(() => world.start(), 180_000);
afterAll(() => world.destroy(), 60_000);

/** The provider and the service have the same volumes, without unfinished operations. */
async function expectAgreement({ plugin, driver }: CsiNode, names: readonly string[]): Promise<void> {
  const { body } = await world.ask("GET", `/v1/volumes?type=csi&plugin_id=${plugin}`);
  const volumes = (body ?? []) as { ID: string; ExternalID: string }[];
  expect(volumes.map(({ ID }) => ID).sort()).toEqual([...names].sort());
  expect(driver.directories("volumes")).toEqual(volumes.map(({ ExternalID }) => ExternalID).sort());
  for (const name of names) {
    const operations = (await world.ask("GET", `/v1/volume/csi/${name}/operations`)).body as { State: string }[];
    expect(operations.map(({ State }) => State).filter((state) => state !== "done" && state !== "failed")).toEqual([]);
  }
}

/** Requests about a volume, by the call that the plugin receives. */
const DEEDS = {
  CreateVolume: (id: string, plugin: string) => world.make({ ID: id, Name: id, PluginID: plugin }),
  DeleteVolume: (id: string) => world.ask("DELETE", `/v1/volume/csi/${id}/delete`),
  ControllerExpandVolume: (id: string, plugin: string) =>
    world.make({ ID: id, Name: "", PluginID: plugin, RequestedCapacityMin: 2 ** 32 }),
  CreateSnapshot: (id: string) => world.ask("POST", "/v1/volumes/snapshot", { SourceVolumeID: id, Name: `${id}-s` }),
} satisfies Partial<Record<Rpc, (id: string, plugin: string) => Promise<Answer>>>;
type Deed = keyof typeof DEEDS;

/** The state before a request: only a creation starts without a volume. */
async function prepare(deed: Deed, id: string, plugin: string): Promise<void> {
  if (deed !== "CreateVolume") await world.made({ ID: id, Name: id, PluginID: plugin });
}

async function expectDone(deed: Deed, id: string, node: CsiNode, done: Answer): Promise<void> {
  expect([deed, done.status, done.text]).toEqual([deed, 200, expect.anything()]);
  await expectAgreement(node, deed === "DeleteVolume" ? [] : [id]);
  if (deed === "ControllerExpandVolume") {
    expect(done.body.Volumes[0].Capacity).toBe(2 ** 32);
    expect(node.record(done.body.Volumes[0].ExternalID).bytes).toBe(String(2 ** 32));
  }
  expect(node.driver.directories("snapshots")).toHaveLength(deed === "CreateSnapshot" ? 1 : 0);
}

const isCalled = (node: CsiNode, rpc: Rpc, times = 1) =>
  vi.waitFor(() => expect(node.driver.calls(rpc), node.log).toBeGreaterThanOrEqual(times), PATIENT);

describe("a plugin", () => {
  const deaths: [how: string, deed: Deed, faults: Faults][] = [
    ["before it has made a volume", "CreateVolume", { calls: { CreateVolume: { crash: "before" } } }],
    ["after it created a volume, before its response", "CreateVolume", { calls: { CreateVolume: { crash: "after" } } }],
    ["in the middle of deleting a volume", "DeleteVolume", { crashAtStep: 2 }],
    ["in the middle of making a snapshot", "CreateSnapshot", { crashAtStep: 3 }],
  ];
  it.each(part(deaths, 1, 2))("that crashes %s and restarts has one effect", async (_how, deed, faults) => {
    const node = await world.csiNode("dies");
    await prepare(deed, "dies", "dies");
    node.driver.misbehave(faults);
    const asked = DEEDS[deed]("dies", "dies");
    await node.driver.ended();
    // The agent has stopped retrying.
    await vi.waitFor(async () => expect(await world.plugin("dies")).toEqual({ controllers: 0, nodes: 0 }), PATIENT);
    node.driver.misbehave({});
    await node.driver.start();
    await expectDone(deed, "dies", node, await asked);
    await clear(node);
  });

  it("that is frozen is awaited, and has one effect after it resumes", async () => {
    const node = await world.csiNode("frozen");
    await world.made({ ID: "frozen-1", Name: "frozen-1", PluginID: "frozen" });
    node.driver.signal("SIGSTOP");
    const asked = [DEEDS.CreateVolume("frozen-2", "frozen"), DEEDS.DeleteVolume("frozen-1")];
    await sleep(2_000);
    node.driver.signal("SIGCONT");
    expect((await Promise.all(asked)).map(({ status }) => status)).toEqual([200, 200]);
    await expectAgreement(node, ["frozen-2"]);
    await clear(node);
  });

  it("that is busy is called again until it succeeds, with one effect", async () => {
    const node = await world.csiNode("storm");
    for (const [deed, code, times] of [
      ["CreateVolume", 10, 4],
      ["CreateSnapshot", 14, 2],
      ["ControllerExpandVolume", 10, 3],
      ["DeleteVolume", 14, 2],
    ] as const) {
      await prepare(deed, "storm", "storm");
      node.driver.misbehave({ calls: { [deed]: { fail: { code, times } } } });
      await expectDone(deed, "storm", node, await DEEDS[deed]("storm", "storm"));
      expect(node.driver.calls(deed)).toBe(times + 1);
      await clear(node);
    }
  });

  it("whose snapshot takes time is polled until it is ready, with one snapshot", async () => {
    const node = await world.csiNode("slow");
    await world.made({ ID: "slow-1", Name: "slow-1", PluginID: "slow" });
    node.driver.misbehave({ snapshotReadyAfterMs: 1_500 });
    const taken = await DEEDS.CreateSnapshot("slow-1");
    expect(taken.body.Snapshots).toMatchObject([{ IsReady: true, Name: "slow-1-s" }]);
    expect(node.driver.directories("snapshots")).toEqual([taken.body.Snapshots[0].ID]);
    await clear(node);
  });

  it("whose answer is malformed leaves the outcome unknown, and is called again", async () => {
    const node = await world.csiNode("nonsense");
    node.driver.misbehave({ contextBytes: 5_000 });
    const asked = DEEDS.CreateVolume("nonsense", "nonsense");
    await vi.waitFor(async () => {
      const { body } = await world.ask("GET", "/v1/volume/csi/nonsense/operations");
      expect(body).toMatchObject([{ State: "unknown" }]);
    }, PATIENT);
    expect(node.driver.directories("volumes")).toHaveLength(1);
    node.driver.misbehave({});
    await expectDone("CreateVolume", "nonsense", node, await asked);
    await clear(node);
  });
});

/** Points at which a process dies, and the driver's faults that stop the call there. */
const MOMENTS: Record<string, (rpc: Rpc) => Faults> = {
  "while its plugin works": () => ({ stepMs: 250 }),
  "while its plugin never answers": (rpc) => ({ calls: { [rpc]: { hang: 1 } } }),
};

describe("an agent", () => {
  it.each(Object.entries(MOMENTS))(
    "that crashes %s continues after its restart: every effect happens once",
    async (_, faults) => {
      const node = await world.csiNode("agent");
      for (const deed of Object.keys(DEEDS) as Deed[]) {
        await prepare(deed, "agent", "agent");
        node.driver.misbehave(faults(deed));
        const asked = DEEDS[deed]("agent", "agent");
        await isCalled(node, deed);
        await sleep(Math.random() * 300);
        await node.kill();
        node.start();
        await expectDone(deed, "agent", node, await asked);
        await clear(node);
        await node.isReady();
      }
    },
  );

  it("whose result frame is lost is asked for the result again", async () => {
    const node = await world.csiNode("deaf");
    for (const deed of ["CreateVolume", "CreateSnapshot"] as const) {
      await prepare(deed, "deaf", "deaf");
      node.driver.misbehave({ calls: { [deed]: { delayMs: 500 } } });
      const asked = DEEDS[deed]("deaf", "deaf");
      await isCalled(node, deed);
      world.line.deafen();
      await sleep(1_000);
      world.line.cut();
      await expectDone(deed, "deaf", node, await asked);
      expect(node.driver.calls(deed)).toBe(1);
      await clear(node);
    }
  });
});

describe("the service", () => {
  it("that is killed during a plugin's call learns the outcome after its restart, without a second effect", async () => {
    const node = await world.csiNode("service");
    for (const deed of Object.keys(DEEDS) as Deed[]) {
      await prepare(deed, "service", "service");
      // Until the service has shut down, so the request gets no answer.
      node.driver.misbehave({ stepMs: 60_000 });
      const asked = DEEDS[deed]("service", "service").catch(() => "no answer");
      await isCalled(node, deed);
      await sleep(Math.random() * 300);
      await world.restartService();
      expect(await asked).toBe("no answer");
      node.driver.misbehave({});
      await expectDone(deed, "service", node, await patiently(() => DEEDS[deed]("service", "service")));
      await clear(node);
    }
  });
});

describe("a plugin with two controllers", () => {
  const ways: [who: string, kill: (node: CsiNode) => Promise<void>][] = [
    ["controller", (node) => node.driver.kill()],
    ["agent", (node) => node.kill()],
  ];
  it.each(part(ways, 1, 2))("has every effect once when the called %s crashes permanently", async (_who, kill) => {
    const one = await world.csiNode("pair");
    const other = await world.csiNode("pair", { beside: one });
    for (const deed of ["CreateVolume", "DeleteVolume"] as const) {
      await prepare(deed, "pair", "pair");
      for (const { driver } of [one, other]) driver.misbehave({ calls: { [deed]: { hang: 1 } } });
      const asked = DEEDS[deed]("pair", "pair");
      const isAsked = ({ driver }: CsiNode) => driver.calls(deed) > 0;
      await vi.waitFor(() => expect([one, other].some(isAsked)).toBe(true), PATIENT);
      const [first, second] = isAsked(one) ? [one, other] : [other, one];
      second.driver.misbehave({});
      await kill(first);
      await expectDone(deed, "pair", second, await asked);
      await clear(second);
      if (first.driver.isAlive) first.start();
      else await first.driver.start();
      await vi.waitFor(async () => expect(await world.plugin("pair")).toEqual({ controllers: 2, nodes: 2 }), PATIENT);
    }
  });
});

/** Repeats a request until it succeeds. */
async function patiently(deed: () => Promise<Answer>): Promise<Answer> {
  for (const until = Date.now() + 60_000; ; await sleep(100)) {
    const answer = await deed().catch(() => null);
    if (answer && answer.status < 500) return answer.status === 404 ? { ...answer, status: 200 } : answer;
    if (Date.now() > until) throw new Error(`${answer?.status} ${answer?.text}`);
  }
}

/** Removes all volumes and snapshots, with retries after restarts. */
async function clear({ plugin, driver }: CsiNode): Promise<void> {
  const gone = (path: string) =>
    vi.waitFor(async () => expect((await world.ask("DELETE", path)).status).toBeOneOf([200, 404]), PATIENT);
  driver.misbehave({});
  for (const id of driver.directories("snapshots"))
    await gone(`/v1/volumes/snapshot?plugin_id=${plugin}&snapshot_id=${id}`);
  const { body } = await world.ask("GET", `/v1/volumes?type=csi&plugin_id=${plugin}`);
  for (const { ID } of body ?? []) await gone(`/v1/volume/csi/${ID}/delete`);
  expect([driver.directories("volumes"), driver.directories("snapshots")]).toEqual([[], []]);
}
