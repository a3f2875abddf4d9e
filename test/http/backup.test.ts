import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { Service } from "./events-service.ts";

/** Sends a file of several megabytes between deployments over real sockets, and kills the receiver meanwhile. */

const SECRETS = 40;
const [old, fresh] = [new Service({}), new Service({})];
beforeAll(async () => {
  await Promise.all([old.create(), fresh.create()]);
}, 300_000);
afterAll(async () => {
  await Promise.all([old.destroy(), fresh.destroy()]);
});

const ask = (service: Service, method: string, body?: Uint8Array | ReadableStream<Uint8Array>) =>
  fetch(`${service.base}/v1/sys/snapshot`, {
    method,
    headers: { "X-Orch-Token": "root" },
    ...(body !== undefined && { body, duplex: "half" }),
  } as RequestInit);

const text = (n: number) => String.fromCharCode(97 + (n % 26)).repeat(150_000);

it("a restore that is killed midway is reported after the restart, and succeeds when it is repeated", async () => {
  await old.must("PUT", "/v1/sys/mounts/kv", { type: "kv", options: { version: "2" } });
  for (let n = 0; n < SECRETS; n++) await old.must("PUT", `/v1/kv/data/s${n}`, { data: { text: text(n) } });
  const taken = await ask(old, "GET");
  expect([taken.status, taken.headers.get("content-type")]).toEqual([200, "application/octet-stream"]);
  const file = new Uint8Array(await taken.arrayBuffer());
  expect(file.length).toBeGreaterThan(SECRETS * 150_000);

  // Sends half of it and stops.
  const half = new ReadableStream<Uint8Array>({
    start: (controller) => controller.enqueue(file.subarray(0, file.length / 2)),
  });
  const hanging = ask(fresh, "POST", half).catch(() => null);
  await vi.waitFor(async () => expect((await fresh.call("GET", "/v1/sys/mounts"))?.status).toBe(503));
  await sleep(500);
  await fresh.kill();
  await hanging;
  await fresh.start();
  const refused = await fresh.call("GET", "/v1/sys/mounts");
  expect([refused?.status, JSON.stringify(refused?.body)]).toEqual([
    503,
    expect.stringContaining("a restore is under way, or has not ended"),
  ]);

  const restored = await ask(fresh, "POST", file);
  expect(restored.status, await restored.clone().text()).toBe(200);
  for (const n of [0, 17, SECRETS - 1])
    expect((await fresh.must("GET", `/v1/kv/data/s${n}`)).body.data.data).toEqual({ text: text(n) });
  await fresh.must("PUT", "/v1/kv/data/s0", { data: { text: "new" } });
}, 120_000);
