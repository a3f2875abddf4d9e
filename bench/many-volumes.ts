/**
 * A node full of host volumes: clients create and delete volumes there for some time, by a real agent. Prints the sizes of the
 * agent's frames and of the lines of the event stream, in the first and the last quarter, and what was dropped.
 *
 *     node bench/many-volumes.ts [seconds] [volumes] [clients]
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, request as httpRequest } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { SUBPROTOCOL } from "@sallyport/agent-protocol";
import { WebSocket, WebSocketServer } from "ws";
import { startCluster } from "./volumes-sides.ts";

const [seconds = 300, volumes = 2_000, clients = 8] = process.argv.slice(2).map(Number);
/** A node takes no more than its bound, so each client's volume has a place left for it. */
const kept = volumes - clients;

interface Size {
  readonly at: number;
  readonly what: string;
  readonly bytes: number;
}

/** A proxy between agent and service, which records frames and close reasons. */
async function startWitness(port: number) {
  const frames: Size[] = [];
  const closes: string[] = [];
  const sockets = new WebSocketServer({ noServer: true, handleProtocols: () => SUBPROTOCOL });
  const server = createServer((incoming, outgoing) => {
    const { method, url, headers } = incoming;
    const forward = httpRequest({ port, method, path: url, headers }, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(outgoing);
    });
    incoming.pipe(forward);
  });
  server.on("upgrade", (incoming, socket, head) => {
    const authorization = incoming.headers.authorization ?? "";
    const service = new WebSocket(`ws://127.0.0.1:${port}${incoming.url}`, SUBPROTOCOL, { headers: { authorization } });
    service.on("error", () => socket.destroy());
    service.on("open", () =>
      sockets.handleUpgrade(incoming, socket, head, (agent) => {
        agent.on("message", (data) => {
          const text = data.toString();
          frames.push({ at: Date.now(), what: /"t":"(\w+)"/.exec(text)?.[1] ?? "?", bytes: text.length });
          service.send(text);
        });
        service.on("message", (data) => agent.send(data.toString()));
        service.on("close", (code, reason) => {
          closes.push(`${code} ${reason}`);
          agent.close();
        });
        agent.on("close", () => service.close());
      }),
    );
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    frames,
    closes,
    stop: () => server.closeAllConnections(),
  };
}

/** Follows the event stream. */
async function follow(
  port: number,
  token: string,
  stop: AbortSignal,
): Promise<{ lines: Size[]; ended: Promise<void> }> {
  const lines: Size[] = [];
  const response = await fetch(`http://127.0.0.1:${port}/v1/event/stream?namespace=*&index=-1`, {
    headers: { "X-Orch-Token": token },
    signal: stop,
  });
  const read = async () => {
    let rest = "";
    for await (const text of (response.body as ReadableStream).pipeThrough(new TextDecoderStream())) {
      const parts = (rest + text).split("\n");
      rest = parts.pop() ?? "";
      for (const line of parts.filter((part) => part.length > 2)) {
        const { Events = [] } = JSON.parse(line) as {
          Events?: { Topic: string; Type: string; Payload: { Volume?: { State: string } } }[];
        };
        const what = Events.map(
          ({ Topic, Type, Payload }) =>
            `${Topic}/${Type}${Payload.Volume?.State === "unavailable" ? " unavailable" : ""}`,
        );
        lines.push({ at: Date.now(), what: [...new Set(what)].join("+"), bytes: line.length });
      }
    }
  };
  return { lines, ended: read().catch(() => {}) };
}

