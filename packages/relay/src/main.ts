#!/usr/bin/env node
import { HttpClient } from "./http-client.ts";
import { error, info, textOf } from "./log.ts";
import { Metrics } from "./metrics.ts";
import { Mirror } from "./mirror.ts";
import { Cluster } from "./nomad.ts";
import { InvalidOptions, type Options, readOptions, USAGE } from "./options.ts";
import { StateDirectory } from "./position.ts";
import { Reporter } from "./reporter.ts";

/** Runs until SIGTERM or SIGINT; a report on its way is finished. */
async function run({ nomad, service, stateDir, metrics: place, ...settings }: Options): Promise<void> {
  const stopping = new AbortController();
  for (const signal of ["SIGTERM", "SIGINT"])
    process.once(signal, () => {
      info("stopping");
      stopping.abort();
    });
  const metrics = new Metrics();
  const server = place && (await metrics.serve(place.host, place.port));
  const { namespaces } = settings;
  const cluster = new Cluster({ ...nomad, namespaces });
  const mirror = new Cluster({ ...service, region: "", namespaces });
  const client = new HttpClient(service.address, { "x-orch-token": service.token }, service.tls);
  const reporter = new Reporter(client, metrics, stopping.signal);
  const state = new StateDirectory(stateDir);
  info("started", { source: settings.source, index: state.position.index, topics: settings.topics.join(" ") });
  await new Mirror({ cluster, mirror, reporter, state, metrics }, settings, stopping.signal).run();
  server?.close();
  server?.closeAllConnections();
  for (const each of [cluster, mirror, client]) each.close();
  info("stopped", { index: state.position.index });
}

try {
  const args = process.argv.slice(2);
  if (args.includes("--help") || args.includes("-h")) process.stdout.write(USAGE);
  else await run(readOptions(args, process.env));
} catch (failure) {
  if (failure instanceof InvalidOptions) {
    process.stderr.write(`${failure.message}\n\n${USAGE}`);
    process.exitCode = 2;
  } else {
    error("failed", { because: textOf(failure) });
    process.exitCode = 1;
  }
}
