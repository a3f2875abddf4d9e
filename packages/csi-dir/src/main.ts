#!/usr/bin/env node
import { hostname } from "node:os";
import { isAbsolute } from "node:path";
import { openDriver, type Settings } from "./driver.ts";
import { DRIVER_NAME } from "./identity.ts";
import { serve } from "./server.ts";
import { VERSION } from "./version.ts";

const USAGE = `sallyport-csi-dir ${VERSION}: a CSI driver whose volumes are directories

  CSI_ENDPOINT               unix:///absolute/path.sock, where it serves
  CSI_DIR_ROOT               the directory that holds volumes and snapshots
  CSI_DIR_NODE_ID            this node's id; the host's name by default
  CSI_DIR_ROLES              controller,node by default
  CSI_DIR_TOPOLOGY           key=value,…: where this machine is; none by default
  CSI_DIR_CAPACITY           bytes that may be promised to volumes in all; unlimited by default
  CSI_DIR_MAX_VOLUMES        volumes on this node; unlimited by default
  CSI_DIR_FAULTS             for tests only: a file that says how to misbehave`;

/** Grace time for calls at shutdown. */
const STOP_MS = 5_000;

class Misconfigured extends Error {}

function socketOf(endpoint: string): string {
  const path = endpoint.replace(/^unix:(\/\/)?/, "");
  if (!endpoint.startsWith("unix:") || !isAbsolute(path)) throw new Misconfigured("CSI_ENDPOINT is not unix:///<path>");
  return path;
}

function settingsOf(env: NodeJS.ProcessEnv): Settings {
  const { CSI_DIR_ROOT = "", CSI_DIR_ROLES = "controller,node", CSI_DIR_TOPOLOGY = "" } = env;
  if (!isAbsolute(CSI_DIR_ROOT)) throw new Misconfigured("CSI_DIR_ROOT is not an absolute path");
  const pairs = CSI_DIR_TOPOLOGY.split(",").filter((pair) => pair !== "");
  return {
    root: CSI_DIR_ROOT,
    nodeId: env["CSI_DIR_NODE_ID"] || hostname(),
    roles: CSI_DIR_ROLES.split(",").map((role) => {
      if (role !== "controller" && role !== "node") throw new Misconfigured(`CSI_DIR_ROLES: there is no role ${role}`);
      return role;
    }),
    topology: Object.fromEntries(
      pairs.map((pair) => {
        const [key = "", value] = pair.split("=");
        if (key === "" || !value) throw new Misconfigured("CSI_DIR_TOPOLOGY is not key=value,…");
        return [key, value];
      }),
    ),
    capacity: env["CSI_DIR_CAPACITY"] ? BigInt(numberOf("CSI_DIR_CAPACITY", env["CSI_DIR_CAPACITY"])) : undefined,
    maxVolumesPerNode: Number(numberOf("CSI_DIR_MAX_VOLUMES", env["CSI_DIR_MAX_VOLUMES"] ?? "0")),
    faults: env["CSI_DIR_FAULTS"] || undefined,
  };
}

function numberOf(name: string, text: string): string {
  if (!/^\d{1,18}$/.test(text)) throw new Misconfigured(`${name} is not a number`);
  return text;
}

async function main(): Promise<void> {
  const socket = socketOf(process.env["CSI_ENDPOINT"] ?? "");
  const driver = await openDriver(settingsOf(process.env));
  const server = await serve(driver, socket);
  const { nodeId, roles } = driver.settings;
  console.log(JSON.stringify({ event: "serving", driver: DRIVER_NAME, version: VERSION, socket, nodeId, roles }));
  for (const signal of ["SIGTERM", "SIGINT"] as const)
    process.once(signal, () => {
      server.tryShutdown(() => process.exit(0));
      setTimeout(() => process.exit(0), STOP_MS).unref();
    });
}

main().catch((failure) => {
  console.error(failure instanceof Misconfigured ? `${failure.message}\n\n${USAGE}` : failure);
  process.exit(failure instanceof Misconfigured ? 2 : 1);
});
