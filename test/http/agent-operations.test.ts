import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { hostVolumeKey, VOLUME_CHANGES } from "@sallyport/agent-protocol";
import { expect, it } from "vitest";
import { type AgentSession, eventually, fakeService, nodeDirectory, startAgent, writePlugin } from "./agent-service.ts";

const uuidOf = (kind: number, number: number) =>
  `0193${String(kind).padStart(4, "0")}-7a10-7cc1-8b5e-${String(number).padStart(12, "0")}`;
const opOf = (number: number) => uuidOf(1, number);
const volumeOf = (number: number) => uuidOf(2, number);
const [OP, OTHER] = [opOf(1), opOf(2)];
const ID = volumeOf(1);

const creation = (id: string, pluginId = "mkdir") => ({
  method: "dhv.create",
  key: hostVolumeKey(id),
  params: { id, name: `name-${id}`, namespace: "default", pluginId, parameters: {}, capacityMin: 0, capacityMax: 0 },
});
const deletion = (id: string) => ({ method: "dhv.delete", key: hostVolumeKey(id), params: { id } });

/** A node with a plugin that reports its start, and creates the directory once the file `go` exists. */
async function slowNode() {
  const service = await fakeService();
  const node = nodeDirectory(service.url, {});
  const hostVolumes = { ...node.config.hostVolumes, plugins: [{ name: "slow" }] };
  writeFileSync(node.path, JSON.stringify({ ...node.config, hostVolumes }));
  writePlugin(
    node.at("plugins"),
    "slow",
    `PATH=/usr/bin:/bin
case "$1" in
fingerprint) echo '{"version": "1.0.0"}' ;;
create)
  echo begun >> ${node.at("begun")}
  while [ ! -e ${node.at("go")} ]; do sleep 0.02; done
  mkdir -p "$DHV_VOLUMES_DIR/$DHV_VOLUME_ID"
  printf '{"path": "%s"}' "$DHV_VOLUMES_DIR/$DHV_VOLUME_ID" ;;
esac`,
  );
  const begun = () =>
    existsSync(node.at("begun")) ? readFileSync(node.at("begun"), "utf8").split("\n").length - 1 : 0;
  return {
    service,
    ...node,
    begun: (count: number) => eventually(`${count} runs of the plugin`, () => begun() >= count || undefined),
    runs: begun,
    go: () => writeFileSync(node.at("go"), ""),
  };
}

/** A slow node whose agent is creating a volume. */
async function creating() {
  const node = await slowNode();
  const first = startAgent(node.path);
  const before = await node.service.session();
  await before.welcome();
  before.request({ op: OP, ...creation(ID, "slow") });
  await node.begun(1);
  return { node, first, before };
}

const volumesIn = (node: { at: (name: string) => string }) => readdirSync(node.at("volumes")).sort();

it("creates and deletes a volume, and reports the node's new state before the result", async () => {
  const service = await fakeService();
  const node = nodeDirectory(service.url);
  startAgent(node.path);
  const session = await service.session();
  await session.welcome();
  session.request({ op: OP, ...creation(ID) });
  const path = join(node.at("volumes"), ID);
  expect(await session.result(OP)).toMatchObject({ ok: true, result: { path, bytes: 0 } });
  expect(volumesIn(node)).toEqual([ID]);
  const kinds = session.frames.map(({ t }) => t);
  expect(kinds.filter((kind) => kind !== "hello")).toEqual(["ack", "fp", "res"]);
  const volume = { ID, Name: `name-${ID}`, Path: path, ReadOnly: false };
  expect(session.frames.find(({ t }) => t === "fp")).toEqual({
    t: "fp",
    seq: 1,
    node: { HostVolumes: { [`name-${ID}`]: volume } },
  });
  session.send({ t: "done", op: OP });
  session.request({ op: OTHER, gen: 2, ...deletion(ID) });
  expect(await session.result(OTHER)).toMatchObject({ ok: true });
  expect(volumesIn(node)).toEqual([]);
  expect(session.frames.filter(({ t }) => t === "fp").at(-1)).toMatchObject({ seq: 2, node: { HostVolumes: {} } });
});

