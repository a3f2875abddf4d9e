/** Starts the Worker on a state directory, for `npm start` and `npm run serve`: build, migrations, runtime, health. */
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer, type Server } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { GATEWAY_KEY_HEADER } from "../src/platform/http/gateway-key.ts";
import { BUILT, isBuilt } from "./built-worker.ts";
import { freeBytes } from "./disk.ts";
import { filesVersion, localFiles } from "./files.ts";
import type { LocalState } from "./local-state.ts";
import { buildWorker, endLeftover, migrationsVersion, type Runtime, type ToRuntime } from "./runtime.ts";
import { Refusal } from "./settings.ts";
import { Supervisor } from "./supervisor.ts";

const HEALTH_MS = 30_000;
const ROOM_TO_START_BYTES = 16 * 1024 * 1024;

/** A running service; `url` is its own port, behind the gateway. */
interface Booted {
  readonly supervisor: Supervisor;
  readonly url: string;
}

/** A secret of one gateway and its runtime, by which the runtime tells it from other local processes. */
export const newGatewayKey = (): string => randomBytes(32).toString("hex");

/** Headers of a request to the runtime's own port. */
export const gatewayHeaders = (key: string): Record<string, string> => ({ [GATEWAY_KEY_HEADER]: key });

/** Resolves when the Worker is healthy; stops what it has started when that fails. @throws Refusal */
export async function boot(
  state: LocalState,
  { gatewayKey, ...given }: Omit<ToRuntime, "dataDir" | "builtDir"> & { readonly gatewayKey: string },
  signal: AbortSignal,
): Promise<Booted> {
  const files = localFiles(state.filesDir);
  const isFilled = filesVersion(files) === state.files;
  await endLeftover(state.runtimeDir);
  const version = migrationsVersion();
  const isMigrated = state.migrations === version;
  const isReady = isFilled && isMigrated && isBuilt(state.runtimeDir);
  state.emptyRuntimeDir(isReady ? BUILT : []);
  refuseFullDisk(state.dir);
  const { dataDir, runtimeDir: builtDir } = state;
  const supervisor = new Supervisor({
    ...given,
    bindings: { ...given.bindings, GATEWAY_KEY: gatewayKey },
    dataDir,
    builtDir,
  });
  try {
    if (!isReady) {
      const work = { ...(isFilled ? {} : { files }), ...(isMigrated ? {} : { migrations: true }) };
      await buildWorker({ dir: builtDir, dataDir, ...work }, signal);
      state.noteMigrations(version);
    }
    const url = await supervisor.begin(signal);
    state.noteFiles(filesVersion(files));
    await healthy(url, gatewayHeaders(gatewayKey), supervisor.runtime, signal);
    return { supervisor, url };
  } catch (failure) {
    await supervisor.stop();
    throw failure;
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

/** Waits until the Worker reports healthy, so that clients never see a half-started service. */
async function healthy(
  url: string,
  headers: Record<string, string>,
  runtime: Runtime,
  signal: AbortSignal,
): Promise<void> {
  const deadline = performance.now() + HEALTH_MS;
  let last = "no answer";
  while (performance.now() < deadline) {
    try {
      // A service without a first token is healthy, too.
      const response = await fetch(`${url}/v1/sys/health?uninitcode=200`, {
        headers,
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

/** Throws when the port cannot be listened on. @throws Refusal */
export async function tryPort(host: string, port: number): Promise<void> {
  const probe: Server = createServer();
  try {
    probe.listen(port, host);
    await once(probe, "listening");
  } catch (failure) {
    const code = failure instanceof Error && "code" in failure ? failure.code : undefined;
    throw portRefusal(host, port, code) ?? failure;
  }
  probe.close();
  await once(probe, "close");
}

export function portRefusal(host: string, port: number, code: unknown): Refusal | undefined {
  if (code === "EADDRINUSE") {
    return new Refusal(`Port ${port} is in use: stop what listens there, or set PORT to another one.`);
  }
  if (code === "EACCES") return new Refusal(`Port ${port} is not allowed to this user: set PORT to one above 1023.`);
  if (code === "EADDRNOTAVAIL") return new Refusal(`HOST ${host} is not an address of this machine.`);
  return undefined;
}
