import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { type AddressInfo, connect } from "node:net";
import { afterAll, beforeAll, expect, it } from "vitest";
import { createGateway, type Gateway } from "../../scripts/gateway.ts";
import { MOUNT, makeChanges } from "../clients/notified-changes.ts";
import { SocketRecorder } from "../clients/socket-recorder.ts";
import { Service } from "./events-service.ts";

/* The requests that test/clients/event-subscribers.test.ts and operator.test.ts have recorded of the programs. */

const TRANSCRIPTS = "test/clients/transcripts";
const clients = readdirSync(TRANSCRIPTS).flatMap((file) => /^events-(.*)\.txt$/.exec(file)?.[1] ?? []);

const service = new Service({});
let gateway: Gateway;
const base = () => `127.0.0.1:${(gateway.address() as AddressInfo).port}`;

async function call(method: string, path: string, body?: unknown): Promise<void> {
  const headers = { "X-Vault-Token": "root" };
  const init = { method, headers, ...(body !== undefined && { body: JSON.stringify(body) }) };
  const response = await fetch(`http://${base()}/v1/${path}`, init);
  await response.body?.cancel();
  expect([path, response.ok]).toEqual([path, true]);
}

beforeAll(async () => {
  await service.create();
  gateway = createGateway(null);
  gateway.listen(0, "127.0.0.1");
  await once(gateway, "listening");
  gateway.upstreamPort = Number(new URL(service.base).port);
  await call("POST", `sys/mounts/${MOUNT}`, { type: "kv", options: { version: "2" } });
}, 180_000);

afterAll(async () => {
  await gateway?.drain();
  await service.destroy();
});

it.each(clients)("the recorded exchange of a client is the same again: %s", async (name) => {
  const recorded = readFileSync(`${TRANSCRIPTS}/events-${name}.txt`, "utf8").trimEnd().split("\n");
  const end = recorded.findIndex((line) => line.startsWith("< "));
  const [first = "", ...headers] = recorded.slice(0, end).map((line) => line.slice(2));
  const values: Readonly<Record<string, string>> = {
    "x-vault-token": "root",
    "sec-websocket-key": Buffer.from("sixteen bytes...").toString("base64"),
    "user-agent": "test",
    host: base(),
  };
  const filled = headers.map((header) => header.replace(/: :(.+)$/, (_all, key: string) => `: ${values[key] ?? ""}`));
  const recorder = await SocketRecorder.before(`http://${base()}`);
  const { hostname, port } = new URL(recorder.address);
  const socket = connect(Number(port), hostname);
  socket.write(`${[first, ...filled].join("\r\n")}\r\n\r\n`);
  await once(socket, "data");
  if (recorded.includes("> ping")) socket.write(Buffer.from([0x89, 0x80, 0, 0, 0, 0]));
  await makeChanges(call);
  await expect.poll(() => recorder.lines(`${MOUNT}/`)).toEqual(recorded);
  socket.destroy();
  recorder.close();
});