const dir = mkdtempSync(join(tmpdir(), "sallyport-bench-"));
const service = await startCluster(dir, "many");
const { port } = service.server;
const witness = await startWitness(port);
const stateDir = join(dir, "state");
mkdirSync(join(dir, "plugins"));
const config = {
  service: witness.url,
  name: "node-1",
  stateDir,
  hostVolumes: { volumesDir: join(dir, "volumes"), pluginDir: join(dir, "plugins") },
};
writeFileSync(join(dir, "agent.json"), JSON.stringify(config));
const { Token } = JSON.parse(await service.ask("POST", "/v1/agent/tokens", {})) as { Token: string };
const agent = spawn(process.execPath, ["agent/src/main.ts", "--config", join(dir, "agent.json")], {
  env: { PATH: process.env["PATH"] ?? "", SALLYPORT_JOIN_TOKEN: Token },
  stdio: ["ignore", "ignore", "pipe"],
});
let log = "";
agent.stderr.on("data", (text) => {
  log += text;
});

const refused: string[] = [];
async function call(method: string, path: string, body?: object): Promise<{ Volume?: { ID: string } } | null> {
  const response = await fetch(`http://127.0.0.1:${port}${path}`, {
    method,
    headers: { "X-Orch-Token": service.root },
    ...(body && { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  if (response.ok) return text.startsWith("{") ? JSON.parse(text) : {};
  refused.push(`${method} ${response.status} ${text.slice(0, 200)}`);
  return null;
}
const create = (name: string) => call("PUT", "/v1/volume/host/create", { Volume: { Name: name, PluginID: "mkdir" } });

while (!(await service.ask("GET", "/v1/nodes", undefined)).includes('"ready"')) await sleep(200);
let made = 0;
const fill = async () => {
  while (made < kept) await create(`kept-${made++}`);
};
await Promise.all(Array.from({ length: clients }, fill));
if (refused.length > 0) throw new Error(`the node could not be filled: ${refused[0]}\n${log}`);
process.stdout.write(`${made} volumes on the node\n`);

const stop = new AbortController();
const stream = await follow(port, service.root, stop.signal);
const [begun, cpu] = [Date.now(), service.server.cpu() ?? 0];
const until = begun + seconds * 1_000;
let operations = 0;
const firstFrame = witness.frames.length;
await Promise.all(
  Array.from({ length: clients }, async (_, client) => {
    for (let round = 0; Date.now() < until; round++) {
      const volume = (await create(`c${client}-${round}`))?.Volume;
      if (volume && (await call("DELETE", `/v1/volume/host/${volume.ID}`))) operations += 2;
    }
  }),
);
const spent = (service.server.cpu() ?? 0) - cpu;
await sleep(1_000);
stop.abort();
await stream.ended;
agent.kill("SIGTERM");
await once(agent, "exit");
service.server.stop();
witness.stop();

/** Count, mean and most of each kind, at the beginning and at the end. */
function table(title: string, sizes: readonly Size[]): void {
  const quarter = (seconds * 1_000) / 4;
  const parts = [sizes.filter(({ at }) => at < begun + quarter), sizes.filter(({ at }) => at >= until - quarter)];
  for (const what of [...new Set(sizes.map((size) => size.what))].sort()) {
    const cells = parts.map((part) => {
      const bytes = part.filter((size) => size.what === what).map((size) => size.bytes);
      const mean = bytes.reduce((sum, each) => sum + each, 0) / Math.max(1, bytes.length);
      return `${bytes.length} of ${Math.round(mean)} B (most ${Math.max(0, ...bytes)})`;
    });
    process.stdout.write(`${title} ${what}: first quarter ${cells[0]}, last quarter ${cells[1]}\n`);
  }
}

process.stdout.write(
  `${operations} operations in ${seconds} s by ${clients} clients: ${(operations / seconds).toFixed(1)} a second, ` +
    `${((1_000 * spent) / Math.max(1, operations)).toFixed(1)} ms of the service's CPU each\n`,
);
table("frame", witness.frames.slice(firstFrame));
table("line", stream.lines);
const dropped = [
  ...refused,
  ...witness.closes.filter((reason) => !reason.startsWith("1000") && !reason.startsWith("1005")),
];
process.stdout.write(`dropped: ${dropped.length === 0 ? "nothing" : `${dropped.length}, the first ${dropped[0]}`}\n`);
rmSync(dir, { recursive: true, force: true });
process.exit(dropped.length === 0 ? 0 : 1);
