/**
 * The least that can be taken for cloud-a's secret manager: a separate process that validates nothing, records only arrival
 * times, and answers at once. The doubles of the tests verify every signature and would dominate the measurement.
 */
import { createServer, type Socket } from "node:net";
import { clock } from "./sync-clock.ts";

/** A push by the mark in its value: each secret carries one that changes with every round. */
export type Ask =
  /** Answered once `count` pushes with the mark are complete, each destination and secret counted once. */
  | { readonly kind: "complete"; readonly mark: string; readonly count: number }
  /** Arrival times of the values with the mark, and the double's totals. */
  | { readonly kind: "seen"; readonly mark: string }
  /** From now on each call is answered after `delayMs`. */
  | { readonly kind: "pace"; readonly mark: string; readonly delayMs: number }
  /** From now on calls beyond so many a second are refused as AWS does; 0: none. */
  | { readonly kind: "throttle"; readonly mark: string; readonly perSecond: number };

export interface Seen {
  /** Of each push with the mark: when its value arrived (ms, the machine's monotonic clock). */
  readonly arrivals: readonly number[];
  /** Total number of calls, and the time of the last one. */
  readonly calls: number;
  readonly last: number;
  /** Calls that were throttled. */
  readonly throttled: number;
  /** The sum of the time that calls took, ms: divided by time passed, the calls under way at once. */
  readonly busyMs: number;
  /** CPU seconds that the double itself has used. */
  readonly own: number;
}

const HEAD_END = "\r\n\r\n";
const LENGTH = /\r\ncontent-length: *(\d+)/i;
const TARGET = /\r\nx-amz-target: *secretsmanager\.(\w+)/i;
const KEY = /Credential=(\w+)/;

class Round {
  readonly arrivals = new Map<string, number>();
  readonly complete = new Set<string>();
  wanted = Number.POSITIVE_INFINITY;
  reached: (() => void) | undefined;
}

const rounds = new Map<string, Round>();
let calls = 0;
let last = 0;
let delayMs = 0;
let busyMs = 0;
let throttled = 0;
let perSecond = 0;
/** Calls of the current second that were accepted, and its start. */
let second = { at: 0, taken: 0 };

/** Whether a call is beyond the quota: a bucket that holds one second. */
function isThrottled(): boolean {
  if (perSecond === 0) return false;
  const now = clock();
  const left = Math.max(0, second.taken - ((now - second.at) * perSecond) / 1_000);
  const isFull = left >= perSecond;
  second = { at: now, taken: isFull ? left : left + 1 };
  return isFull;
}

function round(mark: string): Round {
  let found = rounds.get(mark);
  if (!found) {
    found = new Round();
    rounds.set(mark, found);
  }
  return found;
}

/** Takes one call. @returns the body of the answer */
function take(head: string, body: string): string {
  calls++;
  last = clock();
  const operation = TARGET.exec(head)?.[1] ?? "";
  const given = JSON.parse(body) as Record<string, string>;
  const secret = `${KEY.exec(head)?.[1]} ${given["SecretId"] ?? given["Name"]}`;
  if (operation === "TagResource") return "";
  const { mark } = JSON.parse(given["SecretString"] ?? "{}") as { mark?: string };
  if (mark === undefined) return "{}";
  round(mark).arrivals.set(secret, last);
  complete(secret, mark);
  return `{"ARN":"arn","Name":"name","VersionId":"${given["ClientRequestToken"]}"}`;
}

function complete(secret: string, mark: string): void {
  const one = round(mark);
  one.complete.add(secret);
  if (one.complete.size >= one.wanted) one.reached?.();
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
      const [body, began] = [pending.toString("utf8", from, to), clock()];
      pending = pending.subarray(to);
      const reply = () => {
        const isRefused = isThrottled();
        if (isRefused) throttled++;
        const answer = isRefused ? '{"__type":"ThrottlingException"}' : take(head, body);
        busyMs += clock() - began;
        socket.write(
          `HTTP/1.1 ${isRefused ? "400 Bad Request" : "200 OK"}\r\nContent-Type: application/x-amz-json-1.1\r\nContent-Length: ${answer.length}\r\n\r\n${answer}`,
        );
      };
      if (delayMs > 0) setTimeout(reply, delayMs);
      else reply();
    }
  });
}

async function answer(ask: Ask): Promise<Seen> {
  const one = round(ask.mark);
  if (ask.kind === "complete" && one.complete.size < ask.count) {
    one.wanted = ask.count;
    await new Promise<void>((resolve) => {
      one.reached = resolve;
    });
    one.wanted = Number.POSITIVE_INFINITY;
  }
  if (ask.kind === "pace") delayMs = ask.delayMs;
  if (ask.kind === "throttle") perSecond = ask.perSecond;
  const { user, system } = process.cpuUsage();
  return { arrivals: [...one.arrivals.values()], calls, last, throttled, busyMs, own: (user + system) / 1e6 };
}

if (process.send) {
  const server = createServer(serve);
  server.listen(0, "127.0.0.1", () => process.send?.({ port: (server.address() as { port: number }).port }));
  process.on("message", ({ id, ask }: { id: number; ask: Ask }) => {
    void answer(ask).then((seen) => process.send?.({ id, seen }));
  });
  process.on("disconnect", () => process.exit());
}
