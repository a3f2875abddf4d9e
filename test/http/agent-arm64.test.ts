import { spawn, spawnSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { csiVolumeKey } from "@sallyport/agent-protocol";
import { expect, it } from "vitest";
import { buildExecutable } from "../../scripts/agent-packages.ts";
import { RELEASE } from "../../src/platform/version.ts";
import { PROGRAM_ENV } from "../support/program-env.ts";
import { afterTest, eventually, fakeService, JOIN_TOKEN, nodeDirectory } from "./agent-service.ts";

/*
 * The agent and csi-dir for arm64 on a machine of another kind, by user-mode emulation. ARM64_ROOT is a directory with
 * qemu-aarch64-static and the libraries of Debian's packages libc6, libgcc-s1 and libstdc++6 for arm64:
 *   dpkg -x qemu-user-static_*.deb $ARM64_ROOT; for each arm64 package: dpkg -x PACKAGE $ARM64_ROOT
 */

const ROOT = process.env["ARM64_ROOT"] ?? "";
const EMULATOR = join(ROOT, "usr/bin/qemu-aarch64-static");
const isThere = ROOT !== "" && existsSync(EMULATOR);
if (!isThere) console.log("ARM64_ROOT has no emulator: the agent for arm64 is not run");
/** The emulator runs a start of Node for many seconds. */
const SLOW_MS = 300_000;

/** Starts an arm64 program. */
function start(program: string, args: readonly string[], env: Record<string, string>) {
  const child = spawn(EMULATOR, ["-L", ROOT, program, ...args], { env: { ...PROGRAM_ENV, ...env } });
  let log = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (text) => (log += text));
  const exit = new Promise((resolve) => child.on("close", resolve));
  afterTest(async () => {
    child.kill("SIGKILL");
    await exit;
  });
  return { child, log: () => log, exit };
}

it.runIf(isThere)("the agent for arm64 joins, and serves a CSI driver for arm64", { timeout: 1_200_000 }, async () => {
  const service = await fakeService();
  const { at, path, root } = nodeDirectory(service.url, {
    csi: { plugins: [{ id: "disk", socket: join("SOCKETS", "csi.sock") }] },
  });
  await buildExecutable("agent/src/main.ts", "arm64", at("agent"));
  await buildExecutable("packages/csi-dir/src/main.ts", "arm64", at("csi-dir"));
  // The machine's number of AArch64 in the header.
  expect(readFileSync(at("agent")).readUInt16LE(18)).toBe(183);
  const version = spawnSync(EMULATOR, ["-L", ROOT, at("agent"), "--version"], { encoding: "utf8", timeout: SLOW_MS });
  expect(version.stdout).toBe(`${RELEASE}\n`);

  const socket = at("csi.sock");
  const driver = start(at("csi-dir"), [], {
    CSI_ENDPOINT: `unix://${socket}`,
    CSI_DIR_ROOT: at("volumes-of-csi"),
    CSI_DIR_NODE_ID: "node-1",
  });
  await eventually("the driver", () => driver.log().includes("serving") || undefined, SLOW_MS);
  const config = JSON.parse(readFileSync(path, "utf8").replace("SOCKETS", root));
  writeFileSync(path, JSON.stringify(config));
  const agent = start(at("agent"), ["--config", path], { SALLYPORT_JOIN_TOKEN: JOIN_TOKEN });
  const session = await service.session(SLOW_MS).catch((failure) => {
    throw new Error(`${failure}\n${agent.log()}`);
  });
  const hello = await session.welcome({ cfg: { fingerprintMs: 2_000 } });
  expect(hello.node.Attributes["cpu.arch"]).toBe("arm64");
  const nodes = () => [hello.node, ...session.frames.flatMap((frame) => (frame.t === "fp" ? [frame.node] : []))];
  const isHealthy = () => nodes().some(({ CSINodePlugins }) => CSINodePlugins?.["disk"]?.Healthy);
  await eventually("a healthy plugin", () => isHealthy() || undefined, SLOW_MS);

  const capability = { accessMode: "single-node-writer", attachmentMode: "file-system" };
  const ask = async (number: number, method: string, params: object) => {
    const op = `01939b5e-7a10-7cc1-8b5e-00000000000${number}`;
    const key = csiVolumeKey("disk", "default", "v");
    session.request({ op, method, key, gen: number, params: { pluginId: "disk", ...params } });
    const result = await session.result(op);
    if (!result.ok) throw new Error(`${method}: ${result.error.message}\n${agent.log()}`);
    return result.result as { externalId: string; context: object; path: string };
  };
  const made = await ask(1, "csi.controller.create", {
    name: "v",
    capacityMin: 0,
    capacityMax: 0,
    capabilities: [capability],
    mount: null,
    parameters: {},
    snapshotId: "",
    cloneId: "",
    topology: null,
    mutableParameters: { mode: "0750" },
  });
  const { externalId } = made;
  const use = { externalId, allocId: "a1" };
  const common = { capability, mount: null, readOnly: false, context: made.context };
  const attached = await ask(2, "csi.controller.publish", { externalId, externalNodeId: "node-1", ...common });
  const { path: mounted } = await ask(3, "csi.node.publish", { ...use, ...common, ...attached });
  expect(existsSync(mounted)).toBe(true);
  await ask(4, "csi.node.detach", use);
  await ask(5, "csi.controller.unpublish", { externalId, externalNodeId: "node-1" });
  await ask(6, "csi.controller.delete", { externalId });
  agent.child.kill("SIGTERM");
  expect((await session.closed).code).toBe(1000);
  expect(await agent.exit).toBe(0);
});
