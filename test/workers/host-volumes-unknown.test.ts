import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import { type Answer, del, get, put } from "./client.ts";
import { clock, ShiftedClock } from "./clock.ts";
import { run } from "./host-volumes.ts";
import { type AgentSocket, done, eventually, ScriptedAgent } from "./scripted-agent.ts";

clock.moves = true;

/*
 * Operations of which the node itself does not know what has come: over the whole way, from the request to the agent.
 */

const DAY_MS = 24 * 3_600_000;
let time: ShiftedClock;
let agent: ScriptedAgent;
let socket: AgentSocket;

beforeEach(async () => {
  time = new ShiftedClock();
  [agent, socket] = await ScriptedAgent.connected();
  await eventually(async () => expect((await get(`/v1/node/${agent.node}`)).body.Status).toBe("ready"));
});

const create = (more: object = {}) =>
  put("/v1/volume/host/create", { IdempotencyToken: "t", Volume: { Name: "db", PluginID: "mkdir", ...more } });

const running = () =>
  runInDurableObject(env.CLUSTER_REGISTRY.getByName("main"), (_registry, { storage }) =>
    storage.sql.exec("SELECT id FROM volume_operations WHERE state = 'running'").toArray(),
  );

const inSession = (statement: string, value: number) =>
  runInDurableObject(agent.stub as unknown as DurableObjectStub, (_session, { storage }) => {
    storage.sql.exec(statement, value);
  });

/** Waits until the registry has recorded why the outcome is unknown. */
const doubted = (what: string) =>
  eventually(async () => {
    const rows = await runInDurableObject(env.CLUSTER_REGISTRY.getByName("main"), (_registry, { storage }) =>
      storage.sql.exec("SELECT doubt FROM volume_operations WHERE state = 'running'").toArray(),
    );
    expect(rows).toEqual([{ doubt: what }]);
  });

/** The agent is asked for the `count`th time, and answers that it does not know. */
async function isUnknown(count: number, message = "the disk does not answer") {
  const req = (await socket.seen("req", count))[count - 1];
  const op = req?.op ?? "";
  socket.send({ t: "res", op, ms: 1, ok: false, error: { kind: "timeout", message, outcome: "unknown" } });
  await doubted(message);
  // Only a repeated request asks again: on a busy machine the session would, too.
  await inSession("UPDATE operations SET due = due + ? WHERE state = 'unknown'", DAY_MS);
  return req as NonNullable<typeof req>;
}

/** A volume that is made, and shown by its node. */
async function made(): Promise<string> {
  const asked = create();
  const [{ op } = { op: "" }] = await socket.seen("req");
  socket.send(done(op, { path: "/v", bytes: 0 }));
  return (await asked).body.Volume.ID;
}

/** Every request gives up; no alarm rings. */
const everyoneGivesUp = () => {
  time.advance(100_000);
};

describe("a request whose outcome is unknown to the node", () => {
  it("queries the node at once when it is repeated, and returns that result", async () => {
    const first = create();
    const asked = await isUnknown(1);
    const again = create();
    const [, repeated] = await socket.seen("req", 2);
    expect(repeated).toEqual(asked);
    socket.send(done(asked.op, { path: "/v", bytes: 0 }));
    expect([(await first).status, (await again).status]).toEqual([200, 200]);
  });

  it("returns the node's last message when that takes too long", async () => {
    const first = create();
    const { op } = await isUnknown(1);
    const again = create();
    await isUnknown(2, "the disk answers nonsense");
    everyoneGivesUp();
    for (const { status, text } of [await first, await again])
      expect([status, text]).toEqual([
        504,
        `operation ${op}: its outcome is unknown: the disk answers nonsense; the node is asked again, and at once by the same request`,
      ]);
  });

  it("does not fail because its node is away when it is repeated", async () => {
    const first = create();
    const { op } = await isUnknown(1);
    socket.close();
    await eventually(async () => expect((await get(`/v1/node/${agent.node}`)).body.Status).toBe("disconnected"));
    time.advance(35_000);
    const again = create();
    await scheduler.wait(300);
    expect(await running()).toEqual([{ id: op }]);
    time.advance(-time.ahead);
    socket = await agent.connect();
    await socket.welcome();
    await socket.seen("req");
    socket.send(done(op, { path: "/v", bytes: 0 }));
    expect([(await first).status, (await again).status]).toEqual([200, 200]);
  });

  it("to delete does not fail because the volume is in use meanwhile", async () => {
    const ID = await made();
    const remove = () => del(`/v1/volume/host/${ID}`);
    const first = remove();
    const { op } = await isUnknown(2);
    await run(agent.node, ["db"]);
    const again = remove();
    await scheduler.wait(300);
    expect(await running()).toEqual([{ id: op }]);
    // The deletion is not retried early, because it would remove a volume in use.
    expect(await socket.seen("req", 2)).toHaveLength(2);
    socket.send(done(op));
    for (const { status, text } of [await first, await again]) {
      expect(status).toBe(409);
      expect(text).toContain(`could not delete volume ${ID} in use by alloc`);
    }
  });
});