it("reports only the changed volume to a service that supports volume changes", async () => {
  const service = await fakeService();
  const node = nodeDirectory(service.url);
  startAgent(node.path);
  const session = await service.session();
  await session.welcome({ features: [VOLUME_CHANGES] });
  const create = async (number: number) => {
    session.request({ op: opOf(number), ...creation(volumeOf(number)) });
    await session.result(opOf(number));
  };
  for (let number = 1; number <= 20; number++) await create(number);
  const frames = session.frames.filter(({ t }) => t === "vols");
  const volume = { ID: ID, Name: `name-${ID}`, Path: join(node.at("volumes"), ID), ReadOnly: false };
  expect(frames[0]).toEqual({ t: "vols", seq: 1, usable: [volume], unavailable: [], gone: [] });
  const sizes = frames.map((frame) => JSON.stringify({ ...frame, seq: 0 }).length);
  expect([sizes.length, new Set(sizes).size]).toEqual([20, 1]);
  session.request({ op: opOf(30), gen: 2, ...deletion(ID) });
  await session.result(opOf(30));
  expect(session.frames.findLast(({ t }) => t === "vols")).toEqual({
    t: "vols",
    seq: 21,
    usable: [],
    unavailable: [],
    gone: [ID],
  });
  expect(session.frames.filter(({ t }) => t === "fp")).toEqual([]);
});

it("registers a directory below a configured root, refuses and logs any other", async () => {
  const service = await fakeService();
  const node = nodeDirectory(service.url);
  const agent = startAgent(node.path);
  const session = await service.session();
  await session.welcome();
  const registration = (hostPath: string) => ({
    method: "dhv.register",
    key: hostVolumeKey(ID),
    params: { id: ID, name: "data", namespace: "default", hostPath },
  });
  session.request({ op: OP, ...registration("/etc") });
  expect(await session.result(OP)).toMatchObject({ ok: false, error: { kind: "forbidden", outcome: "failed" } });
  expect(agent.log).toContain(`"operation_forbidden","op":"${OP}"`);
  expect(agent.log).not.toContain("/etc");
  mkdirSync(join(node.at("data"), "d"));
  session.request({ op: OTHER, gen: 2, ...registration(join(node.at("data"), "d")) });
  expect(await session.result(OTHER)).toMatchObject({ ok: true, result: {} });
});

it("repeats an interrupted operation after a crash, and sends its result", async () => {
  const { node, first, before } = await creating();
  await expect.poll(() => before.acks(OP)).toEqual(["accepted"]);
  await first.kill();

  startAgent(node.path);
  node.go();
  const after = await node.service.session();
  const hello = await after.welcome({ resume: [OP] });
  expect(hello.epoch).toBe(2);
  expect(hello.journal).toEqual([{ op: OP, gen: 1, state: "running" }]);
  expect(await after.result(OP)).toMatchObject({ ok: true, result: { path: join(node.at("volumes"), ID) } });
  expect(volumesIn(node)).toEqual([ID]);
});

it("keeps a result that the service has not acknowledged over a lost connection and a crash", async () => {
  const node = await slowNode();
  node.go();
  const first = startAgent(node.path);
  const before = await node.service.session();
  await before.welcome();
  before.request({ op: OP, ...creation(ID, "slow") });
  const result = await before.result(OP);
  const runs = node.runs();
  before.socket.close(1000);

  const between = await node.service.session();
  expect((await between.welcome({ resume: [OP] })).journal).toEqual([{ op: OP, gen: 1, state: "finished" }]);
  expect(await between.result(OP)).toEqual(result);
  await first.kill();

  startAgent(node.path);
  const after = await node.service.session();
  expect((await after.welcome()).journal).toEqual([{ op: OP, gen: 1, state: "finished" }]);
  // Sent again instead of resumed: the same result without work.
  after.request({ op: OP, ...creation(ID, "slow") });
  expect(await after.result(OP)).toEqual(result);
  expect(after.acks(OP)).toEqual(["duplicate"]);
  after.send({ t: "done", op: OP });
  after.socket.close(1000);
  const last = await node.service.session();
  expect((await last.welcome()).journal).toEqual([]);
  // Once by the operation, and once by each start, which verifies that the volume exists.
  expect(node.runs()).toBeLessThanOrEqual(runs + 1);
});

