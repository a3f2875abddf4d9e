/** `npm start`: starts the service on this machine and runs it until it is stopped. */
import { once } from "node:events";
import { existsSync } from "node:fs";
import { createServer, type Server } from "node:net";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { LocalAgent } from "./agents.ts";
import { freeBytes } from "./disk.ts";
import { filesVersion, localFiles } from "./files.ts";
import { GatewayProcess } from "./gateway-process.ts";
import { LocalState } from "./local-state.ts";
import type { Playground } from "./playground.ts";
import { watchStarter } from "./processes.ts";
import { buildWorker, endLeftover, migrate, migrationsVersion, type Runtime } from "./runtime.ts";
import { type Service, seed } from "./seed.ts";
import { type LocalSettings, localSettings, Refusal, workerSettings } from "./settings.ts";
import { Supervisor } from "./supervisor.ts";
import { readTour } from "./tour.ts";

const HOST = "127.0.0.1";
const HEALTH_MS = 30_000;
/** Writes a secret that is pushed to its destination; README has the rest of the tour. */
const STEPS_SHOWN = 2;
const ROOM_TO_START_BYTES = 16 * 1024 * 1024;
const CONSOLE_PAGE = "build/assets/ui/index.html";

const began = performance.now();
const stopping = new AbortController();

try {
  stopWhenAsked();
  const settings = localSettings(process.env);
  workerSettings(process.env);
  await listening(createServer(), settings.port).then((probe) => closed(probe));
  if (!existsSync(CONSOLE_PAGE)) await buildConsole();
  // The providers of a playground have no storage, so the service starts empty, too.
  const state = new LocalState(settings.stateDir, process.env, settings.playground);
  if (process.env["DEV_ROOT_TOKEN"] && process.env["DEV_ROOT_TOKEN"] !== state.rootToken) {
    console.warn(`DEV_ROOT_TOKEN is for a fresh state; the one in ${settings.stateDir} keeps its own root token.`);
  }
  try {
    await run(settings, state);
  } finally {
    state.close();
  }
} catch (failure) {
  if (!stopping.signal.aborted) {
    console.error(failure instanceof Refusal ? failure.message : failure);
    process.exitCode = 1;
  }
}
// Ends open client connections.
process.exit();

async function run(settings: LocalSettings, state: LocalState): Promise<void> {
  const { signal } = stopping;
  const files = localFiles(state.filesDir);
  const isFilled = filesVersion(files) === state.files;
  const agents = Array.from({ length: settings.agents }, (_, at) => new LocalAgent(at + 1, state));
  const gateway = new GatewayProcess(HOST, settings.port);
  let supervisor: Supervisor | undefined;
  let playground: Playground | undefined;
  const baseUrl = `http://${HOST}:${settings.port}`;
  try {
    if (settings.playground) {
      // Its providers are the tests' doubles, whose packages a plain start has not installed.
      const { startPlayground } = await import("./playground.ts");
      playground = await startPlayground(join(settings.stateDir, "providers"), baseUrl);
    }
    await endLeftover(state.runtimeDir);
    state.emptyRuntimeDir();
    refuseFullDisk(settings.stateDir);
    const { dataDir, runtimeDir: builtDir, masterKey: MASTER_KEY, rootToken: DEV_ROOT_TOKEN } = state;
    const given = { ...playground?.settings, ...workerSettings(process.env) };
    const bindings = { ...given, MASTER_KEY, DEV_ROOT_TOKEN };
    supervisor = new Supervisor({ bindings, dataDir, builtDir, log: settings.log });
    const version = migrationsVersion();
    await Promise.all([
      buildWorker({ dir: builtDir, dataDir, ...(isFilled ? {} : { files }) }, signal),
      state.migrations !== version && migrate(dataDir, signal).then(() => state.noteMigrations(version)),
    ]);
    const url = await supervisor.begin(signal);
    state.noteFiles(filesVersion(files));
    await healthy(url, supervisor.runtime, signal);
    // Before the public port opens, so that clients never see a half-seeded service.
    if (settings.seed && state.fresh) {
      for (const dir of ["seeds", ...(playground ? [playground.seeds] : [])])
        await seed({ baseUrl: url, token: state.rootToken }, dir, signal);
    }
    state.noteReady();
    const kept = supervisor.keep(signal, (port) => {
      gateway.upstreamPort = port;
    });
    await gateway.listen().catch((failure) => {
      throw portRefusal(settings.port, failure.message) ?? failure;
    });
    signal.throwIfAborted();
    const service = { baseUrl, token: state.rootToken };
    for (const agent of agents) agent.run(service);
    const nodes = await Promise.all(agents.map((agent) => agent.node(service, signal)));
    console.log(banner(service, settings, nodes, resolve(state.volumesDir)));
    await kept;
  } finally {
    // Before the service stops, so that the agents disconnect cleanly.
    await Promise.all(agents.map((agent) => agent.stop()));
    await gateway.stop();
    await supervisor?.stop();
    await playground?.close();
  }
}

