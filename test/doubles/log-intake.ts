import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { gunzipSync } from "node:zlib";

export type IntakeFormat = "generic" | "datadog" | "splunk";

type Line = Record<string, unknown>;

/** Answers to the next requests instead of acceptance. */
export interface IntakeFault {
  readonly status: number;
  readonly body?: string;
  readonly headers?: Record<string, string>;
}

const MAX_BYTES = 5 * 1024 * 1024;
const MAX_ENTRIES = 1_000;
const GUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/**
 * A strict intake of logs over HTTP. It refuses what the services document as wrong, and what they would take in
 * silence: other content types, fields and paths, times that are no times, and lines that are no audit lines.
 */
export class LogIntake {
  url = "";
  readonly lines: Line[] = [];
  /** Reasons of refusals. */
  readonly refusals: string[] = [];
  readonly faults: IntakeFault[] = [];
  requests = 0;
  /** Splunk: how often an acknowledgement is asked for before it comes; null = tokens without acknowledgements. */
  ackAfter: number | null = null;
  readonly #format: IntakeFormat;
  readonly #token: string;
  readonly #pending = new Map<string, { readonly lines: readonly Line[]; left: number }>();
  readonly #server = createServer((request, response) => void this.#serve(request, response));
  #acks = 0;

  constructor(format: IntakeFormat, token: string) {
    this.#format = format;
    this.#token = token;
  }

  async start(at = 0): Promise<void> {
    await new Promise<void>((ready) => this.#server.listen(at, "127.0.0.1", ready));
    const { port } = this.#server.address() as AddressInfo;
    this.url = `http://127.0.0.1:${port}${PATHS[this.#format]}`;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((closed) => this.#server.close(closed));
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    this.requests += 1;
    const fault = this.faults.shift();
    const { status, body, headers } = fault ?? this.#answer(request, Buffer.concat(parts));
    if (status >= 300 && !fault) this.refusals.push(`${status} ${body}`);
    response.writeHead(status, { "Content-Type": "application/json", ...headers }).end(body);
  }

  #answer(request: IncomingMessage, raw: Buffer): IntakeFault {
    const { method, url = "", headers } = request;
    const encoding = headers["content-encoding"];
    if (encoding !== undefined && encoding !== "gzip") return { status: 415, body: "encoding" };
    const text = (encoding === "gzip" ? gunzipSync(raw) : raw).toString();
    if (method !== "POST") return { status: 405, body: "method" };
    if (raw.length > MAX_BYTES || text.length > MAX_BYTES) return { status: 413, body: "too large" };
    const wanted = this.#format === "generic" ? "application/x-ndjson" : "application/json";
    if (headers["content-type"] !== wanted) return { status: 415, body: "content type" };
    const refusal = this.#unauthorized(request);
    if (refusal) return refusal;
    try {
      if (url === PATHS[this.#format]) return this.#take(text, String(headers["x-splunk-request-channel"]));
      if (this.#format === "splunk" && url === ACK_PATH) {
        return this.#acknowledge(text, String(headers["x-splunk-request-channel"]));
      }
    } catch (failure) {
      return { status: 400, body: JSON.stringify({ text: (failure as Error).message, code: 6 }) };
    }
    return { status: 404, body: "path" };
  }

  #unauthorized({ headers }: IncomingMessage): IntakeFault | null {
    if (this.#format === "datadog") return headers["dd-api-key"] === this.#token ? null : { status: 403, body: "key" };
    const scheme = this.#format === "splunk" ? "Splunk" : "Bearer";
    if (headers.authorization === undefined) return { status: 401, body: '{"text":"Token is required","code":2}' };
    if (headers.authorization !== `${scheme} ${this.#token}`) {
      return { status: 403, body: '{"text":"Invalid token","code":4}' };
    }
    if (this.#format === "splunk" && !GUID.test(String(headers["x-splunk-request-channel"]))) {
      return { status: 400, body: '{"text":"Data channel is missing","code":10}' };
    }
    return null;
  }

  #take(text: string, channel: string): IntakeFault {
    const lines = READERS[this.#format](text);
    if (lines.length === 0) throw new Error("No data");
    if (lines.length > MAX_ENTRIES) throw new Error("too many entries");
    for (const { level, kind, time } of lines) {
      if (level !== "audit" || typeof kind !== "string" || Number.isNaN(Date.parse(String(time)))) {
        throw new Error("not a line of the audit log");
      }
    }
    if (this.ackAfter !== null) {
      const ackId = this.#acks++;
      this.#pending.set(`${channel} ${ackId}`, { lines, left: this.ackAfter });
      return { status: 200, body: JSON.stringify({ text: "Success", code: 0, ackId }) };
    }
    this.lines.push(...lines);
    if (this.#format === "splunk") return { status: 200, body: '{"text":"Success","code":0}' };
    return { status: this.#format === "datadog" ? 202 : 200, body: "{}" };
  }

  #acknowledge(text: string, channel: string): IntakeFault {
    if (this.ackAfter === null) return { status: 400, body: '{"text":"ACK is disabled","code":14}' };
    const acks: Record<string, boolean> = {};
    for (const id of (JSON.parse(text) as { acks: number[] }).acks) {
      const pending = this.#pending.get(`${channel} ${id}`);
      acks[id] = pending !== undefined && pending.left-- <= 0;
      if (!acks[id] || !pending) continue;
      this.lines.push(...pending.lines);
      // A status is told once.
      this.#pending.delete(`${channel} ${id}`);
    }
    return { status: 200, body: JSON.stringify({ acks }) };
  }
}

const ACK_PATH = "/services/collector/ack";
const PATHS: Readonly<Record<IntakeFormat, string>> = {
  generic: "/lines",
  datadog: "/api/v2/logs",
  splunk: "/services/collector/event",
};

function only(entry: Line, fields: readonly string[]): void {
  const keys = Object.keys(entry).sort();
  if (keys.join() !== fields.toSorted().join()) throw new Error(`fields ${keys.join()}`);
}

function sameTime(line: Line, ms: unknown): Line {
  if (typeof ms !== "number" || ms !== Date.parse(String(line["time"]))) throw new Error("time");
  return line;
}

const READERS: Readonly<Record<IntakeFormat, (text: string) => Line[]>> = {
  generic: (text) => {
    if (!text.endsWith("\n")) throw new Error("the last line has no end");
    return text
      .slice(0, -1)
      .split("\n")
      .map((line) => JSON.parse(line));
  },
  datadog: (text) => {
    const entries: unknown = JSON.parse(text);
    if (!Array.isArray(entries)) throw new Error("not an array");
    return entries.map((entry: Line) => {
      only(entry, ["ddsource", "service", "timestamp", "message"]);
      return sameTime(JSON.parse(String(entry["message"])), entry["timestamp"]);
    });
  },
  splunk: (text) =>
    text.split("\n").map((each) => {
      const entry: Line = JSON.parse(each);
      only(entry, ["time", "source", "sourcetype", "event"]);
      if (entry["sourcetype"] !== "_json") throw new Error("source type");
      return sameTime(entry["event"] as Line, Math.round(Number(entry["time"]) * 1_000));
    }),
};
