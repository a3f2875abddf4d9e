/** Sides of the sync bench: the service with its destinations, the bare loop, and the stand-in that both push to. */
import { type ChildProcess, fork } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Ask, asker, startDeployment } from "./deployment.ts";
import { Server } from "./server.ts";
import type { Seen, Ask as ToDouble } from "./sync-double.ts";

export const DESTINATIONS = 8;
/** As many calls at a time as the service makes for one destination. */
const PUSHES_AT_ONCE = 6;

/** The stand-in as the bench sees it. */
export class Double {
  readonly port: number;
  readonly #child: ChildProcess;
  readonly #waiting = new Map<number, (seen: Seen) => void>();
  #next = 0;

  private constructor(child: ChildProcess, port: number) {
    this.#child = child;
    this.port = port;
    child.on("message", ({ id, seen }: { id: number; seen: Seen }) => {
      this.#waiting.get(id)?.(seen);
      this.#waiting.delete(id);
    });
  }

  /** Settings of the service that lead its calls here. */
  get settings(): Readonly<Record<string, string>> {
    return { CLOUD_A_SM_URL: `http://127.0.0.1:${this.port}/` };
  }

  static async start(): Promise<Double> {
    const child = fork(fileURLToPath(import.meta.resolve("./sync-double.ts")), []);
    const [{ port }] = (await once(child, "message")) as [{ port: number }];
    return new Double(child, port);
  }

  /** Resolves when this many pushes with the mark are complete. */
  complete(mark: string, count: number): Promise<Seen> {
    return this.#ask({ kind: "complete", mark, count });
  }

  seen(mark: string): Promise<Seen> {
    return this.#ask({ kind: "seen", mark });
  }

  /** Answers each call after this long. */
  async pace(delayMs: number): Promise<void> {
    await this.#ask({ kind: "pace", mark: "", delayMs });
  }

  /** Refuses calls beyond so many a second. */
  async throttle(perSecond: number): Promise<void> {
    await this.#ask({ kind: "throttle", mark: "", perSecond });
  }

  stop(): void {
    this.#child.kill("SIGKILL");
  }

  #ask(ask: ToDouble): Promise<Seen> {
    const id = this.#next++;
    return new Promise((resolve) => {
      this.#waiting.set(id, resolve);
      this.#child.send({ id, ask });
    });
  }
}

export interface Service {
  readonly server: Server;
  readonly token: string;
  readonly ask: Ask;
  readonly pause: (disabled: boolean) => Promise<void>;
  /** Makes destinations under a prefix. @returns their names */
  readonly destinations: (prefix: string, count?: number) => Promise<string[]>;
  /** Associates the secrets from one number to another with the destinations, past the API's rights. */
  readonly associate: (destinations: readonly string[], from: number, to: number, prefix: string) => Promise<void>;
}

/** The path that secrets are written to; a key's name follows. */
export const SECRETS = "/v1/kv/data/";

/** The value of every secret of one round. */
export const secretOf = (mark: string): Record<string, string> => ({
  mark,
  username: "app",
  password: "0123456789abcdef0123456789abcdef",
  url: "postgres://db.internal.example:5432/app",
});

const accessKey = (number: number): string => `AKIABENCH${String(number).padStart(7, "0")}`;

/**
 * @param settings lead the service's calls to a double
 * @param isPaced keeps the pace of the provider's quotas
 * @param root see `Plan`
 */
export async function startService(
  dir: string,
  settings: Readonly<Record<string, string>>,
  isPaced = false,
  root?: string,
): Promise<Service> {
  const vars = { ...settings, ...(isPaced && { BENCH_PACED: "1" }) };
  const inspector = process.env["BENCH_INSPECTOR"];
  const { server, token, ask } = await startDeployment(join(dir, "sync-ours"), { vars, inspector, root });
  await ask("PUT", "/v1/sys/mounts/kv", { type: "kv", options: { version: "2" } });
  const mounts = JSON.parse(await ask("GET", "/v1/sys/mounts", undefined)) as {
    data: Record<string, { uuid: string; accessor: string }>;
  };
  const mount = mounts.data["kv/"];
  let made = 0;
  return {
    server,
    token,
    ask,
    pause: async (disabled) => {
      await ask("PATCH", "/v1/sys/sync/config", { disabled });
    },
    destinations: async (prefix, count = DESTINATIONS) => {
      const names = Array.from({ length: count }, (_, number) => `${prefix}-${number}`);
      for (const name of names) {
        await ask("PUT", `/v1/sys/sync/destinations/cloud-a-sm/${name}`, {
          access_key_id: accessKey(made++),
          secret_access_key: randomBytes(20).toString("hex"),
          region: "eu-west-1",
        });
      }
      return names;
    },
    associate: async (destinations, from, to, prefix) => {
      await ask("POST", "/bench/associate", { destinations, mount, prefix, from, to });
    },
  };
}

/** A Worker that signs and sends the same requests in a loop, and nothing else. */
export interface Loop {
  readonly server: Server;
  /** Pushes a number of secrets to each destination, `atOnce` of each destination at a time. */
  readonly push: (mark: string, secrets: number, atOnce?: number) => Promise<void>;
}

export async function startLoop(dir: string, double: Double): Promise<Loop> {
  const plan = { name: "bare", config: "bench/bare/wrangler.toml", main: "bench/bare/worker.mts", vars: {} };
  const server = await Server.start(plan, join(dir, "sync-bare"));
  const ask = asker(server, "none");
  const keys = Array.from({ length: DESTINATIONS }, (_, number) => ({
    accessKeyId: `AKIABARE${String(number).padStart(8, "0")}`,
    secretAccessKey: randomBytes(20).toString("hex"),
  }));
  return {
    server,
    push: async (mark, secrets, atOnce = PUSHES_AT_ONCE) => {
      const url = `http://127.0.0.1:${double.port}/`;
      await ask("POST", "/pushes", { url, keys, secrets, atOnce, value: JSON.stringify(secretOf(mark)) });
    },
  };
}
