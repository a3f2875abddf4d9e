/**
 * Memory of the service: for each object, stream, session and waiting query, and over minutes of mixed load; then a start on
 * a gigabyte of state. There is no bare side: what is asked is whether memory stays where it is.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { Connection, wire } from "./connection.ts";
import type { Loader } from "./loader.ts";
import { Server } from "./server.ts";
import { quantiles } from "./statistics.ts";
import { type ClusterService, fillCluster, type Load } from "./volumes-sides.ts";

export interface SoakScale {
  readonly minutes: number;
  /** Mounts, streams, agents and blocking queries whose memory is measured. */
  readonly each: number;
  /** Bytes of secrets at the start on much state. */
  readonly stateBytes: number;
}

/** Memory of one more of a kind, in bytes. */
export interface Each {
  readonly what: string;
  readonly count: number;
  readonly bytes: number;
}

/** A part of the soak. */
export interface Span {
  readonly operations: number;
  /** Until all streams have received the events of the operations. */
  readonly seconds: number;
  /** How much of that after the last operation. */
  readonly lag: number;
  /** Bytes of the whole process: the median and the most. */
  readonly median: number;
  readonly most: number;
}

export interface Start {
  readonly stateBytes: number;
  /** Milliseconds from the start of the process. */
  readonly listens: number;
  readonly firstRead: number;
  readonly firstList: number;
}

export interface SoakResults {
  readonly each: readonly Each[];
  readonly spans: readonly Span[];
  readonly start: Start;
}

export const SOAK_AIM = { growth: 1.1, startMs: 3_000 } as const;

const SPANS = 6;
const LANES = 6;
const SAMPLE_MS = 1_000;
const SETTLE_MS = 3_000;
const SETTLED_MS = 60_000;
/** A change of memory that counts as none. */
const STEADY = 0.001;
const STREAMS = "soak";
const KEYS = 500;
const POLICIES = 20;
const SECRET_BYTES = 100_000;
const SECRETS_AT_ONCE = 200;
const ROWS = 10_000;
/** No table has such an index, so the query waits to its end. */
const NEVER = 1_000_000_000;
const SECRET = JSON.stringify({ data: { password: "0123456789abcdef0123456789abcdef" } });
const POLICY = JSON.stringify({ policy: 'path "soak/*" { capabilities = ["read"] }' });

export class SoakBench {
  readonly #loader: Loader;
  readonly #load: Load;
  readonly #service: ClusterService;
  readonly #dir: string;
  readonly #scale: SoakScale;
  readonly #note: (text: string) => void;
  #operations = 0;
  #hasNodes = false;

  /** @param parts `dir` is that of the service */
  constructor(
    parts: { loader: Loader; load: Load; service: ClusterService; dir: string },
    scale: SoakScale,
    note: (text: string) => void,
  ) {
    this.#loader = parts.loader;
    this.#load = parts.load;
    this.#service = parts.service;
    this.#dir = parts.dir;
    this.#scale = scale;
    this.#note = note;
  }