describe("an outcome that is unknown for 30 days", () => {
  /**
   * The session gives up, and its word has reached the registry. The operation is made older, because requests that
   * wait would give up first if the clock moved.
   */
  async function isGivenUp() {
    await inSession("UPDATE operations SET created = created - ?, due = 0 WHERE state = 'unknown'", 31 * DAY_MS);
    await runDurableObjectAlarm(agent.stub);
    await eventually(async () => expect(await running()).toEqual([]));
  }
  const givenUp = "given up: in 30 days the node has not reported the outcome; it last said: the disk does not answer";
  const told = async (asked: Promise<Answer>) => {
    const { status, text } = await asked;
    expect([status, text]).toEqual([504, givenUp]);
  };

  it("of a creation frees the name for another creation", async () => {
    const first = create();
    await isUnknown(1);
    await isGivenUp();
    await told(first);
    socket = await agent.connect();
    await socket.welcome();
    expect(await made()).toMatch(/^[0-9a-f-]{36}$/);
  });

  it("of an update keeps the volume unchanged and updatable", async () => {
    const ID = await made();
    const first = create({ ID, Name: "renamed", NodeID: agent.node });
    await isUnknown(2);
    await isGivenUp();
    await told(first);
    expect((await get(`/v1/volume/host/${ID}`)).body.Name).toBe("db");
    socket = await agent.connect();
    await socket.welcome();
    const again = create({ ID, Name: "renamed", NodeID: agent.node });
    const [{ op } = { op: "" }] = await socket.seen("req");
    socket.send(done(op, { path: "/v", bytes: 0 }));
    expect((await again).body.Volume.Name).toBe("renamed");
  });

  it("of a deletion keeps the volume deletable, by force without its node", async () => {
    const ID = await made();
    const first = del(`/v1/volume/host/${ID}`);
    await isUnknown(2);
    await isGivenUp();
    await told(first);
    socket.close();
    await eventually(async () => expect((await get(`/v1/node/${agent.node}`)).body.Status).not.toBe("ready"));
    expect((await del(`/v1/volume/host/${ID}?force=true`)).status).toBe(200);
    expect((await get(`/v1/volume/host/${ID}`)).status).toBe(404);
  });
});

describe("a forced deletion", () => {
  it("drops a creation of unknown outcome: the node forgets it, and its name is free", async () => {
    const first = create();
    const { op, params } = await isUnknown(1);
    const { id } = params as { id: string };
    const removing = del(`/v1/volume/host/${id}?force=true`);
    const [, { op: second, method, gen, params: asked } = { op: "", method: "", gen: 0, params: {} }] =
      await socket.seen("req", 2);
    expect([method, gen, asked]).toEqual(["dhv.delete", 2, { id, force: true }]);
    expect([(await first).status, (await first).text]).toEqual([409, `volume ${id} was given up`]);
    expect(await running()).toEqual([{ id: second }]);
    socket.send(done(second));
    expect((await removing).status).toBe(200);
    // A late result of the first operation is ignored.
    socket.send(done(op, { path: "/v", bytes: 0 }));
    const again = put("/v1/volume/host/create", { Volume: { Name: "db", PluginID: "mkdir" } });
    const [, , third] = await socket.seen("req", 3);
    socket.send(done(third?.op ?? "", { path: "/w", bytes: 0 }));
    expect((await again).body.Volume).toMatchObject({ Name: "db", HostPath: "/w" });
  });

  it("of unknown outcome is completed by the next one, without the node", async () => {
    const id = await made();
    const remove = (force: boolean) => del(`/v1/volume/host/${id}?force=${force}`);
    const first = remove(false);
    await isUnknown(2);
    const second = remove(true);
    expect((await first).status).toBe(409);
    await isUnknown(3);
    expect((await remove(true)).status).toBe(200);
    expect((await second).status).toBe(409);
    expect((await get(`/v1/volume/host/${id}`)).status).toBe(404);
    expect(await socket.seen("req", 3)).toHaveLength(3);
  });

  it("is refused while the volume is in use, and waits for outcomes that may still arrive", async () => {
    const id = await made();
    const first = del(`/v1/volume/host/${id}`);
    const [, { op } = { op: "" }] = await socket.seen("req", 2);
    const forced = del(`/v1/volume/host/${id}?force=true`);
    await scheduler.wait(200);
    expect(await socket.seen("req", 2)).toHaveLength(2);
    socket.send(done(op));
    expect((await first).status).toBe(200);
    expect((await forced).status).toBe(404);
  });
});
