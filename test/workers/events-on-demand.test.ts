import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { EventLog } from "../../src/objects/event-log.ts";
import { KvStore } from "../../src/objects/kv-store.ts";
import { eventLog } from "../../src/rpc/stubs.ts";
import { eventsOf } from "./access.ts";
import { mountKv, put } from "./client.ts";
import { clock, ShiftedClock } from "./clock.ts";
import { closeSockets, requestSubscription, subscribe } from "./notification-sockets.ts";
import { killOnly } from "./streams.ts";

/* Events of secrets where SERVICE_EVENTS does not enable their topic, as by default. */

clock.moves = true;

const LINGER_MS = 15 * 60_000;
let uuid: string;
let time: ShiftedClock | null = null;

beforeEach(async () => {
  uuid = (await mountKv("kv")).uuid;
});
afterEach(() => {
  closeSockets();
  vi.restoreAllMocks();
  time?.end();
  time = null;
});

const advance = (ms: number) => {
  time ??= new ShiftedClock();
  time.advance(ms);
};
const write = (name: string, mount = "kv") => put(`/v1/${mount}/data/${name}`, { data: { x: 1 } });
const log = () => env.EVENT_LOG.getByName("log") as DurableObjectStub<EventLog>;
const store = () => env.KV_STORE.getByName(uuid) as DurableObjectStub<KvStore>;
const published = () =>
  runInDurableObject(store(), (_object, { storage: { sql } }) => {
    const [row] = sql.exec<{ value: string }>("SELECT value FROM settings WHERE name = 'published'").toArray();
    return row ? (JSON.parse(row.value) as { on: boolean }).on : null;
  });
const pathsOf = async (stream: Awaited<ReturnType<typeof subscribe>>, count: number) => {
  const paths: (string | undefined)[] = [];
  for (let n = 0; n < count; n++) paths.push((await stream.nextEvent()).data.event.metadata["path"]);
  return paths;
};

it("a subscription has every change after it opened, also of mounts that are made later", async () => {
  await write("before");
  const stream = await subscribe("kv*?json=true");
  await write("a");
  await mountKv("later");
  await write("b", "later");
  await put("/v1/sys/mounts/old", { type: "kv" });
  await put("/v1/old/c", { x: 1 });
  expect(await pathsOf(stream, 3)).toEqual(["kv/data/a", "later/data/b", "old/c"]);
});

it("nothing is published without a subscriber, and for one of leases", async () => {
  await write("a");
  const stream = await subscribe("lease*?json=true");
  await write("b");
  expect(await published()).toBeNull();
  expect(await eventsOf("Secret")).toEqual([]);
  stream.socket.close();
});

it("a subscriber that leaves may resume for a quarter of an hour without a gap, and is told of a later one", async () => {
  const first = await subscribe("kv*?json=true");
  await write("a");
  const frame = await first.nextEvent();
  const index = Number(frame.data.event.metadata["index"]);
  first.socket.close();
  await write("b");
  const second = await subscribe(`kv*?json=true&index=${index + 1}`);
  expect(await pathsOf(second, 1)).toEqual(["kv/data/b"]);
  second.socket.close();
  await vi.waitFor(async () => {
    await write("c");
    const left = await runInDurableObject(log(), (_object, { storage: { sql } }) =>
      sql.exec("SELECT * FROM secret_relays").toArray(),
    );
    expect(left).toEqual([]);
  });
  advance(LINGER_MS + 1_000);
  await write("d");
  await vi.waitFor(async () => expect(await published()).toBe(false));
  const newest = await eventLog(env).newest();
  await write("unseen");
  expect(await eventLog(env).newest()).toBe(newest);
  const third = await subscribe(`kv*?json=true&index=${index + 1}`);
  const gap = await third.nextEvent();
  expect(gap.data.event.metadata).toMatchObject({ operation: "gap", from: String(index + 1), index: String(newest) });
  await write("e");
  for (let path = ""; path !== "kv/data/e"; ) path = (await third.nextEvent()).data.event.metadata["path"] ?? "";
});

it("is refused with 503 while a mount cannot be told, and is opened by the next request", async () => {
  vi.spyOn(KvStore.prototype, "publishEvents").mockRejectedValueOnce(new Error("no answer"));
  expect((await requestSubscription("kv*?json=true")).status).toBe(503);
  const stream = await subscribe("kv*?json=true");
  await write("a");
  expect(await pathsOf(stream, 1)).toEqual(["kv/data/a"]);
});

it("an answer of an earlier time does not silence a mount that a later subscriber needs", async () => {
  const stream = await subscribe("kv*?json=true");
  vi.spyOn(EventLog.prototype, "unwantedSecrets").mockReturnValue(0);
  await write("a");
  await write("b");
  await vi.waitFor(async () => expect(await published()).toBe(true));
  await write("c");
  expect(await pathsOf(stream, 3)).toEqual(["kv/data/a", "kv/data/b", "kv/data/c"]);
});

it("has each change once over kills of the store and the log", async () => {
  const stream = await subscribe("kv*?json=true");
  const expected: string[] = [];
  for (const victim of [store(), log(), store()]) {
    await write(`${expected.length}`);
    expected.push(`kv/data/${expected.length}`);
    await killOnly(victim);
    await write(`${expected.length}`);
    expected.push(`kv/data/${expected.length}`);
  }
  expect(await pathsOf(stream, expected.length)).toEqual(expected);
});
