/** The process that generates all load of the volumes bench: agents, requests for volumes, and blocking queries. */
import { Connection, wire } from "./connection.ts";
import { ownCpu, quantiles } from "./statistics.ts";
import { connectAgent, connectEcho, enrol, type Identity, type Link } from "./volumes-agents.ts";

interface To {
  readonly side: "ours" | "bare";
  readonly port: number;
  readonly token: string;
}

/** Each connection sends its next request when the last is answered. */
interface Driven {
  readonly connections: number;
  readonly ms: number;
}

export type Job =
  /** Registers agents at the service, with a token that may manage nodes. */
  | ({ readonly kind: "enrol"; readonly agents: number } & To)
  /** Opens as many sockets, each with its own agent. */
  | ({ readonly kind: "connect"; readonly agents: number } & To)
  /** Returns the number of answered pings so far. Fails if a socket is closed. */
  | ({ readonly kind: "pongs" } & To)
  /** Runs operations on agents, at most `most`; `chosen`: on those that the service selects. */
  | ({ readonly kind: "work"; readonly chosen: boolean; readonly most: number | null } & Driven & To)
  /** Requests to any of these paths. */
  | ({ readonly kind: "read"; readonly paths: readonly string[] } & Driven & To)
  /** Sends blocking queries; `release` then makes the change, with this text as the bare Worker's response. */
  | ({ readonly kind: "hold"; readonly queries: number; readonly path: string } & To)
  | ({ readonly kind: "release"; readonly body: string } & To);

export interface Timed {
  readonly count: number;
  readonly seconds: number;
  /** Milliseconds. */
  readonly p50: number;
  readonly p99: number;
  /** CPU seconds of this process itself. */
  readonly own: number;
  /** Of `release`: from when the change was sent, ms. */
  readonly first: number;
  readonly last: number;
}

/** Sockets that are opened at a time. */
const AT_ONCE = 50;
const ENROLLED_AT_ONCE = 16;
/** Agents used in turns, because each accepts a limited rate of frames. */
const ASKED = 100;

const links = { ours: [] as Link[], bare: [] as Link[] };
const identities: Identity[] = [];
let held: { connections: Connection[]; answers: Promise<number>[] } = { connections: [], answers: [] };
let made = 0;

/** Runs `each` for the numbers from 0 on, with bounded concurrency. */
async function lanes(count: number, atOnce: number, each: (number: number) => Promise<void>): Promise<void> {
  let next = 0;
  const lane = async () => {
    while (next < count) await each(next++);
  };
  await Promise.all(Array.from({ length: atOnce }, lane));
}

/** Duration of a run and of its single operations. */
async function timed(work: (took: number[]) => Promise<void>): Promise<Timed> {
  const took: number[] = [];
  const cpu = process.cpuUsage();
  const began = performance.now();
  await work(took);
  const seconds = (performance.now() - began) / 1000;
  const at = quantiles(took);
  const [first, last] = [at(0), at(1)];
  return { count: took.length, seconds, p50: at(0.5), p99: at(0.99), own: ownCpu(cpu), first, last };
}

const connect = ({ side, port, agents }: Extract<Job, { kind: "connect" }>): Promise<Timed> =>
  timed((took) =>
    lanes(agents, AT_ONCE, async (number) => {
      const began = performance.now();
      const identity = identities[number];
      if (side === "ours" && !identity) throw new Error(`agent ${number} has not joined`);
      links[side].push(
        identity && side === "ours" ? await connectAgent(port, identity) : await connectEcho(port, number),
      );
      took.push(performance.now() - began);
    }),
  );

function pongs({ side }: To): number {
  const closed = links[side].find((link) => link.closed !== null);
  if (closed) throw new Error(`${side}: a socket was closed: ${closed.closed}`);
  return links[side].reduce((sum, link) => sum + link.pongs, 0);
}

/** Sends requests until there is none or the time is over. */
const driven = ({ port, connections, ms }: Driven & To, next: () => string | null): Promise<Timed> =>
  timed(async (took) => {
    const open = await Promise.all(Array.from({ length: connections }, () => Connection.open(port)));
    const until = performance.now() + ms;
    const drive = async (connection: Connection) => {
      for (let sent = performance.now(); sent < until; sent = performance.now()) {
        const request = next();
        if (request === null) return;
        await connection.ask(request);
        took.push(performance.now() - sent);
      }
    };
    await Promise.all(open.map(drive));
    for (const connection of open) connection.close();
  });

/** A volume on the next agent's node, or on one that the service selects; of the bare Worker an echo of the same bytes. */
function asked({ side, token, chosen }: Pick<Extract<Job, { kind: "work" }>, "side" | "token" | "chosen">): string {
  const number = made++;
  const { name } = links[side][number % Math.min(ASKED, links[side].length)] ?? { name: "" };
  const node = chosen ? {} : { NodeID: name };
  const body = JSON.stringify({ Volume: { Name: `volume-${number}`, PluginID: "mkdir", ...node } });
  return wire("POST", side === "ours" ? "/v1/volume/host/create" : `/echo/${name}`, token, body);
}

async function hold({ port, token, path, queries }: Extract<Job, { kind: "hold" }>): Promise<void> {
  held = { connections: [], answers: [] };
  await lanes(queries, AT_ONCE, async () => {
    const connection = await Connection.open(port);
    held.connections.push(connection);
    held.answers.push(connection.ask(wire("GET", path, token)).then(() => performance.now()));
  });
}

async function release({ side, port, token, body }: Extract<Job, { kind: "release" }>): Promise<Timed> {
  const changing = await Connection.open(port);
  const answers = Promise.all(held.answers);
  const result = await timed(async (took) => {
    const sent = performance.now();
    const change = side === "ours" ? asked({ side, token, chosen: false }) : wire("POST", "/release", token, body);
    await changing.ask(change);
    took.push(...(await answers).map((at) => at - sent));
  });
  for (const connection of [changing, ...held.connections]) connection.close();
  return result;
}

async function run(job: Job): Promise<Timed | number | null> {
  switch (job.kind) {
    case "enrol":
      await lanes(job.agents, ENROLLED_AT_ONCE, async (number) => {
        identities[number] = await enrol(job.port, job.token, number);
      });
      return null;
    case "connect":
      return connect(job);
    case "pongs":
      return pongs(job);
    case "work": {
      const end = job.most === null ? Number.POSITIVE_INFINITY : made + job.most;
      return driven(job, () => (made < end ? asked(job) : null));
    }
    case "read":
      return driven(job, () => {
        const path = job.paths[Math.floor(Math.random() * job.paths.length)] ?? "";
        return wire("GET", path, job.token);
      });
    case "hold":
      await hold(job);
      return null;
    case "release":
      return release(job);
  }
}

process.on("message", (job: Job) => {
  run(job).then(
    (result) => process.send?.({ result }),
    (failure) => process.send?.({ failure: String(failure) }),
  );
});
process.on("disconnect", () => process.exit());
