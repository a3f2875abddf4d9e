import { once } from "node:events";
import { type AddressInfo, connect, type Socket } from "node:net";
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { createTestHarness } from "wrangler";
import { createGateway } from "../../scripts/gateway.ts";
import type { Append } from "../../src/contracts/event.ts";

/*
 * The event stream over real sockets, with compression, buffering and clients that disconnect. Directly at the runtime,
 * and through the gateway of `npm start`.
 */

const harness = createTestHarness({
  workers: [
    {
      configPath: "./wrangler.toml",
      vars: { EVENT_HEARTBEAT_MS: "300", EVENT_STALL_MS: "1500" },
      secrets: { MASTER_KEY: Buffer.alloc(32, 1).toString("base64"), DEV_ROOT_TOKEN: "root" },
    },
  ],
});
const ports: Record<string, number> = {};
let gateway: ReturnType<typeof createGateway> | undefined;

beforeAll(async () => {
  const { url } = await harness.listen();
  await harness.getWorker().applyD1Migrations("LISTINGS");
  ports["directly"] = Number(url.port);
  gateway = createGateway(Number(url.port));
  gateway.listen(0, "127.0.0.1");
  await once(gateway, "listening");
  ports["through the gateway"] = (gateway.address() as AddressInfo).port;
}, 300_000);

afterAll(async () => {
  gateway?.close();
  await harness.close();
});

const TOKEN = { "X-Orch-Token": "root" };

interface Log {
  state(): Promise<{ readers: number; newest: number }>;
  append(source: string, entries: readonly Append[]): Promise<number[]>;
}

async function log(): Promise<Log> {
  const env = (await harness.getWorker().getEnv()) as { EVENT_LOG: { getByName(name: string): Log } };
  return env.EVENT_LOG.getByName("log");
}

const readers = async (): Promise<number> => (await (await log()).state()).readers;

/** Appends lines of 100 kB each. */
async function appendLarge(lines: number): Promise<void> {
  const { newest } = await (await log()).state();
  const payload = { Job: { ID: "x".repeat(100_000) } };
  const event = { Topic: "Job", Type: "JobRegistered", Key: "large", Namespace: "default", FilterKeys: null };
  for (let n = 1; n <= lines; n += 20) {
    const entries = Array.from({ length: 20 }, (_, i) => ({
      seq: newest + n + i,
      events: [{ ...event, Payload: payload }],
    }));
    await (await log()).append("large", entries);
  }
}

/** Ends the streams of a test, also of a failed one, because the next test counts the readers. */
function streamsOfTest(): AbortController {
  const abort = new AbortController();
  onTestFinished(() => abort.abort());
  return abort;
}

/** Requests the stream over a separate socket. */
async function streamSocket(port: number, query: string): Promise<Socket> {
  const socket = connect({ port, host: "127.0.0.1" });
  socket.on("error", () => undefined);
  onTestFinished(() => void socket.destroy());
  await once(socket, "connect");
  socket.write(`GET /v1/event/stream?${query} HTTP/1.1\r\nHost: a\r\nX-Orch-Token: root\r\n\r\n`);
  return socket;
}

