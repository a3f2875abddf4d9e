/** Simulated agents with real keys, joins, tokens and frames, but without a node. Every operation succeeds at once. */
import { generateKeyPairSync, type KeyObject, randomUUID } from "node:crypto";
import {
  CONNECT_PATH,
  type Hello,
  JOIN_PATH,
  PING,
  PONG,
  parseServiceFrame,
  SUBPROTOCOL,
  TOKEN_SECONDS,
  type Welcome,
} from "@sallyport/agent-protocol";
import { SignJWT } from "jose";
import { WebSocket } from "ws";

export interface Identity {
  readonly node: string;
  readonly service: string;
  readonly name: string;
  readonly key: KeyObject;
}

/** An open socket whose other end keeps it; `pongs` grows as pings are answered. */
export interface Link {
  /** The path's last part under which its other end is found: a node's id. */
  readonly name: string;
  readonly socket: WebSocket;
  pongs: number;
  closed: string | null;
}

const BARE_PING_MS = 10_000;
/** So many bytes of a raw Ed25519 key are at the end of its public DER. */
const RAW_KEY_BYTES = 32;

/** Joins with a new token. @param ask requests with a management token */
export async function enrol(port: number, token: string, number: number): Promise<Identity> {
  const name = `agent-${number}`;
  const { privateKey, publicKey } = generateKeyPairSync("ed25519");
  const raw = publicKey.export({ type: "spki", format: "der" }).subarray(-RAW_KEY_BYTES);
  const { Token } = await post<{ Token: string }>(port, "/v1/agent/tokens", token, {});
  const body = { Token, PublicKey: raw.toString("base64"), Name: name };
  const { NodeID, Service } = await post<{ NodeID: string; Service: string }>(port, JOIN_PATH, "", body);
  return { node: NodeID, service: Service, name, key: privateKey };
}

async function post<Answer>(port: number, path: string, token: string, body: object): Promise<Answer> {
  const response = await fetch(`http://127.0.0.1:${port}${path}`, {
    method: "POST",
    headers: token === "" ? {} : { "X-Orch-Token": token },
    body: JSON.stringify(body),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${path}: ${response.status} ${text}`);
  return JSON.parse(text) as Answer;
}

/** Connects an agent; resolves when it is welcomed. */
export async function connectAgent(port: number, { node, service, name, key }: Identity): Promise<Link> {
  const token = await new SignJWT({ jti: randomUUID() })
    .setProtectedHeader({ alg: "EdDSA" })
    .setIssuer(node)
    .setSubject(node)
    .setAudience(service)
    .setIssuedAt()
    .setExpirationTime(`${TOKEN_SECONDS} seconds`)
    .sign(key);
  const { promise, resolve, reject } = Promise.withResolvers<Welcome>();
  const link = open(`ws://127.0.0.1:${port}${CONNECT_PATH}`, SUBPROTOCOL, token, node, reject, (text) => {
    const parsed = parseServiceFrame(text);
    if (!parsed.ok) return;
    const { frame } = parsed;
    if (frame.t === "welcome") resolve(frame);
    else if (frame.t === "req") {
      const result = frame.method === "dhv.create" ? { path: `/volumes/${frame.op}`, bytes: 0 } : {};
      link.socket.send(JSON.stringify({ t: "res", op: frame.op, ok: true, result, ms: 0 }));
    }
  });
  link.socket.on("open", () => link.socket.send(JSON.stringify(helloOf(name))));
  const { cfg } = await promise;
  pingEvery(link, cfg.pingMs);
  return link;
}

/** Opens a socket that echoes frames, for the bare Worker. */
export async function connectEcho(port: number, number: number): Promise<Link> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const name = `agent-${number}`;
  const link = open(`ws://127.0.0.1:${port}/socket/${name}`, [], null, name, reject, (text) => link.socket.send(text));
  link.socket.on("open", resolve);
  await promise;
  pingEvery(link, BARE_PING_MS);
  return link;
}

function open(
  url: string,
  protocols: string | string[],
  token: string | null,
  name: string,
  failed: (failure: Error) => void,
  take: (text: string) => void,
): Link {
  const headers = token === null ? {} : { authorization: `Bearer ${token}` };
  const socket = new WebSocket(url, protocols, { perMessageDeflate: false, headers });
  const link: Link = { name, socket, pongs: 0, closed: null };
  socket.on("error", failed);
  socket.on("close", (code, reason) => {
    link.closed = `${code} ${reason.toString()}`;
    failed(new Error(`a socket was closed: ${link.closed}`));
  });
  socket.on("message", (data) => {
    const text = data.toString();
    if (text === PONG) link.pongs += 1;
    else take(text);
  });
  return link;
}

function pingEvery(link: Link, ms: number): void {
  const later = () => {
    setTimeout(
      () => {
        if (link.closed !== null) return;
        link.socket.send(PING);
        later();
      },
      ms * (0.8 + 0.4 * Math.random()),
    );
  };
  later();
}

const helloOf = (name: string): Hello => ({
  t: "hello",
  proto: [1, 1],
  agent: "0.1.0",
  boot: "bench",
  epoch: 1,
  node: {
    Name: name,
    Datacenter: "dc1",
    NodeClass: "",
    NodePool: "default",
    Attributes: {
      "kernel.name": "linux",
      "cpu.arch": "amd64",
      "os.name": "ubuntu",
      "unique.hostname": name,
      "plugins.host_volume.mkdir.version": "0.0.1",
    },
    Meta: {},
    NodeResources: {
      Cpu: { CpuShares: 4_000, TotalCpuCores: 4 },
      Memory: { MemoryMB: 8_000 },
      Disk: { DiskMB: 100_000 },
      Networks: [],
      NodeNetworks: [],
    },
    ReservedResources: {
      Cpu: { CpuShares: 0 },
      Memory: { MemoryMB: 0 },
      Disk: { DiskMB: 0 },
      Networks: { ReservedHostPorts: "" },
    },
    Drivers: {},
    HostVolumes: {},
  },
  unavailableVolumes: [],
  journal: [],
  features: ["dhv.create"],
});