/** `npm start` builds the files before; this script alone finds none in a fresh clone. */
async function buildConsole(): Promise<void> {
  console.warn(`The web console is not built (${CONSOLE_PAGE} is missing): building it.`);
  try {
    const { buildAssets } = await import("./build-assets.ts");
    await buildAssets();
  } catch (failure) {
    console.error("THE WEB CONSOLE COULD NOT BE BUILT, so /ui/ shows only a note:", failure);
  }
}

/** The Worker is built into the state, and objects open their files for writing: both need disk space. */
function refuseFullDisk(dir: string): void {
  const free = freeBytes(dir);
  if (free >= ROOM_TO_START_BYTES) return;
  const [left, needed] = [free, ROOM_TO_START_BYTES].map((bytes) => Math.floor(bytes / 1024));
  throw new Refusal(
    `The disk of ${dir} is full (${left} KiB left, ${needed} needed): make room and start again; no data is lost.`,
  );
}

function stopWhenAsked(): void {
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => stopping.abort());
  // npm may be killed without sending a signal.
  const isStarterThere = watchStarter();
  setInterval(() => {
    if (!isStarterThere()) stopping.abort();
  }, 500).unref();
}

async function listening(server: Server, port: number): Promise<Server> {
  try {
    server.listen(port, HOST);
    await once(server, "listening");
    return server;
  } catch (failure) {
    const code = failure instanceof Error && "code" in failure ? failure.code : undefined;
    throw portRefusal(port, code) ?? failure;
  }
}

function portRefusal(port: number, code: unknown): Refusal | undefined {
  if (code === "EADDRINUSE") {
    return new Refusal(`Port ${port} is in use: stop what listens there, or set PORT to another one.`);
  }
  if (code === "EACCES") return new Refusal(`Port ${port} is not allowed to this user: set PORT to one above 1023.`);
  return undefined;
}

async function closed(server: Server): Promise<void> {
  server.close();
  await once(server, "close");
}

/** Waits until the Worker reports healthy, so that clients never see a half-started service. */
async function healthy(url: string, runtime: Runtime, signal: AbortSignal): Promise<void> {
  const deadline = performance.now() + HEALTH_MS;
  let last = "no answer";
  while (performance.now() < deadline) {
    try {
      const response = await fetch(`${url}/v1/sys/health`, {
        signal: AbortSignal.any([signal, AbortSignal.timeout(5000)]),
      });
      const text = await response.text();
      if (response.ok) return;
      last = `${response.status} ${text}`;
    } catch (failure) {
      if (signal.aborted) throw failure;
      last = String(failure);
    }
    if (runtime.ended) throw new Refusal("The Worker's process ended.");
    await sleep(50, undefined, { signal });
  }
  throw new Refusal(`The Worker did not become healthy in ${HEALTH_MS / 1000} s; its last answer: ${last}`);
}

function banner({ baseUrl, token }: Service, settings: LocalSettings, nodes: string[], volumes: string): string {
  const kept = settings.playground
    ? "a playground begins anew at each start"
    : `the next start finds the data in ${settings.stateDir} again`;
  const steps = readTour()
    .slice(0, STEPS_SHOWN)
    .flatMap(({ title, command }) => ["", `# ${title}`, command]);
  return [
    "",
    `Sallyport is ready (${((performance.now() - began) / 1000).toFixed(1)} s). Ctrl-C stops it; ${kept}.`,
    "",
    `Console:    ${baseUrl}/ui/`,
    `API docs:   ${baseUrl}/docs`,
    `Root token: ${token}`,
    ...nodes.map((node) => `Node:       ${node}`),
    "",
    "Paste this into another terminal:",
    "",
    `export VAULT_ADDR=${baseUrl} VAULT_TOKEN=${token}`,
    `export NOMAD_ADDR=${baseUrl} NOMAD_TOKEN=${token}`,
    `export SALLYPORT_ADDR=${baseUrl} SALLYPORT_TOKEN=${token}`,
    ...(nodes.length > 0 ? [`export VOLUMES=${volumes}`] : []),
    ...(settings.playground
      ? [`export PROVIDERS=${resolve(settings.stateDir, "providers")}  # see docs/guides/sync.md`]
      : []),
    ...steps,
    "",
  ].join("\n");
}
