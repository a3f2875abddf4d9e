import { randomBytes } from "node:crypto";
import { request as http, type IncomingMessage } from "node:http";
import { request as https } from "node:https";
import type { Duplex } from "node:stream";

/** The part of RFC 6455 that a check needs: an upgrade, and the first short text frame. */

const TEXT = 0x1;
const CLOSE = 0x8;

/** Opens a WebSocket. @throws Error for an answer that is no upgrade */
export function upgraded(url: URL, headers: Readonly<Record<string, string>>, ms: number): Promise<[Duplex, Buffer]> {
  return new Promise((resolve, reject) => {
    const asked = (url.protocol === "https:" ? https : http)(url, {
      headers: {
        ...headers,
        Connection: "Upgrade",
        Upgrade: "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": randomBytes(16).toString("base64"),
      },
      timeout: ms,
    });
    asked.on("timeout", () => asked.destroy(new Error(`no answer to the upgrade in ${ms / 1000} s`)));
    asked.on("error", reject);
    asked.on("response", ({ statusCode }) => {
      asked.destroy();
      reject(new Error(`the upgrade was answered with ${statusCode}`));
    });
    asked.on("upgrade", (_answer: IncomingMessage, socket: Duplex, head: Buffer) => resolve([socket, head]));
    asked.end();
  });
}

/** The first text that the service sends. @throws Error after `ms`, and when the socket ends before */
export async function firstMessage(url: URL, headers: Readonly<Record<string, string>>, ms: number): Promise<string> {
  const [socket, head] = await upgraded(url, headers, ms);
  const timer = setTimeout(() => socket.destroy(new Error(`no message in ${ms / 1000} s`)), ms);
  let held = head;
  try {
    for (let frame = frameIn(held); ; frame = frameIn(held)) {
      if (frame !== null) {
        if (frame.opcode === TEXT) return frame.payload.toString();
        if (frame.opcode === CLOSE) break;
        held = frame.rest;
        continue;
      }
      const { value, done } = await socket.iterator({ destroyOnReturn: false }).next();
      if (done) break;
      held = Buffer.concat([held, value as Buffer]);
    }
    throw new Error("the socket was closed without a message");
  } finally {
    clearTimeout(timer);
    socket.destroy();
  }
}

/** The first whole frame of a server, which is not masked. */
function frameIn(bytes: Buffer): { opcode: number; payload: Buffer; rest: Buffer } | null {
  if (bytes.length < 2) return null;
  const short = bytes.readUInt8(1) & 0x7f;
  const start = short === 126 ? 4 : short === 127 ? 10 : 2;
  if (bytes.length < start) return null;
  const length = short === 126 ? bytes.readUInt16BE(2) : short === 127 ? Number(bytes.readBigUInt64BE(2)) : short;
  if (bytes.length < start + length) return null;
  const opcode = bytes.readUInt8(0) & 0x0f;
  return { opcode, payload: bytes.subarray(start, start + length), rest: bytes.subarray(start + length) };
}
