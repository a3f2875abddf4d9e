/** Bundles a Worker as a deployment would and serves it on workerd itself, without a development proxy in between. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { fileURLToPath, pathToFileURL } from "node:url";
import { unstable_readConfig } from "wrangler";

export interface Plan {
  readonly name: string;
  /** Path of the wrangler configuration with objects, date and flags. */
  readonly config: string;
  readonly main: string;
  readonly vars: Readonly<Record<string, string>>;
  /** The checkout of the Worker, if it is not that of `BENCH_ROOT`. */
  readonly root?: string | undefined;
}

const QUIET = {
  CLOUDFLARE_CF_FETCH_ENABLED: "false",
  CLOUDFLARE_LOAD_DEV_VARS_FROM_DOT_ENV: "false",
  WRANGLER_HIDE_BANNER: "true",
  WRANGLER_LOG: "error",
  WRANGLER_SEND_METRICS: "false",
  WRANGLER_WRITE_LOGS: "false",
};

/** The runtime that the tests and `npm start` use, too; the package has no types. */
const workerd = (createRequire(import.meta.url)("workerd") as { default: string }).default;

export const TICKS_PER_SECOND = 100;

/** The checkout whose Workers are measured: another one, to compare two versions in turns. */
export const ROOT = (): string => resolve(process.env["BENCH_ROOT"] ?? ".");

export class Server {
  readonly name: string;
  readonly port: number;
  readonly #process: ChildProcess;

  private constructor(name: string, port: number, process: ChildProcess) {
    this.name = name;
    this.port = port;
    this.#process = process;
  }

  /** @param dir an empty directory for the bundle and the data; @param inspector a port for a profiler */
  static async start(plan: Plan, dir: string, inspector?: string): Promise<Server> {
    const code = join(dir, "code");
    const data = join(dir, "data");
    mkdirSync(data, { recursive: true });
    const root = plan.root ?? ROOT();
    const rooted = { ...plan, config: join(root, plan.config), main: join(root, plan.main) };
    await bundle(rooted, code, inspector !== undefined);
    writeFileSync(join(dir, "config.capnp"), capnp(rooted, readdirSync(code), data, await flagsOf(root)));
    return Server.resume(plan.name, dir, inspector);
  }

  /** Serves a directory of `start` again, with its bundle and its data. */
  static async resume(name: string, dir: string, inspector?: string): Promise<Server> {
    const args = ["serve", "--experimental", "--control-fd=3", join(dir, "config.capnp")];
    if (inspector) args.push(`--inspector-addr=${inspector}`);
    const child = spawn(workerd, args, { stdio: ["ignore", "ignore", "inherit", "pipe"] });
    const failed = once(child, "exit").then(() => Promise.reject(new Error(`${name}: workerd ended early`)));
    const port = await Promise.race([listeningPort(child.stdio[3] as Readable), failed]);
    failed.catch(() => undefined);
    return new Server(name, port, child);
  }

  /** CPU seconds used so far, or null if the system does not report it. */
  cpu(): number | null {
    return cpuOf(this.#process);
  }

  /** Bytes of memory in use, or null if the system does not report it. */
  memory(): number | null {
    return memoryOf(this.#process);
  }

  stop(): void {
    this.#process.removeAllListeners("exit");
    this.#process.kill("SIGKILL");
  }

  /** Stops the server; resolves when its process has ended, so that another one can have its data. */
  async stopped(): Promise<void> {
    const ended = once(this.#process, "close");
    this.stop();
    await ended;
  }
}

/** CPU seconds that a process has used so far, or null if the system does not report it. */
export function cpuOf({ pid }: ChildProcess): number | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND;
  } catch {
    return null;
  }
}

/** Bytes of memory that a process uses, or null if the system does not report it. */
export function memoryOf({ pid }: ChildProcess): number | null {
  try {
    const status = readFileSync(`/proc/${pid}/status`, "utf8");
    const kilobytes = /^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1];
    return kilobytes === undefined ? null : Number(kilobytes) * 1024;
  } catch {
    return null;
  }
}

/** @param readable keeps the names of functions, for a profiler */
async function bundle({ name, config, main }: Plan, outdir: string, readable: boolean): Promise<void> {
  const wrangler = fileURLToPath(import.meta.resolve("wrangler"));
  const args = ["deploy", main, "--config", config, "--dry-run", "--outdir", outdir, `--minify=${!readable}`];
  const child = spawn(process.execPath, ["--no-warnings", wrangler, ...args], {
    stdio: ["ignore", "inherit", "inherit"],
    env: { ...process.env, ...QUIET },
  });
  const [code] = await once(child, "exit");
  if (code !== 0) throw new Error(`${name}: the Worker could not be bundled`);
}

/**
 * The same configuration as `wrangler dev` would make, for the bindings that the measured paths use. Databases and queues use
 * the Workers included in workerd.
 */
