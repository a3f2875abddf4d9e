/** `npm start`: starts the service on this machine and runs it until it is stopped. */
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { LocalAgent } from "./agents.ts";
import { boot, gatewayHeaders, newGatewayKey, portRefusal, tryPort } from "./boot.ts";
import { GatewayProcess } from "./gateway-process.ts";
import { LocalState, noteOnToken, shellWord } from "./local-state.ts";
import type { Playground } from "./playground.ts";
import { watchStarter } from "./processes.ts";
import { type Service, seed } from "./seed.ts";
import { type LocalSettings, localSettings, Refusal, workerSettings } from "./settings.ts";
import type { Supervisor } from "./supervisor.ts";
import { readTour } from "./tour.ts";
import { NO_STORE, trustAuthorities } from "./trusted-cas.ts";

const HOST = "127.0.0.1";
/** Issuers, clusters and receivers on this machine may be tried, as may the playground's. */
const LOCAL_HOSTS = "127.0.0.1 localhost [::1]";
/** Writes a secret that is pushed to its destination; README has the rest of the tour. */
const STEPS_SHOWN = 2;
const CONSOLE_PAGE = "build/assets/ui/index.html";

const began = performance.now();
const stopping = new AbortController();

try {
  stopWhenAsked();
  const settings = localSettings(process.env);
  workerSettings(process.env);
  await tryPort(HOST, settings.port);
  if (!existsSync(CONSOLE_PAGE)) await buildConsole();
  // The providers of a playground have no storage, so the service starts empty, too.
  const state = new LocalState(settings.stateDir, process.env, settings.playground ? "playground" : "development");
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
  const agents = Array.from({ length: settings.agents }, (_, at) => new LocalAgent(at + 1, state));
  const gatewayKey = newGatewayKey();
  const gateway = new GatewayProcess(HOST, settings.port, undefined, { options: { upstreamKey: gatewayKey } });
  let supervisor: Supervisor | undefined;
  let playground: Playground | undefined;
  const baseUrl = `http://${HOST}:${settings.port}`;
  try {
    if (settings.playground) {
      // Its providers are the tests' doubles, whose packages a plain start has not installed.
      const { startPlayground } = await import("./playground.ts");
      playground = await startPlayground(join(settings.stateDir, "providers"), baseUrl);
    }
    const { masterKey: MASTER_KEY, rootToken: DEV_ROOT_TOKEN } = state;
    const given = { PRIVATE_HOSTS: LOCAL_HOSTS, ...playground?.settings, ...workerSettings(process.env) };
    const bindings = { ...given, MASTER_KEY, DEV_ROOT_TOKEN };
    const { authorities: trustedCas, hasStore } = trustAuthorities([], state.dir);
    if (!hasStore) console.warn(NO_STORE);
    const booted = await boot(state, { gatewayKey, bindings, trustedCas, log: settings.log }, signal);
    supervisor = booted.supervisor;
    const { url } = booted;
    // Before the public port opens, so that clients never see a half-seeded service.
    if (settings.seed && state.fresh) {
      for (const dir of ["seeds", ...(playground ? [playground.seeds] : [])])
        await seed({ baseUrl: url, token: state.rootToken, headers: gatewayHeaders(gatewayKey) }, dir, signal);
    }
    state.noteReady();
    const kept = supervisor.keep(signal, (port) => {
      gateway.upstreamPort = port;
    });
    await gateway.listen().catch((failure) => {
      throw portRefusal(HOST, settings.port, failure.message) ?? failure;
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

function stopWhenAsked(): void {
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => stopping.abort());
  // npm may be killed without sending a signal.
  const isStarterThere = watchStarter();
  setInterval(() => {
    if (!isStarterThere()) stopping.abort();
  }, 500).unref();
}

function banner({ baseUrl, token }: Service, settings: LocalSettings, nodes: string[], volumes: string): string {
  const kept = settings.playground
    ? "a playground starts empty each time"
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
    ...noteOnToken(token).map((note) => `            ${note}`),
    ...nodes.map((node) => `Node:       ${node}`),
    "",
    "Paste this into another terminal:",
    "",
    ...["VAULT", "NOMAD", "SALLYPORT"].map(
      (name) => `export ${name}_ADDR=${baseUrl} ${name}_TOKEN=${shellWord(token)}`,
    ),
    ...(nodes.length > 0 ? [`export VOLUMES=${shellWord(volumes)}`] : []),
    ...(settings.playground
      ? [
          `export PROVIDERS=${shellWord(resolve(settings.stateDir, "providers"))}`,
          '# The values for the console\'s form of a new destination: cat "$PROVIDERS"/TYPE.json, with the TYPE of its address',
        ]
      : []),
    ...steps,
    "",
  ].join("\n");
}