describe.each(["directly", "through the gateway"])("%s", (way) => {
  const base = () => `http://127.0.0.1:${ports[way]}`;

  it("delivers the first line at once and each later one, also to a client that accepts gzip", async () => {
    const abort = streamsOfTest();
    const response = await fetch(`${base()}/v1/event/stream?topic=ACLPolicy&index=-1`, {
      headers: { ...TOKEN, "Accept-Encoding": "gzip, deflate, br" },
      signal: abort.signal,
    });
    expect(response.headers.get("content-encoding")).toBe("identity");
    expect(response.headers.get("cache-control")).toBe("no-store, no-transform");
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    while (!text.includes("\n")) text += (await reader?.read())?.value ?? "";
    // On a busy machine a heartbeat may arrive in the same chunk.
    expect(JSON.parse(text.slice(0, text.indexOf("\n")))).toMatchObject({ Events: [] });
    const written = await fetch(`${base()}/v1/acl/policy/p`, {
      method: "PUT",
      headers: TOKEN,
      body: JSON.stringify({ Rules: 'node { policy = "read" }' }),
    });
    expect(written.status).toBe(200);
    let line: string | undefined;
    while (line === undefined) {
      text += (await reader?.read())?.value ?? "";
      line = /^.*ACLPolicyUpserted.*(?=\n)/m.exec(text)?.[0];
    }
    expect(JSON.parse(line)).toMatchObject({ Events: [{ Type: "ACLPolicyUpserted" }] });
    abort.abort();
  });

  it("detects a client that closes the connection", async () => {
    await vi.waitFor(async () => expect(await readers()).toBe(0), { timeout: 30_000 });
    const abort = streamsOfTest();
    const opened = await Promise.all(
      Array.from({ length: 5 }, async () => {
        const response = await fetch(`${base()}/v1/event/stream?index=-1`, { headers: TOKEN, signal: abort.signal });
        await response.body?.getReader().read();
        return response.status;
      }),
    );
    expect(opened).toEqual([200, 200, 200, 200, 200]);
    await vi.waitFor(async () => expect(await readers()).toBe(5));
    abort.abort();
    await vi.waitFor(async () => expect(await readers()).toBe(0), { timeout: 30_000 });
  });

  it("detects a connection that is reset", async () => {
    const socket = await streamSocket(ports[way] ?? 0, "index=-1");
    let text = "";
    while (!text.includes('"Events":[]}')) text += String((await once(socket, "data"))[0]);
    expect(text).toMatch(/^HTTP\/1\.1 200 /);
    socket.resetAndDestroy();
    await vi.waitFor(async () => expect(await readers()).toBe(0), { timeout: 30_000 });
  });

  it("cuts a client that stops reading, while others get every line", async () => {
    await vi.waitFor(async () => expect(await readers()).toBe(0), { timeout: 30_000 });
    const abort = streamsOfTest();
    const live = await fetch(`${base()}/v1/event/stream?topic=Job&index=-1`, { headers: TOKEN, signal: abort.signal });
    let seen = 0;
    const reading = (async () => {
      let rest = "";
      for await (const text of live.body?.pipeThrough(new TextDecoderStream()) ?? []) {
        const lines = (rest + text).split("\n");
        rest = lines.pop() ?? "";
        for (const line of lines) seen += line.split('"Key":"large"').length - 1;
      }
    })().catch(() => undefined);
    const stalled = await Promise.all(
      Array.from({ length: 5 }, async () => {
        const socket = await streamSocket(ports[way] ?? 0, "topic=Job&index=-1");
        await once(socket, "data");
        return socket.pause();
      }),
    );
    await vi.waitFor(async () => expect(await readers()).toBe(6));
    let written = 0;
    // Until all buffers are full.
    for (; (await readers()) > 1 && written < 2_000; written += 40) {
      await appendLarge(40);
      await vi.waitFor(() => expect(seen).toBe(written + 40), { timeout: 30_000 });
    }
    expect(await readers()).toBe(1);
    // The client sees the broken answer; the log does not report it as a defect.
    const ends = stalled.map(async (socket) => {
      let last = "";
      socket.on("data", (bytes: Buffer) => {
        last = (last + bytes.toString("latin1")).slice(-16);
      });
      socket.resume();
      await once(socket, "end");
      return last.endsWith("\r\n0\r\n\r\n");
    });
    expect(await Promise.all(ends)).toEqual(stalled.map(() => false));
    expect(harness.getLogs().filter(({ message }) => JSON.stringify(message).includes("slow consumer"))).toEqual([]);
    for (const socket of stalled) socket.destroy();
    abort.abort();
    await reading;
    await vi.waitFor(async () => expect(await readers()).toBe(0), { timeout: 30_000 });
  });

  it("delivers each line as it is written to a fetch() reader as in browsers", async () => {
    const abort = streamsOfTest();
    const response = await fetch(`${base()}/v1/event/stream?topic=ACLPolicy&index=-1`, {
      headers: { ...TOKEN, Accept: "text/event-stream", "Accept-Encoding": "gzip, deflate, br" },
      signal: abort.signal,
    });
    expect(response.headers.get("content-type")).toBe("text/event-stream");
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    while (!text.includes("\n")) text += (await reader?.read())?.value ?? "";
    expect(text).toMatch(/^retry: /);
    const written = await fetch(`${base()}/v1/acl/policy/sse`, {
      method: "PUT",
      headers: TOKEN,
      body: JSON.stringify({ Rules: 'node { policy = "read" }' }),
    });
    expect(written.status).toBe(200);
    while (!/ACLPolicyUpserted.*\n\n/.test(text)) text += (await reader?.read())?.value ?? "";
    expect(text).toMatch(/\nid: \d+\ndata: \{.*\}\n\n/);
    abort.abort();
  });

  it("returns a refusal with its own status and a complete body", async () => {
    const denied = await fetch(`${base()}/v1/event/stream`, { headers: { "X-Orch-Token": "wrong" } });
    expect([denied.status, await denied.text()]).toEqual([403, "Permission denied"]);
    const bad = await fetch(`${base()}/v1/event/stream?index=x`, { headers: TOKEN });
    expect([bad.status, await bad.text()]).toEqual([400, 'Unable to parse index: "x" is not an integer of 64 bits']);
  });

  it("refuses a body that is too large by name while it is still being sent", async () => {
    const response = await fetch(`${base()}/v1/namespace/n`, {
      method: "PUT",
      headers: TOKEN,
      body: JSON.stringify({ Description: "x".repeat(1_048_576) }),
    });
    expect([response.status, await response.text()]).toEqual([413, "request body: larger than 1048576 bytes"]);
  });

  it.each(["/v1/kv/data/a/../../../sys/mounts", "/v1/kv/data/%2e%2e/%2e%2e/%2e%2e/sys/mounts"])(
    "resolves the dot segments in %s before authorization",
    async (path) => {
      const answer = await new Promise<string>((resolve, reject) => {
        const socket = connect({ port: ports[way] ?? 0, host: "127.0.0.1" });
        let text = "";
        socket.on("error", reject);
        socket.on("data", (bytes) => (text += String(bytes)));
        socket.on("end", () => resolve(text));
        socket.write(`GET ${path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`);
      });
      expect(answer).toMatch(/^HTTP\/1\.1 (400|403) /);
      expect(answer).toContain('{"errors":[');
    },
  );
});