function capnp(
  { name, config, vars }: Plan,
  files: readonly string[],
  data: string,
  v8Flags: readonly string[],
): string {
  const { compatibility_date, compatibility_flags, durable_objects, d1_databases, queues } = unstable_readConfig({
    config,
  });
  const entry = files.find((file) => file.endsWith(".js"));
  const objects: readonly { name: string; class_name: string }[] = durable_objects.bindings;
  const databases: readonly { binding: string; database_id?: string }[] = d1_databases;
  const producers: readonly { binding: string; queue: string }[] = queues.producers ?? [];
  const consumed: readonly { queue: string; max_batch_size?: number; max_batch_timeout?: number }[] =
    queues.consumers ?? [];
  const props = (value: unknown) => `props = (json = ${text(JSON.stringify(value))})`;
  const bindings = [
    ...objects.map((object) => objectBinding(object.name, object.class_name)),
    ...Object.entries(vars).map(([variable, value]) => `(name = ${text(variable)}, text = ${text(value)})`),
    ...databases.map(({ binding, database_id }) => {
      const fetcher = `(name = "fetcher", service = (name = "d1", ${props({ database: database_id })}))`;
      return `(name = ${text(binding)}, wrapped = (moduleName = "cloudflare-internal:d1-api", innerBindings = [${fetcher}]))`;
    }),
    ...producers.map(
      ({ binding, queue }) => `(name = ${text(binding)}, queue = (name = "queues", ${props({ queue })}))`,
    ),
  ];
  const main = {
    module: `esModule = embed ${text(`code/${entry}`)}`,
    date: compatibility_date ?? "",
    flags: compatibility_flags,
    bindings,
    classes: objects.map(({ class_name }) => class_name),
  };
  const consumers = consumed.map(({ queue, max_batch_size, max_batch_timeout }) => [
    queue,
    { consumer: "MAIN", maxBatchSize: max_batch_size, maxBatchTimeout: max_batch_timeout },
  ]);
  const services = [
    worker(name, "main", main),
    worker(name, "d1", {
      ...bundled("d1"),
      bindings: [objectBinding("DATABASE", "D1Database")],
      classes: ["D1Database"],
    }),
    worker(name, "queues", {
      ...bundled("queues"),
      bindings: [
        objectBinding("SHARD", "QueueShard"),
        '(name = "MAIN", service = "main")',
        `(name = "CONSUMERS", json = ${text(JSON.stringify(Object.fromEntries(consumers)))})`,
      ],
      classes: ["QueueShard"],
    }),
    `(name = "data", disk = (path = ${text(data)}, writable = true))`,
    '(name = "internet", network = (allow = ["private"]))',
  ];
  return `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  v8Flags = ${list(v8Flags.map(text))},
  services = ${list(services)},
  sockets = [(name = "http", address = "127.0.0.1:0", http = (), service = "main")]);
`;
}

/** Flags of the engine, as the service of a checkout passes them; `BENCH_V8_FLAGS` replaces them. */
async function flagsOf(root: string): Promise<string[]> {
  const runtime = pathToFileURL(join(root, "scripts", "runtime.ts")).href;
  const { V8_FLAGS = "" } = (await import(runtime)) as { V8_FLAGS?: string };
  return (process.env["BENCH_V8_FLAGS"] ?? V8_FLAGS).split(" ").filter((flag) => flag !== "");
}

interface Service {
  readonly module: string;
  readonly date: string;
  readonly flags: readonly string[];
  readonly bindings: readonly string[];
  readonly classes: readonly string[];
}

const text = (value: string): string => JSON.stringify(value);
const list = (items: readonly string[]): string => `[${items.join(", ")}]`;

/** A Worker included in workerd. */
const bundled = (name: string): Pick<Service, "module" | "date" | "flags"> => ({
  module: `bundled = ${text(`/workerd/${name}.js`)}`,
  date: "2026-08-04",
  flags: ["service_binding_extra_handlers"],
});

const objectBinding = (name: string, className: string): string =>
  `(name = ${text(name)}, durableObjectNamespace = (className = ${text(className)}))`;

function worker(plan: string, name: string, { module, date, flags, bindings, classes }: Service): string {
  const namespaces = classes.map(
    (one) => `(className = ${text(one)}, uniqueKey = ${text(`${plan}-${one}`)}, enableSql = true)`,
  );
  return `(name = ${text(name)}, worker = (
    modules = [(name = "worker", ${module})],
    compatibilityDate = ${text(date)},
    compatibilityFlags = ${list(flags.map(text))},
    bindings = ${list(bindings)},
    durableObjectNamespaces = ${list(namespaces)},
    durableObjectStorage = (localDisk = "data")))`;
}

async function listeningPort(control: Readable): Promise<number> {
  for await (const line of createInterface({ input: control })) {
    const message = JSON.parse(line) as { event: string; port?: number };
    if (message.event === "listen" && message.port) return message.port;
  }
  throw new Error("workerd reported no port");
}
