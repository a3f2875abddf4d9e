import { HttpClient } from "./http-client.ts";
import { error, info, textOf } from "./log.ts";
import { Metrics } from "./metrics.ts";
import { Mirror } from "./mirror.ts";
import { Cluster } from "./nomad.ts";
import { InvalidOptions, type Options, readOptions, USAGE } from "./options.ts";
import { StateDirectory } from "./position.ts";
import { Reporter } from "./reporter.ts";

/** Until SIGTERM or SIGINT; a report on its way is finished. */
async function mirror({ nomad, service, stateDir, metrics: place, ...settings }: Options): Promise<void> {
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
  const copy = new Cluster({ ...service, region: "", namespaces });
  const client = new HttpClient(service.address, { "x-orch-token": service.token }, service.tls);
  const reporter = new Reporter(client, metrics, stopping.signal);
  const state = new StateDirectory(stateDir);
  info("started", { source: settings.source, index: state.position.index, topics: settings.topics.join(" ") });
  await new Mirror({ cluster, mirror: copy, reporter, state, metrics }, settings, stopping.signal).run();
  server?.close();
  server?.closeAllConnections();
  for (const each of [cluster, copy, client]) each.close();
  info("stopped", { index: state.position.index });
}

/** Runs the relay. @returns the exit code */
export async function runRelay(args: readonly string[], env: NodeJS.ProcessEnv): Promise<number> {
  try {
    await mirror(readOptions(args, env));
    return 0;
  } catch (failure) {
    if (failure instanceof InvalidOptions) {
      process.stderr.write(`${failure.message}\n\n${USAGE}`);
      return 2;
    }
    error("failed", { because: textOf(failure) });
    return 1;
  }
}