  async run(): Promise<SoakResults> {
    await this.#service.ask("PUT", "/v1/sys/mounts/soak", { type: "kv", options: { version: "2" } });
    // Code that runs for the first time would count as memory of what runs it.
    await this.#mixed(performance.now() + SETTLE_MS);
    const each = await this.#each();
    return { each, spans: await this.#soak(), start: await this.#start() };
  }

  // ---- memory for each ----

  async #each(): Promise<Each[]> {
    const { server, root, ask } = this.#service;
    const { each: count } = this.#scale;
    const mount = async (number: number) => {
      await ask("PUT", `/v1/sys/mounts/m${number}`, { type: "kv", options: { version: "2" } });
      await ask("PUT", `/v1/m${number}/data/one`, JSON.parse(SECRET));
    };
    const stream = {
      group: STREAMS,
      port: server.port,
      token: root,
      path: "/v1/event/stream?index=-1",
      streams: count,
    };
    return [
      await this.#grown("a mount of secrets, one object", async () => {
        for (let number = 0; number < count; number++) await mount(number);
      }),
      await this.#grown("a stream that is idle", () => this.#loader.open(stream)),
      await this.#grown("a session of an agent, one object", async () => {
        await this.#load.enrol(this.#service, count);
        await this.#load.connect(this.#service, count);
        this.#hasNodes = true;
      }),
      await this.#grown("a query that waits", () =>
        this.#load.hold(this.#service, { queries: count, path: `/v1/volumes?type=csi&wait=10m&index=${NEVER}` }),
      ),
    ];
  }

  async #grown(what: string, add: () => Promise<unknown>): Promise<Each> {
    const { each: count } = this.#scale;
    this.#note(`${count} more: ${what}`);
    const before = await this.#settled();
    await add();
    return { what, count, bytes: ((await this.#settled()) - before) / count };
  }

  /** The memory once it stays: what the step before has released would count as less of this one. */
  async #settled(): Promise<number> {
    const memory = () => this.#service.server.memory() ?? Number.NaN;
    let before = memory();
    for (const until = performance.now() + SETTLED_MS; performance.now() < until; ) {
      await sleep(SETTLE_MS);
      const now = memory();
      if (!(Math.abs(now - before) > STEADY * before)) break;
      before = now;
    }
    return memory();
  }

  // ---- mixed load ----

  async #soak(): Promise<Span[]> {
    const spans: Span[] = [];
    const ms = (this.#scale.minutes * 60_000) / SPANS;
    for (let span = 0; span < SPANS; span++) {
      this.#note(`soak, part ${span + 1} of ${SPANS}`);
      const before = this.#operations;
      const sizes: number[] = [];
      const sampling = setInterval(() => sizes.push(this.#service.server.memory() ?? Number.NaN), SAMPLE_MS);
      const began = performance.now();
      await this.#mixed(began + ms);
      const done = performance.now();
      await this.#delivered(`soak-part-${span}`);
      const [seconds, lag] = [began, done].map((from) => (performance.now() - from) / 1000) as [number, number];
      clearInterval(sampling);
      const at = quantiles(sizes);
      spans.push({ operations: this.#operations - before, seconds, lag, median: at(0.5), most: at(1) });
    }
    return spans;
  }

  /** Waits until all streams have received the events so far: answers do not wait for them, so streams may lag. */
  async #delivered(policy: string): Promise<void> {
    await this.#loader.seek({ group: STREAMS, text: `"${policy}"` });
    await this.#service.ask("PUT", `/v1/sys/policies/acl/${policy}`, JSON.parse(POLICY));
    await this.#loader.found({ group: STREAMS });
  }

  /** Reads and writes of secrets, policies, tokens that are revoked again, and volumes that are deleted again. */
  async #mixed(until: number): Promise<void> {
    const lane = async (number: number) => {
      const connection = await Connection.open(this.#service.server.port);
      for (let round = number; performance.now() < until; round += LANES) {
        await this.#round(connection, round);
        this.#operations += 1;
      }
      connection.close();
    };
    await Promise.all(Array.from({ length: LANES }, (_, number) => lane(number)));
  }

  async #round(connection: Connection, round: number): Promise<void> {
    const { root } = this.#service;
    const ask = (method: string, path: string, body?: string, token = root) =>
      connection.ask(wire(method, path, token, body));
    const key = `/v1/soak/data/k${round % KEYS}`;
    await ask("PUT", key, SECRET);
    await ask("GET", key);
    await ask("PUT", `/v1/sys/policies/acl/soak-${round % POLICIES}`, POLICY);
    const created = await ask("PUT", "/v1/auth/token/create", '{"policies":["default"],"ttl":"1m"}');
    const { auth } = JSON.parse(String(created)) as { auth: { client_token: string } };
    await ask("PUT", "/v1/auth/token/revoke-self", "{}", auth.client_token);
    if (!this.#hasNodes) return;
    const asked = JSON.stringify({ Volume: { Name: `soak-${round}`, PluginID: "mkdir" } });
    const { Volume } = JSON.parse(String(await ask("PUT", "/v1/volume/host/create", asked))) as {
      Volume: { ID: string };
    };
    await ask("DELETE", `/v1/volume/host/${Volume.ID}`);
  }

  // ---- a start on much state ----

  async #start(): Promise<Start> {
    const { stateBytes } = this.#scale;
    const { ask, root, server } = this.#service;
    this.#note(`writing ${stateBytes} bytes of secrets`);
    const { data: mounts } = JSON.parse(await ask("GET", "/v1/sys/mounts", undefined)) as {
      data: Record<string, { uuid: string }>;
    };
    const secrets = Math.ceil(stateBytes / SECRET_BYTES);
    const data = JSON.stringify({ text: "x".repeat(SECRET_BYTES) });
    for (let from = 0; from < secrets; from += SECRETS_AT_ONCE) {
      const to = Math.min(secrets, from + SECRETS_AT_ONCE);
      await ask("POST", "/bench/secrets", { uuid: mounts["soak/"]?.uuid, from, to, data, watchers: [] });
    }
    await fillCluster(this.#service, ROWS);
    // Their connections would fail with the server.
    for (const process of [this.#load, this.#loader]) process.stop();
    await server.stopped();
    const began = performance.now();
    const since = () => performance.now() - began;
    const again = await Server.resume(server.name, this.#dir);
    try {
      const listens = since();
      const connection = await Connection.open(again.port);
      await connection.ask(wire("GET", "/v1/soak/data/app/k000000", root));
      const firstRead = since();
      await connection.ask(wire("GET", "/v1/volumes?type=host&per_page=100", root));
      const firstList = since();
      connection.close();
      return { stateBytes, listens, firstRead, firstList };
    } finally {
      again.stop();
    }
  }
}
