/** Idle subscribers over WebSocket: the memory that each takes, after their objects have hibernated. */
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { bill, DEFAULTS } from "../scripts/cost-model.ts";
import type { Side } from "./sides.ts";

export interface IdleSockets {
  readonly sockets: number;
  /** Processes of the runtime that had them, each with as many as the system's limit of open files allows. */
  readonly runtimes: number;
  /** Bytes of the runtime's memory for each socket; null if the system does not report it. */
  readonly each: number | null;
  /** Sockets that were open at the end. */
  readonly open: number;
  /** Dollars a month on the platform, beyond what the plan includes. */
  readonly monthly: number;
}

const AT_ONCE = 50;
const SUBSCRIBE = "/v1/sys/events/subscribe/kv-v2*?json=true";
/** An answer takes milliseconds, or a second on a busy machine; a runtime without free files gives none. */
const ANSWER_MS = 20_000;
/** Longer than the time after which the runtime lets idle objects hibernate. */
const SETTLE_MS = 15_000;

/** The runtime duplicates the descriptor of a WebSocket. */
const FILES_EACH = 2;
/** Files of the runtime's databases and libraries. */
const FILES_OF_ITS_OWN = 500;
const UNKNOWN_LIMIT = 20_000;

/** How many runtimes a number of sockets needs, by the limit of open files. */
export function runtimesFor(sockets: number): number {
  let limit = UNKNOWN_LIMIT;
  try {
    limit = Number(/^Max open files +(\d+)/m.exec(readFileSync("/proc/self/limits", "utf8"))?.[1] ?? UNKNOWN_LIMIT);
  } catch {
    // Not Linux.
  }
  return Math.ceil(sockets / Math.max(1, Math.floor((limit - FILES_OF_ITS_OWN) / FILES_EACH)));
}

/** Opens the sockets, divided among the runtimes, waits until their objects hibernate, and closes them. */
export async function idleSockets(sides: readonly Side[], wanted: number): Promise<IdleSockets> {
  const opened: Socket[] = [];
  let bytes: number | null = 0;
  try {
    const before = sides.map(({ server }) => server.memory());
    for (const [at, { server, access }] of sides.entries()) {
      const end = Math.round((wanted * (at + 1)) / sides.length);
      while (opened.length < end) {
        const count = Math.min(AT_ONCE, end - opened.length);
        opened.push(...(await Promise.all(Array.from({ length: count }, () => subscribe(server.port, access.token)))));
      }
    }
    await sleep(SETTLE_MS);
    for (const [at, { server }] of sides.entries()) {
      const [was, is] = [before[at] ?? null, server.memory()];
      bytes = bytes === null || was === null || is === null ? null : bytes + is - was;
    }
    return {
      sockets: wanted,
      runtimes: sides.length,
      each: bytes === null ? null : bytes / wanted,
      open: opened.filter(({ readyState }) => readyState === "open").length,
      monthly: bill({ ...DEFAULTS, subscribers: wanted }).total - bill(DEFAULTS).total,
    };
  } finally {
    for (const socket of opened) socket.destroy();
  }
}

/** @throws Error without an answer, or with another one than an upgrade */
async function subscribe(port: number, token: string): Promise<Socket> {
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
  const [answer] = await once(socket, "data", { signal: AbortSignal.timeout(ANSWER_MS) });
  const [status = ""] = String(answer).split("\r\n");
  if (!status.includes(" 101 ")) throw new Error(`a subscription was answered ${status}`);
  socket.resume();
  return socket;
}
