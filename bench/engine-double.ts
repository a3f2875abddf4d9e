/**
 * The least that can be taken for cloud-b's login, directory and resource manager, for IAM and STS of cloud-a, and for
 * the tokens of cloud-c: a separate process that validates nothing and answers at once or after a set time. The doubles of the tests validate every request and would dominate the measurement.
 */
import { randomUUID } from "node:crypto";
import { createServer, type Socket } from "node:net";
import { clock } from "./sync-clock.ts";

export type Ask =
  /**
   * Delay of each answer from now on, ms; resets the statistics.
   * `perSecond`: removals that are accepted, counted in windows; others are refused with 429 until the window's end
   */
  | { readonly kind: "begin"; readonly delayMs: number; readonly perSecond?: number }
  /** Answered when this many distinct resources were removed since `begin`. */
  | { readonly kind: "removed"; readonly count: number }
  | { readonly kind: "seen" };

export interface Seen {
  /** Distinct resources removed since `begin`, and repeated removals. */
  readonly removed: number;
  readonly repeated: number;
  readonly calls: number;
  /** Times of the first and last call, ms on the machine's monotonic clock. */
  readonly first: number;
  readonly last: number;
  /** CPU seconds that the double itself has used. */
  readonly own: number;
}

const HEAD_END = "\r\n\r\n";
const LENGTH = /\r\ncontent-length: *(\d+)/i;
const END = /"endDateTime":"([^"]+)"/;
const ACTION = /(?:^|&)Action=(\w+)/;
const HOUR_MS = 3_600_000;
const HTTP = {
  ok: "200 OK",
  created: "201 Created",
  empty: "204 No Content",
  throttled: "429 Too Many Requests",
} as const;

/** Length of the windows in which removals are counted. */
const WINDOW_MS = 5_000;

let delayMs = 0;
let perWindow = Number.POSITIVE_INFINITY;
let window = { ends: 0, left: 0 };
let removed = new Set<string>();
let seen = { repeated: 0, calls: 0, first: 0, last: 0 };
let wanted = Number.POSITIVE_INFINITY;
let reached: (() => void) | undefined;

/** Milliseconds until the next removal is accepted; 0 for now. */
function throttled(): number {
  const now = clock();
  if (now >= window.ends) window = { ends: now + WINDOW_MS, left: perWindow };
  window.left -= 1;
  return window.left >= 0 ? 0 : window.ends - now;
}

/** The answer to an action of IAM or STS: a key, which belongs to a session where it has a token. */
function answerOf(action: string): string {
  const key = `<AccessKeyId>AKIA${randomUUID().slice(0, 8)}</AccessKeyId><SecretAccessKey>${randomUUID()}</SecretAccessKey>`;
  const end = new Date(Date.now() + HOUR_MS).toISOString();
  const session = `${key}<SessionToken>token</SessionToken><Expiration>${end}</Expiration>`;
  const arn = "<Arn>arn:aws:sts::123456789012:assumed-role/app/bench</Arn>";
  const result = action === "CreateAccessKey" ? key : `${session}${arn}`;
  return `<${action}Response><${action}Result>${result}</${action}Result></${action}Response>`;
}

