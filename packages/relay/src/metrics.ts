import { createServer, type Server } from "node:http";

/** Counters and gauges of the relay, in the text format of Prometheus, on a loopback address. */

const HELP = {
  lines_total: ["counter", "Lines of the stream that were mirrored"],
  events_total: ["counter", "Events that were reported"],
  reports_total: ["counter", "Requests that the service accepted"],
  repeated_total: ["counter", "Reports that the service had applied before"],
  refused_events_total: ["counter", "Events that the service refused, which are not mirrored"],
  retries_total: ["counter", "Requests to the service that are repeated"],
  connections_total: ["counter", "Streams that were opened"],
  resyncs_total: ["counter", "Comparisons of all objects after a start or a gap"],
  reconciliations_total: ["counter", "Searches for objects that were deleted without an event"],
  missed_total: ["counter", "Changes that comparisons found and the stream did not have"],
  removed_total: ["counter", "Objects removed because the cluster has them no more"],
  connected: ["gauge", "1 while the stream is open"],
  index: ["gauge", "Index up to which the cluster is mirrored"],
  newest_index: ["gauge", "Newest index received from the cluster"],
  held_bytes: ["gauge", "Bytes of lines that wait for the service"],
  last_report_seconds: ["gauge", "Time of the last accepted report, in seconds since 1970"],
} as const;
type Metric = keyof typeof HELP;

export class Metrics {
  readonly #values = new Map<Metric, number>();

  add(name: Metric, count = 1): void {
    this.#values.set(name, this.of(name) + count);
  }

  set(name: Metric, value: number): void {
    this.#values.set(name, value);
  }

  of(name: Metric): number {
    return this.#values.get(name) ?? 0;
  }

  text(): string {
    return (Object.keys(HELP) as Metric[])
      .map((name) => {
        const [type, help] = HELP[name];
        const full = `sallyport_relay_${name}`;
        return `# HELP ${full} ${help}.\n# TYPE ${full} ${type}\n${full} ${this.of(name)}\n`;
      })
      .join("");
  }

  /** Serves `/metrics` and `/health`, which is 503 while the stream is closed. */
  serve(host: string, port: number): Promise<Server> {
    const server = createServer((request, response) => {
      if (request.url === "/metrics") {
        response.setHeader("content-type", "text/plain; version=0.0.4");
        response.end(this.text());
      } else if (request.url === "/health") {
        response.statusCode = this.of("connected") === 1 ? 200 : 503;
        response.end(response.statusCode === 200 ? "ok\n" : "the stream of the cluster is closed\n");
      } else {
        response.statusCode = 404;
        response.end();
      }
    });
    return new Promise((resolve, reject) => {
      server.once("error", reject).listen(port, host, () => resolve(server));
    });
  }
}
