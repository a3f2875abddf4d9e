/**
 * Cost of a backup: how long writes are blocked, how long the read takes, the effect on other requests, and the
 * restore.
 */

import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type BareDump, beginSnapshot, dataOf, fill, type Reading, restore, SECRETS } from "./backup-sides.ts";
import type { Deployment } from "./deployment.ts";
import type { Loader } from "./loader.ts";
import { inTurns, type Row, type Slice, sliceOf } from "./rounds.ts";
import type { Server } from "./server.ts";
import { SECRET } from "./sides.ts";
import { type Figure, figure } from "./statistics.ts";

export interface BackupScale {
  readonly rounds: number;
  readonly sliceMs: number;
  /** Numbers of secrets, small and large; `dataOf` has the other amounts. */
  readonly sizes: readonly [few: number, many: number];
}

/** Bytes: before, and at most meanwhile. */
export interface Memory {
  readonly before: number;
  readonly most: number;
}

/** A single operation. */
export interface Done {
  readonly seconds: number;
  /** CPU seconds of the server. */
  readonly cpu: number | null;
  readonly memory: Memory | null;
}

/** The rounds of reading everything. */
export interface Read {
  readonly bytes: number;
  readonly seconds: Figure;
  readonly cpu: Figure | null;
  /** Of all rounds. */
  readonly memory: Memory | null;
}

export interface Backup {
  readonly secrets: number;
  readonly objects: number;
  readonly rows: number;
  /** Milliseconds until the first byte. */
  readonly begun: Figure;
  /** Milliseconds from the first refused to the next accepted write; 0: none was refused. */
  readonly heldUp: { readonly policy: Figure; readonly secret: Figure };
  readonly snapshot: Read;
  readonly bare: Read;
  readonly restore: Done;
  /** The rebuild of the listings. */
  readonly listings: Done;
}

export interface BackupResults {
  readonly sizes: readonly Backup[];
  /** During a snapshot of the larger size, against the time without one. */
  readonly meanwhile: readonly Row[];
}

export const BACKUP_AIM = { memory: 1.3 } as const;

const MEMORY_EVERY_MS = 20;
const LISTED_EVERY_MS = 500;
const LISTED_WITHIN_MS = 600_000;
const PROBED_BEFORE_MS = 100;
const PROBED_AFTER_MS = 300;
const CONNECTIONS = 8;
const QUIET_MS = 500;
/** Of the time that a snapshot takes alone: beside it a slice has to be over before it. */
const SLICE_SHARE = 0.8;

export class BackupBench {
  readonly #dir: string;
  readonly #loader: Loader;
  readonly #deploy: () => Promise<Deployment>;
  readonly #bare: (name: string) => Promise<BareDump>;
  readonly #scale: BackupScale;
  readonly #note: (text: string) => void;

  constructor(
    parts: {
      dir: string;
      loader: Loader;
      deploy: () => Promise<Deployment>;
      bare: (name: string) => Promise<BareDump>;
    },
    scale: BackupScale,
    note: (text: string) => void,
  ) {
    this.#dir = parts.dir;
    this.#loader = parts.loader;
    this.#deploy = parts.deploy;
    this.#bare = parts.bare;
    this.#scale = scale;
    this.#note = note;
  }

  async run(): Promise<BackupResults> {
    const [few, many] = this.#scale.sizes;
    const small = await this.#backup(few);
    small.deployment.server.stop();
    const large = await this.#backup(many);
    const meanwhile = await this.#meanwhile(large.deployment, large.backup);
    return { sizes: [small.backup, large.backup], meanwhile };
  }