it("continues an operation while disconnected, and sends its result on the next connection", async () => {
  const { node, before } = await creating();
  before.socket.close(1000);
  const after = await node.service.session();
  expect((await after.hello()).journal).toEqual([{ op: OP, gen: 1, state: "running" }]);
  node.go();
  await eventually("the volume", () => existsSync(join(node.at("volumes"), ID)) || undefined);
  await new Promise((resolve) => setTimeout(resolve, 300));
  // The operation is complete, and the service has not confirmed it yet.
  expect(after.texts).toHaveLength(1);
  await after.welcome({ resume: [OP] });
  expect(await after.result(OP)).toMatchObject({ ok: true });
  await eventually("the volume to be told", () => after.frames.find(({ t }) => t === "fp"));
  expect(node.runs()).toBe(1);
});

it("connects while a plugin hangs at the start, and reports its volume as unavailable until it is restored", async () => {
  const { node, first } = await creating();
  await first.kill();
  startAgent(node.path);
  const after = await node.service.session();
  const hello = await after.welcome({ forget: [OP] });
  expect(hello.unavailableVolumes).toMatchObject([{ id: ID, name: `name-${ID}` }]);
  node.go();
  await eventually("the volume to be told", () =>
    after.frames.find(
      (frame) => frame.t === "fp" && frame.node.HostVolumes?.[`name-${ID}`] && !frame.unavailableVolumes?.length,
    ),
  );
});

it("refuses a creation that arrives after the deletion of its volume, also after a crash in between", async () => {
  const service = await fakeService();
  const node = nodeDirectory(service.url);
  const first = startAgent(node.path);
  const before = await service.session();
  await before.welcome();
  before.request({ op: OP, gen: 2, ...deletion(ID) });
  await before.result(OP);
  before.send({ t: "done", op: OP });
  await first.kill();
  startAgent(node.path);
  const after = await service.session();
  await after.welcome();
  after.request({ op: OTHER, gen: 1, ...creation(ID) });
  expect(await after.result(OTHER)).toMatchObject({ ok: false, error: { kind: "stale", outcome: "failed" } });
  expect(after.acks(OTHER)).toEqual(["rejected"]);
  expect(volumesIn(node)).toEqual([]);
});

it("neither repeats nor reports operations that the service has forgotten", async () => {
  const { node, first } = await creating();
  await first.kill();
  node.go();
  startAgent(node.path);
  const after = await node.service.session();
  await after.welcome({ forget: [OP] });
  after.request({ op: OTHER, method: "agent.fingerprint" });
  await after.result(OTHER);
  expect(after.results(OP)).toEqual([]);
  after.socket.close(1000);
  expect((await (await node.service.session()).welcome()).journal).toEqual([]);
});

it("a stopped agent completes running operations, and keeps their results for the next start", async () => {
  const { node, first, before } = await creating();
  first.child.kill("SIGTERM");
  await before.closed;
  node.go();
  expect(await first.exit).toBe(0);
  startAgent(node.path);
  const hello = await (await node.service.session()).welcome();
  expect(hello.journal).toEqual([{ op: OP, gen: 1, state: "finished" }]);
});

it("no secret appears in the agent's state files, log or frames", async () => {
  const node = await slowNode();
  const agent = startAgent(node.path);
  const session = await node.service.session();
  await session.welcome();
  const secrets = { token: "s3cr3t-CANARY-value" };
  session.request({ op: OP, ...creation(ID, "slow"), secrets });
  // A wrong request of the service: a secret as a name, which the plugin's error contains.
  session.request({ op: OTHER, ...creation(volumeOf(2), secrets.token), secrets });
  expect(await session.result(OTHER)).toMatchObject({ ok: false, error: { kind: "forbidden" } });
  await node.begun(1);
  await agent.kill();
  expect(readFileSync(node.at("state/journal"), "utf8")).toContain(OP);
  expect(JSON.stringify(session.texts)).not.toContain("CANARY");
  expect(agent.log + agent.out).not.toContain("CANARY");
  node.go();
  const second = startAgent(node.path);
  const after = await node.service.session();
  await after.welcome({ resume: [OP] });
  // Without its secrets the operation waits.
  after.request({ op: opOf(3), method: "agent.fingerprint" });
  await after.result(opOf(3));
  expect(after.results(OP)).toEqual([]);
  after.request({ op: OP, ...creation(ID, "slow"), secrets });
  expect(await after.result(OP)).toMatchObject({ ok: true });
  await second.kill();
  const files = readdirSync(node.at("state"), { recursive: true, withFileTypes: true }).filter((entry) =>
    entry.isFile(),
  );
  const found = files.filter((file) => {
    const content = readFileSync(join(file.parentPath, file.name), "utf8");
    // A parameter of the operation is not a secret to the agent.
    return content.replaceAll(`"pluginId":"${secrets.token}"`, "").includes("CANARY");
  });
  expect(found).toEqual([]);
});

