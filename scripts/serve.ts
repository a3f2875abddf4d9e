/** `npm run serve`: runs the service in production on one machine until it is stopped (docs/operate/self-hosted.md). */
import { setTimeout as sleep } from "node:timers/promises";
import { RELEASE } from "../src/platform/version.ts";
import { DirectoryStore } from "./backup-directory.ts";
import { S3Store } from "./backup-s3.ts";
import { Backups, type RunningService } from "./backups.ts";
import { boot, gatewayHeaders, newGatewayKey, portRefusal, tryPort } from "./boot.ts";
import { GatewayProcess } from "./gateway-process.ts";
import { logEvent, printJsonLines } from "./json-lines.ts";
import { LocalState } from "./local-state.ts";
import { watchStarter } from "./processes.ts";
import { type BackupSettings, type ServeSettings, serveEnvironment, serveSettings } from "./serve-settings.ts";
import { Refusal, workerSettings } from "./settings.ts";
import type { Supervisor } from "./supervisor.ts";
import { NO_STORE, trustAuthorities } from "./trusted-cas.ts";

/** A gateway whose parent was killed keeps its port until it notices. */
const PORT_WAIT_MS = 10_000;

const stopping = new AbortController();
printJsonLines();
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => stopping.abort());

try {
  const env = serveEnvironment(process.env);
  const settings = serveSettings(env);
  const bindings = workerSettings(env);
  const isStarterThere = watchStarter();
  setInterval(() => {
    if (!isStarterThere()) stopping.abort();
  }, 500).unref();
  await freePort(settings);
  const state = new LocalState(settings.stateDir, env, "production");
  try {
    await run(settings, state, bindings);
  } finally {
    state.close();
  }
} catch (failure) {
  if (!stopping.signal.aborted) {
    logEvent("error", "start_failed", { message: failure instanceof Refusal ? failure.message : String(failure) });
    process.exitCode = 1;
  }
}
logEvent("info", "stopped");
process.exit();

async function run(settings: ServeSettings, state: LocalState, bindings: Record<string, string>): Promise<void> {
  const { signal } = stopping;
  const { host, port, tls, trustedProxies, trustedCas, drainMs } = settings;
  const trust = trustAuthorities(trustedCas, state.dir);
  if (!trust.hasStore) logEvent("warn", "no_system_authorities", { message: NO_STORE });
  const gatewayKey = newGatewayKey();
  const gateway = new GatewayProcess(host, port, undefined, {
    options: { trustedProxies, drainMs, upstreamKey: gatewayKey },
    tls,
  });
  process.on("SIGHUP", () => gateway.reload());
  let supervisor: Supervisor | undefined;
  let backups: Promise<void> | undefined;
  try {
    const given = { gatewayKey, bindings, trustedCas: trust.authorities };
    const booted = await boot(state, { ...given, log: false, json: true }, signal);
    supervisor = booted.supervisor;
    state.noteReady();
    let url: string | undefined = booted.url;
    const kept = supervisor.keep(signal, (upstream) => {
      gateway.upstreamPort = upstream;
      url = upstream === null ? undefined : `http://127.0.0.1:${upstream}`;
    });
    await gateway.listen().catch((failure) => {
      throw portRefusal(host, port, failure.message) ?? failure;
    });
    state.noteListening({ host: localAddress(host), port, tls: tls !== undefined });
    signal.throwIfAborted();
    logEvent("info", "ready", { release: RELEASE, host, port, tls: tls !== undefined, state: settings.stateDir });
    if (settings.backup) {
      const runtime = () => (url === undefined ? undefined : { url, headers: gatewayHeaders(gatewayKey) });
      backups = backupsOf(settings.backup, runtime).run(signal);
    }
    await kept;
  } finally {
    // Requests under way end while the service still runs.
    await gateway.stop();
    await backups;
    await supervisor?.stop();
  }
}

/** An address of this machine at which a service that listens on `host` answers. */
function localAddress(host: string): string {
  if (host === "0.0.0.0") return "127.0.0.1";
  return host === "::" ? "::1" : host;
}

function backupsOf(settings: BackupSettings, runtime: () => RunningService | undefined): Backups {
  const { to } = settings;
  const store = typeof to === "string" ? new DirectoryStore(to) : new S3Store(to, () => clusterId(runtime()));
  return new Backups(settings, store, runtime);
}

async function clusterId(runtime: RunningService | undefined): Promise<string> {
  if (!runtime) throw new Error("the service is down");
  const { url, headers } = runtime;
  const answer = await fetch(`${url}/v1/sys/health?uninitcode=200&sealedcode=200&standbyok=true`, { headers });
  const { cluster_id: id } = (await answer.json()) as { cluster_id?: string };
  if (!id) throw new Error(`the service does not say its cluster id: ${answer.status}`);
  return id;
}

async function freePort({ host, port }: ServeSettings): Promise<void> {
  for (const end = performance.now() + PORT_WAIT_MS; ; await sleep(100, undefined, { signal: stopping.signal })) {
    try {
      return await tryPort(host, port);
    } catch (failure) {
      if (!(failure instanceof Refusal) || performance.now() > end) throw failure;
    }
  }
}
