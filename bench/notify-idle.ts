/** Idle subscribers over WebSocket: the memory that each takes, after their objects have hibernated. */
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { bill, DEFAULTS } from "../scripts/cost-model.ts";
import type { Side } from "./sides.ts";

export interface IdleSockets {
  /** How many were opened: all, or as many as the system's limit of open files allows. */
  readonly sockets: number;
  /** Bytes of the runtime's memory for each socket; null if the system does not report it. */
  readonly each: number | null;
  /** Sockets that were open at the end. */
  readonly open: number;
  /** Dollars a month on the platform, beyond what the plan includes. */
  readonly monthly: number;
}

const AT_ONCE = 50;
const SUBSCRIBE = "/v1/sys/events/subscribe/kv-v2*?json=true";
/** An answer takes milliseconds; a runtime without free files gives none. */
const ANSWER_MS = 20_000;
/** Longer than the time after which the runtime lets idle objects hibernate. */
const SETTLE_MS = 15_000;

/** Opens the sockets, waits until their objects hibernate, and closes them. */
export async function idleSockets({ server, access }: Side, wanted: number): Promise<IdleSockets> {
  const before = server.memory();
  const opened: Socket[] = [];
  try {
    for (let isRefused = false; opened.length < wanted && !isRefused; ) {
      const count = Math.min(AT_ONCE, wanted - opened.length);
      const tried = await Promise.all(Array.from({ length: count }, () => subscribe(server.port, access.token)));
      opened.push(...tried.filter((socket) => socket !== null));
      isRefused = tried.includes(null);
    }
    const sockets = opened.length;
    await sleep(SETTLE_MS);
    const after = server.memory();
    return {
      sockets,
      each: before === null || after === null ? null : (after - before) / sockets,
      open: opened.filter(({ readyState }) => readyState === "open").length,
      monthly: bill({ ...DEFAULTS, subscribers: sockets }).total - bill(DEFAULTS).total,
    };
  } finally {
    for (const socket of opened) socket.destroy();
  }
}

/** Null without an answer. */
async function subscribe(port: number, token: string): Promise<Socket | null> {
  const socket = connect(port, "127.0.0.1");
  socket.on("error", () => {});
  const key = randomBytes(16).toString("base64");
  const head = [
    `GET ${SUBSCRIBE} HTTP/1.1`,
    "Host: bench",
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    `Sec-WebSocket-Key: ${key}`,
    `X-Vault-Token: ${token}`,
  ];
  socket.write(`${head.join("\r\n")}\r\n\r\n`);
  const [answer] = await once(socket, "data", { signal: AbortSignal.timeout(ANSWER_MS) }).catch(() => []);
  if (answer === undefined) {
    socket.destroy();
    return null;
  }
  const [status = ""] = String(answer).split("\r\n");
  if (!status.includes(" 101 ")) throw new Error(`a subscription was answered ${status}`);
  socket.resume();
  return socket;
}
