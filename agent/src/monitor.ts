import { createServer, type Server } from "node:http";
import { error, textOf } from "./log.ts";

/** One metric family with its samples, by labels. */
export interface Family {
  readonly name: string;
  readonly type: "counter" | "gauge";
  readonly help: string;
  readonly samples: readonly Sample[];
}
type Sample = readonly [labels: Readonly<Record<string, string>>, value: number];

interface Monitored {
  /** Why the agent does no work now; undefined when it does. */
  readonly problem: () => string | undefined;
  readonly families: () => readonly Family[];
}

const PREFIX = "sallyport_agent_";

/** Serves `/health` and `/metrics` (text format of Prometheus) on a loopback address. Costs nothing between requests. */
export class Monitor {
  readonly #monitored: Monitored;
  #address: string | undefined;
  #server: Server | undefined;

  constructor(monitored: Monitored) {
    this.#monitored = monitored;
  }

  /**
   * Serves at this address from now on; undefined: nowhere. An address that is taken is logged and does not stop the
   * agent.
   */
  listen(address: string | undefined): void {
    if (address === this.#address && this.#server?.listening) return;
    this.close();
    this.#address = address;
    if (address === undefined) return;
    const { hostname, port } = new URL(`http://${address}`);
    const server = createServer((request, response) => {
      const [status, type, text] = this.#answer(request.url);
      response.writeHead(status, { "content-type": type }).end(text);
    });
    server.on("error", (failure) => error("monitor_failed", { address, message: textOf(failure) }));
    server.listen(Number(port || 80), hostname.replace(/^\[|\]$/g, ""));
    server.unref();
    this.#server = server;
  }

  close(): void {
    this.#server?.close();
    this.#server?.closeAllConnections();
    this.#server = undefined;
  }

  #answer(path: string | undefined): [status: number, type: string, text: string] {
    if (path === "/metrics") return [200, "text/plain; version=0.0.4", textOfFamilies(this.#monitored.families())];
    if (path !== "/health") return [404, "text/plain", "/health or /metrics\n"];
    const problem = this.#monitored.problem();
    return problem === undefined ? [200, "text/plain", "ok\n"] : [503, "text/plain", `${problem}\n`];
  }
}

/** Facts of this process, as every client library of Prometheus reports them. */
export function processFamilies(): Family[] {
  const { user, system } = process.cpuUsage();
  return [
    family("process_cpu_seconds_total", "counter", "CPU time of the agent", [[{}, (user + system) / 1e6]]),
    family("process_resident_memory_bytes", "gauge", "Memory of the agent", [[{}, process.memoryUsage.rss()]]),
    family("process_start_time_seconds", "gauge", "Start of the agent since 1970", [
      [{}, Math.round(performance.timeOrigin / 1000)],
    ]),
  ];
}

export const family = (name: string, type: Family["type"], help: string, samples: readonly Sample[]): Family => ({
  name: name.startsWith("process_") ? name : PREFIX + name,
  type,
  help,
  samples,
});

const textOfFamilies = (families: readonly Family[]): string =>
  families
    .map(({ name, type, help, samples }) =>
      [`# HELP ${name} ${help}.`, `# TYPE ${name} ${type}`, ...samples.map((sample) => lineOf(name, sample)), ""].join(
        "\n",
      ),
    )
    .join("");

function lineOf(name: string, [labels, value]: Sample): string {
  const pairs = Object.entries(labels).map(([label, text]) => `${label}="${escaped(text)}"`);
  return `${name}${pairs.length > 0 ? `{${pairs.join(",")}}` : ""} ${value}`;
}

const escaped = (text: string) => text.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");
