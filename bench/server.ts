/** Bundles a Worker as a deployment would and serves it on workerd itself, without a development proxy in between. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { fileURLToPath } from "node:url";
import { unstable_readConfig } from "wrangler";

export interface Plan {
  readonly name: string;
  /** Path of the wrangler configuration that says which objects, date and flags. */
  readonly config: string;
  readonly main: string;
  readonly vars: Readonly<Record<string, string>>;
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

const TICKS_PER_SECOND = 100;

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
    await bundle(plan, code);
    writeFileSync(join(dir, "config.capnp"), capnp(plan, readdirSync(code), data));
    const args = ["serve", "--experimental", "--control-fd=3", join(dir, "config.capnp")];
    if (inspector) args.push(`--inspector-addr=${inspector}`);
    const child = spawn(workerd, args, { stdio: ["ignore", "inherit", "inherit", "pipe"] });
    const failed = once(child, "exit").then(() => Promise.reject(new Error(`${plan.name}: workerd ended early`)));
    const port = await Promise.race([listeningPort(child.stdio[3] as Readable), failed]);
    failed.catch(() => undefined);
    return new Server(plan.name, port, child);
  }

  /** CPU seconds used so far, or null where the system does not say. */
  cpu(): number | null {
    try {
      const stat = readFileSync(`/proc/${this.#process.pid}/stat`, "utf8");
      const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
      return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND;
    } catch {
      return null;
    }
  }

  stop(): void {
    this.#process.removeAllListeners("exit");
    this.#process.kill("SIGKILL");
  }
}

async function bundle({ name, config, main }: Plan, outdir: string): Promise<void> {
  const wrangler = fileURLToPath(import.meta.resolve("wrangler"));
  const args = ["deploy", main, "--config", config, "--dry-run", "--outdir", outdir];
  const child = spawn(process.execPath, ["--no-warnings", wrangler, ...args], {
    stdio: ["ignore", "inherit", "inherit"],
    env: { ...process.env, ...QUIET },
  });
  const [code] = await once(child, "exit");
  if (code !== 0) throw new Error(`${name}: the Worker could not be bundled`);
}

/** The same configuration as `wrangler dev` would make, for the bindings that the measured paths use. */
function capnp({ name, config, vars }: Plan, files: readonly string[], data: string): string {
  const { compatibility_date, compatibility_flags, durable_objects } = unstable_readConfig({ config });
  const [entry] = files.filter((file) => file.endsWith(".js"));
  const list = (items: readonly string[]) => `[${items.join(", ")}]`;
  const text = (value: string) => JSON.stringify(value);
  const objects: readonly { name: string; class_name: string }[] = durable_objects.bindings;
  const bindings = [
    ...objects.map(
      (object) => `(name = ${text(object.name)}, durableObjectNamespace = (className = ${text(object.class_name)}))`,
    ),
    ...Object.entries(vars).map(([variable, value]) => `(name = ${text(variable)}, text = ${text(value)})`),
  ];
  const classes = objects.map(
    ({ class_name }) =>
      `(className = ${text(class_name)}, uniqueKey = ${text(`${name}-${class_name}`)}, enableSql = true)`,
  );
  return `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    (name = "main", worker = (
      modules = [(name = "worker", esModule = embed ${text(`code/${entry}`)})],
      compatibilityDate = ${text(compatibility_date ?? "")},
      compatibilityFlags = ${list(compatibility_flags.map(text))},
      bindings = ${list(bindings)},
      durableObjectNamespaces = ${list(classes)},
      durableObjectStorage = (localDisk = "data"))),
    (name = "data", disk = (path = ${text(data)}, writable = true)),
    (name = "internet", network = (allow = ["private"]))],
  sockets = [(name = "http", address = "127.0.0.1:0", http = (), service = "main")]);
`;
}

async function listeningPort(control: Readable): Promise<number> {
  for await (const line of createInterface({ input: control })) {
    const message = JSON.parse(line) as { event: string; port?: number };
    if (message.event === "listen" && message.port) return message.port;
  }
  throw new Error("workerd reported no port");
}
