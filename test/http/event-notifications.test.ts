import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { WebSocket } from "ws";
import { createGateway, type Gateway } from "../../scripts/gateway.ts";
import { amount } from "../support/long.ts";
import { Service } from "./events-service.ts";

/* Event notifications through the gateway, with a WebSocket client that is not the runtime's own. */

const KILLS = amount(4, 300);

const service = new Service({ SERVICE_EVENTS: "Secret,Lease,Engine" });
let gateway: Gateway;
const sockets = new Set<WebSocket>();

beforeAll(async () => {
  await service.create();
  gateway = createGateway(null);
  gateway.listen(0, "127.0.0.1");
  await once(gateway, "listening");
  pointGateway();
  await call("POST", "/v1/sys/mounts/kv", { type: "kv", options: { version: "2" } });
}, 180_000);

afterAll(async () => {
  for (const socket of sockets) socket.terminate();
  await gateway?.drain();
  await service.destroy();
});

const pointGateway = () => {
  gateway.upstreamPort = Number(new URL(service.base).port);
};
const base = () => `127.0.0.1:${(gateway.address() as AddressInfo).port}`;

async function call(method: string, path: string, body?: unknown): Promise<void> {
  const response = await fetch(`http://${base()}${path}`, {
    method,
    headers: { "X-Vault-Token": "root" },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  await response.body?.cancel();
  expect([path, response.ok]).toEqual([path, true]);
}

const write = (name: string) => call("POST", `/v1/kv/data/${name}`, { data: { value: "1" } });

/** A subscriber that keeps the paths of its events, and the index to resume from. */
class Subscriber {
  readonly paths: string[] = [];
  next: number | null = null;
  socket: WebSocket | undefined;

  async connect(): Promise<this> {
    this.socket?.terminate();
    const more = this.next === null ? "" : `&index=${this.next}`;
    const headers = { "X-Vault-Token": "root", "X-Vault-Namespace": "" };
    const socket = new WebSocket(`ws://${base()}/v1/sys/events/subscribe/kv%2A?json=true${more}`, { headers });
    sockets.add(socket);
    socket.on("error", () => {});
    socket.on("message", (text) => {
      const { data } = JSON.parse(String(text));
      this.paths.push(data.event.metadata.path);
      this.next = Number(data.event.metadata.index) + 1;
    });
    socket.on("upgrade", ({ headers: answered }) => {
      this.next ??= Number(answered["x-nomad-start-index"]);
    });
    await once(socket, "open");
    this.socket = socket;
    return this;
  }

  async until(path: string): Promise<void> {
    const deadline = Date.now() + 60_000;
    while (this.paths.at(-1) !== path) {
      if (Date.now() > deadline) throw new Error(`no event of ${path}: ${this.paths}`);
      await sleep(5);
    }
  }
}

describe("sys/events/subscribe through the gateway", { timeout: 180_000 }, () => {
  it("upgrades, sends events and answers pings", async () => {
    const subscriber = await new Subscriber().connect();
    await write("a");
    await subscriber.until("kv/data/a");
    const pong = once(subscriber.socket as WebSocket, "pong");
    subscriber.socket?.ping("are you there");
    expect(String((await pong)[0])).toBe("are you there");
  });

  it("goes on after the time in which the runtime lets an idle object go", async () => {
    const subscriber = await new Subscriber().connect();
    await sleep(12_000);
    await write("late");
    await subscriber.until("kv/data/late");
    expect(subscriber.paths).toEqual(["kv/data/late"]);
  });

  it("sends server-sent events", async () => {
    const response = await fetch(`http://${base()}/v1/sys/events/subscribe/kv*`, {
      headers: { "X-Vault-Token": "root", Accept: "text/event-stream" },
    });
    const reader = response.body?.getReader();
    await write("streamed");
    let text = "";
    while (!text.includes("kv/data/streamed")) text += new TextDecoder().decode((await reader?.read())?.value);
    expect(text).toMatch(/\nid: \d+\ndata: \{.*\}\n\n$/);
    await reader?.cancel();
  });

  it("refuses without a right or an upgrade", async () => {
    const headers = { "X-Vault-Token": "wrong" };
    const refused = new WebSocket(`ws://${base()}/v1/sys/events/subscribe/kv*`, { headers });
    const [, { statusCode }] = await once(refused, "unexpected-response");
    expect(statusCode).toBe(403);
    const plain = await fetch(`http://${base()}/v1/sys/events/subscribe/kv*`, { headers: { "X-Vault-Token": "root" } });
    expect(plain.status).toBe(426);
  });

  it(
    "has each event once and in order for subscribers that resume after the service was killed",
    async () => {
      const readers = [new Subscriber(), new Subscriber(), new Subscriber()];
      for (const reader of readers) await reader.connect();
      const expected: string[] = [];
      for (let round = 0; round < KILLS; round += 1) {
        for (const name of ["a", "b", "c"].slice(round % 3)) {
          await write(`${round}-${name}`);
          expected.push(`kv/data/${round}-${name}`);
        }
        // The events of these writes reach a reader before the kill, or after it, or in part.
        await sleep((round * 7) % 40);
        await service.kill();
        await service.start();
        pointGateway();
        for (const reader of readers) await reader.connect();
      }
      await write("end");
      for (const reader of readers) {
        await reader.until("kv/data/end");
        expect(reader.paths).toEqual([...expected, "kv/data/end"]);
      }
    },
    KILLS * 60_000,
  );
});