/** @returns the response to a call */
function take(method: string, path: string, body: string): [status: string, body: string] {
  if (method === "DELETE") {
    const waitMs = throttled();
    if (waitMs > 0) return [HTTP.throttled, `{"retryAfter":${Math.ceil(waitMs / 1000)}}`];
    if (removed.has(path)) seen.repeated++;
    removed.add(path);
    if (removed.size >= wanted) reached?.();
    return [HTTP.empty, ""];
  }
  const [target = ""] = path.split("?", 1);
  const [, action] = ACTION.exec(body) ?? [];
  if (action !== undefined) return [HTTP.ok, answerOf(action)];
  const say = (status: string, answer: unknown): [string, string] => [status, JSON.stringify(answer)];
  if (target.endsWith("/token"))
    return say(HTTP.ok, { token_type: "Bearer", expires_in: 86_399, access_token: "token" });
  if (target.endsWith(":generateAccessToken")) {
    return say(HTTP.ok, { accessToken: "token", expireTime: new Date(Date.now() + HOUR_MS).toISOString() });
  }
  if (target.includes("/serviceAccounts/")) return say(HTTP.ok, { email: "app@bench.example", projectId: "bench" });
  if (target.endsWith("/addPassword")) {
    const endDateTime = END.exec(body)?.[1];
    return say(HTTP.ok, { keyId: randomUUID(), secretText: `secret-${randomUUID()}`, endDateTime });
  }
  if (target.endsWith("/$ref")) return [HTTP.empty, ""];
  if (method === "PUT") return say(HTTP.created, { id: target });
  if (method === "POST") return say(HTTP.created, { id: randomUUID(), appId: randomUUID(), displayName: "bench" });
  // A role definition's id is a path, a group's a uuid; each reads its own part of this.
  const id = target.includes("/roleDefinitions/") ? target : target.slice(target.lastIndexOf("/") + 1);
  return say(HTTP.ok, { id, displayName: "bench", properties: { roleName: "bench" } });
}

function serve(socket: Socket): void {
  let pending: Buffer = Buffer.alloc(0);
  socket.setNoDelay(true);
  socket.on("error", () => socket.destroy());
  socket.on("data", (bytes: Buffer) => {
    pending = pending.length === 0 ? bytes : Buffer.concat([pending, bytes]);
    for (;;) {
      const end = pending.indexOf(HEAD_END);
      if (end < 0) return;
      const head = pending.toString("latin1", 0, end);
      const from = end + HEAD_END.length;
      const to = from + Number(LENGTH.exec(head)?.[1] ?? 0);
      if (pending.length < to) return;
      const [method = "", path = ""] = head.split(" ", 2);
      const [status, body] = take(method, path, pending.toString("utf8", from, to));
      pending = pending.subarray(to);
      const length = status === HTTP.empty ? "" : `Content-Type: ${typeOf(body)}\r\nContent-Length: ${body.length}\r\n`;
      const retry = status === HTTP.throttled ? `Retry-After: ${/\d+/.exec(body)?.[0]}\r\n` : "";
      answered(() => socket.write(`HTTP/1.1 ${status}\r\n${retry}${length}\r\n${body}`));
    }
  });
}

const typeOf = (body: string): string => (body.startsWith("<") ? "text/xml" : "application/json");

/** Sends a response after its delay. */
function answered(send: () => void): void {
  const now = clock();
  seen = { ...seen, calls: seen.calls + 1, first: seen.calls === 0 ? now : seen.first, last: now };
  if (delayMs === 0) send();
  else setTimeout(send, delayMs);
}

async function answer(ask: Ask): Promise<Seen> {
  if (ask.kind === "begin") {
    delayMs = ask.delayMs;
    perWindow = ((ask.perSecond ?? Number.POSITIVE_INFINITY) * WINDOW_MS) / 1000;
    window = { ends: 0, left: 0 };
    removed = new Set();
    seen = { repeated: 0, calls: 0, first: 0, last: 0 };
  }
  if (ask.kind === "removed" && removed.size < ask.count) {
    wanted = ask.count;
    await new Promise<void>((resolve) => {
      reached = resolve;
    });
    wanted = Number.POSITIVE_INFINITY;
  }
  const { user, system } = process.cpuUsage();
  return { ...seen, removed: removed.size, own: (user + system) / 1e6 };
}

if (process.send) {
  const server = createServer(serve);
  server.listen(0, "127.0.0.1", () => process.send?.({ port: (server.address() as { port: number }).port }));
  process.on("message", ({ id, ask }: { id: number; ask: Ask }) => {
    void answer(ask).then((reply) => process.send?.({ id, seen: reply }));
  });
  process.on("disconnect", () => process.exit());
}