it("accepts thirty-two concurrent operations and refuses the next one as busy", async () => {
  const node = await slowNode();
  startAgent(node.path);
  const session = await node.service.session();
  await session.welcome();
  for (let number = 1; number <= 33; number++)
    session.request({ op: opOf(number), ...creation(volumeOf(number), "slow") });
  expect(await session.result(opOf(33))).toMatchObject({ ok: false, error: { kind: "busy", outcome: "failed" } });
  node.go();
  for (let number = 1; number <= 32; number++) expect(await session.result(opOf(number))).toMatchObject({ ok: true });
  expect(volumesIn(node)).toHaveLength(32);
});

it("has exactly the requested volumes after crashes at random moments", {
  timeout: 60_000,
}, async () => {
  const service = await fakeService();
  const node = nodeDirectory(service.url);
  const wanted = new Map<string, "there" | "gone">();
  const gens = new Map<string, number>();
  const open = new Map<string, { id: string; gen: number; what: "there" | "gone" }>();
  let number = 0;

  const ask = (session: AgentSession, op: string) => {
    const { id, gen, what } = open.get(op) as { id: string; gen: number; what: "there" | "gone" };
    session.request({ op, gen, ...(what === "there" ? creation(id) : deletion(id)) });
  };
  const settle = (session: AgentSession) => {
    for (const op of [...open.keys()]) {
      const last = session.results(op).at(-1);
      if (!last || (!last.ok && last.error.kind !== "stale")) continue;
      open.delete(op);
      session.send({ t: "done", op });
    }
  };

  /** Reconnects like a service with its complete state. */
  const takeUp = async () => {
    const session = await service.session();
    const ops = (await session.hello()).journal.map(({ op }) => op);
    await session.welcome({
      resume: ops.filter((op) => open.has(op)),
      forget: ops.filter((op) => !open.has(op)),
    });
    for (const op of open.keys()) ask(session, op);
    return session;
  };

  for (let round = 0; round < 10; round++) {
    const agent = startAgent(node.path);
    const session = await takeUp();
    // An agent refuses more than 32 at once.
    for (let i = 0; i < 12 && open.size < 32; i++) {
      const id = volumeOf(Math.ceil(Math.random() * 6));
      const gen = (gens.get(id) ?? 0) + 1;
      const what = Math.random() < 0.6 ? "there" : "gone";
      gens.set(id, gen);
      wanted.set(id, what);
      const op = opOf(++number);
      open.set(op, { id, gen, what });
      ask(session, op);
      if (Math.random() < 0.3) await new Promise((resolve) => setTimeout(resolve, Math.random() * 15));
      settle(session);
    }
    await new Promise((resolve) => setTimeout(resolve, Math.random() * 40));
    settle(session);
    await agent.kill();
  }

  startAgent(node.path);
  const session = await takeUp();
  const said = () => JSON.stringify([...open.keys()].map((op) => [open.get(op), session.results(op)]));
  await eventually("every operation to end", () => {
    settle(session);
    return open.size === 0 || undefined;
  }).catch((failure) => expect.fail(`${failure}: ${said()}`));
  const there = [...wanted].filter(([, what]) => what === "there").map(([id]) => id);
  expect(volumesIn(node)).toEqual(there.sort());
  session.socket.close(1000);
  const hello = await (await service.session()).welcome();
  expect(
    Object.values(hello.node.HostVolumes)
      .map((volume) => volume.ID)
      .sort(),
  ).toEqual(there);
  expect(hello.journal).toEqual([]);
});