  async #backup(secrets: number): Promise<{ backup: Backup; deployment: Deployment }> {
    this.#note(`making ${secrets} secrets and what goes with them`);
    const deployment = await this.#deploy();
    await fill(deployment, secrets);
    const file = join(this.#dir, `snapshot-${secrets}`);
    const firstRead = await this.#reading(deployment.server, () => beginSnapshot(deployment, file));

    const { restored, ...back } = await this.#back(file, secrets);
    this.#note(`a bare Worker with ${restored.rows} rows`);
    const bare = await this.#bare(String(secrets));
    await bare.fill(restored.rows, Math.round(firstRead.bytes / restored.rows));

    const rounds: { ours: Reads; bare: Reads; policy: number; secret: number }[] = [];
    for (let round = 0; round < this.#scale.rounds; round++) {
      this.#note(`snapshot of ${secrets} secrets, round ${round + 1}`);
      const policy = probe(deployment, (n) => ["/v1/sys/policies/acl/probe", { policy: `path "p${n}" { }` }]);
      const secret = probe(deployment, (n) => [`${SECRETS}probe`, { data: { n } }]);
      await sleep(PROBED_BEFORE_MS);
      const ours = await this.#reading(
        deployment.server,
        () => beginSnapshot(deployment, null),
        async () => {
          await sleep(PROBED_AFTER_MS);
          await Promise.all([policy.stop(), secret.stop()]);
        },
      );
      rounds.push({
        ours,
        bare: await this.#reading(bare.server, bare.begin),
        policy: await policy.stop(),
        secret: await secret.stop(),
      });
    }
    bare.server.stop();
    const backup: Backup = {
      secrets,
      objects: restored.objects,
      rows: restored.rows,
      begun: figure(rounds.map(({ ours }) => ours.begun)),
      heldUp: {
        policy: figure(rounds.map(({ policy }) => policy)),
        secret: figure(rounds.map(({ secret }) => secret)),
      },
      snapshot: together(rounds.map(({ ours }) => ours)),
      bare: together(rounds.map((round) => round.bare)),
      ...back,
    };
    return { backup, deployment };
  }

  /** @param meanwhile runs after the objects have resumed */
  async #reading(server: Server, begin: () => Promise<Reading>, meanwhile?: () => Promise<void>): Promise<Reads> {
    let [bytes, begun, seconds] = [0, 0, 0];
    const done = await watched(server, async () => {
      const began = performance.now();
      const reading = await begin();
      begun = reading.begun;
      const read = async () => {
        bytes = await reading.read;
        seconds = (performance.now() - began) / 1000;
      };
      await Promise.all([read(), meanwhile?.()]);
    });
    return { ...done, seconds, bytes, begun };
  }

  async #back(file: string, secrets: number) {
    this.#note(`restoring ${secrets} secrets`);
    const deployment = await this.#deploy();
    let restored = { objects: 0, rows: 0 };
    const restoring = await watched(deployment.server, async () => {
      restored = await restore(deployment, file);
    });
    this.#note("rebuilding the lists");
    const { associations } = dataOf(secrets);
    const listings = await watched(deployment.server, async () => {
      await deployment.ask("POST", "/v1/sys/listings/rebuild", {});
      // Destinations with many associations continue after the answer.
      const deadline = Date.now() + LISTED_WITHIN_MS;
      for (let listed = 0; listed !== associations; ) {
        listed = await listedAssociations(deployment);
        if (Date.now() > deadline) throw new Error(`${listed} of ${associations} associations are listed`);
        await sleep(listed === associations ? 0 : LISTED_EVERY_MS);
      }
    });
    deployment.server.stop();
    return { restored, restore: restoring, listings };
  }

  async #meanwhile(deployment: Deployment, { secrets, snapshot }: Backup): Promise<Row[]> {
    const rows: Row[] = [];
    const ms = Math.min(this.#scale.sliceMs, snapshot.seconds.low * 1000 * SLICE_SHARE);
    const { server, token } = deployment;
    for (const method of ["GET", "PUT"] as const) {
      const name = `${method === "GET" ? "read" : "written"}, ${CONNECTIONS} at a time`;
      this.#note(`secrets ${name} while a snapshot is read`);
      const calm = async (): Promise<Slice> => {
        const before = server.cpu();
        const body = method === "GET" ? "" : SECRET;
        const job = { port: server.port, token, method, path: SECRETS, body, keys: secrets };
        const { requests, ...measured } = await this.#loader.requests({ ...job, connections: CONNECTIONS, ms });
        return sliceOf({ ...measured, count: requests }, before, server.cpu());
      };
      const during = async (): Promise<Slice> => {
        const { read } = await beginSnapshot(deployment, null);
        const slice = await calm();
        await read;
        // Both run in one process: its CPU time covers both.
        return { ...slice, cpu: null };
      };
      await calm();
      rows.push(await inTurns(name, this.#scale.rounds, during, calm));
    }
    return rows;
  }
}

async function listedAssociations({ ask }: Deployment): Promise<number> {
  const list = JSON.parse(await ask("GET", "/v1/sys/sync/associations?list=true", undefined)) as {
    data: { total_associations: number };
  };
  return list.data.total_associations;
}

interface Reads extends Done {
  readonly bytes: number;
  readonly begun: number;
}

function together(rounds: readonly Reads[]): Read {
  const cpu = rounds.flatMap((round) => round.cpu ?? []);
  const memory = rounds.flatMap((round) => round.memory ?? []);
  return {
    bytes: Math.max(...rounds.map(({ bytes }) => bytes)),
    seconds: figure(rounds.map(({ seconds }) => seconds)),
    cpu: cpu.length > 0 ? figure(cpu) : null,
    memory: memory[0] ? { before: memory[0].before, most: Math.max(...memory.map(({ most }) => most)) } : null,
  };
}

/** Runs an operation and measures the server meanwhile. */
async function watched(server: Server, work: () => Promise<void>): Promise<Done> {
  await sleep(QUIET_MS);
  const before = server.memory();
  const cpu = server.cpu();
  let most = before ?? 0;
  const watch = setInterval(() => {
    most = Math.max(most, server.memory() ?? 0);
  }, MEMORY_EVERY_MS);
  const began = performance.now();
  try {
    await work();
  } finally {
    clearInterval(watch);
  }
  const seconds = (performance.now() - began) / 1000;
  const after = server.cpu();
  return {
    seconds,
    cpu: cpu === null || after === null ? null : after - cpu,
    memory: before === null ? null : { before, most },
  };
}

/**
 * Writes continuously, one request after the other.
 * @param write the path and body of each, by its number
 * @returns `stop` ends it, and returns the longest time without an accepted write, ms
 */
function probe({ server, token }: Deployment, write: (number: number) => [path: string, body: unknown]) {
  let goesOn = true;
  let [lastTaken, longest] = [performance.now(), 0];
  const measure = () => {
    longest = Math.max(longest, performance.now() - lastTaken);
  };
  const run = async () => {
    for (let number = 0; goesOn; number++) {
      const [path, body] = write(number);
      const { status } = await drained(
        fetch(`http://127.0.0.1:${server.port}${path}`, {
          method: "PUT",
          headers: { "X-Orch-Token": token },
          body: JSON.stringify(body),
        }),
      );
      if (status === 503) continue;
      if (status >= 300) throw new Error(`PUT ${path}: ${status}`);
      measure();
      lastTaken = performance.now();
    }
    measure();
  };
  const running = run();
  return {
    stop: async (): Promise<number> => {
      goesOn = false;
      await running;
      return longest;
    },
  };
}

async function drained(asked: Promise<Response>): Promise<Response> {
  const response = await asked;
  await response.arrayBuffer();
  return response;
}
