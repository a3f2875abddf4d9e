import { execFileSync } from "node:child_process";
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { obstacleAt } from "../../agent/src/csi/socket.ts";
import { afterTest } from "./agent-service.ts";

const ANOTHER_USER = 65534;
const isRoot = process.getuid?.() === 0;

/** A path for a socket, in a directory that every user may enter. */
function place(): string {
  const directory = mkdtempSync(join(tmpdir(), "csi-socket-"));
  afterTest(() => rmSync(directory, { recursive: true }));
  chmodSync(directory, 0o755);
  return join(directory, "csi.sock");
}

const MODULE = JSON.stringify(join(process.cwd(), "agent/src/csi/socket.ts"));
const ASK = `console.log(await m.obstacleAt(process.argv[1]))`;

/** Runs as an unprivileged user, since root may connect to every socket. The user changes after the module is loaded. */
function askedByAnotherUser(socket: string): string {
  const change = isRoot
    ? `process.setgroups([]); process.setgid(${ANOTHER_USER}); process.setuid(${ANOTHER_USER});`
    : "";
  const script = `import(${MODULE}).then(async (m) => { ${change} ${ASK} })`;
  return execFileSync(process.execPath, ["-e", script, socket], { encoding: "utf8" }).trim();
}

/** Runs like the agent's unit with a drop-in: an unprivileged user with some capabilities. */
function askedWith(capability: string, socket: string): string {
  const user = [`--reuid=${ANOTHER_USER}`, `--regid=${ANOTHER_USER}`, "--clear-groups"];
  const limits = [`--inh-caps=+${capability}`, `--ambient-caps=+${capability}`, `--bounding-set=-all,+${capability}`];
  const script = `import(${MODULE}).then(async (m) => { ${ASK} })`;
  return execFileSync("setpriv", [...user, ...limits, process.execPath, "-e", script, socket], {
    encoding: "utf8",
  }).trim();
}

async function served(mode: number): Promise<string> {
  const socket = place();
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(socket, resolve));
  afterTest(() => new Promise<void>((resolve) => void server.close(() => resolve())));
  chmodSync(socket, mode);
  return socket;
}

it("reports a missing socket, and one without a listening plugin", async () => {
  const socket = place();
  expect(await obstacleAt(socket)).toBe(`there is no socket at ${socket} (ENOENT)`);
  writeFileSync(socket, "");
  expect(await obstacleAt(socket)).toBe(`no plugin listens on ${socket} (ECONNREFUSED)`);
  expect(await obstacleAt(await served(0o755))).toBeNull();
});

it("reports a missing permission with the socket's owner and mode and the agent's user", async () => {
  // Without root, the socket of the current user is closed instead.
  const socket = await served(isRoot ? 0o755 : 0o000);
  const answer = askedByAnotherUser(socket);
  expect(answer).toContain(`the agent may not connect to ${socket} (EACCES): it belongs to uid ${process.getuid?.()}`);
  expect(answer).toContain(isRoot ? "mode 0755" : "mode 0000");
  expect(answer).toContain(`the agent runs as uid ${isRoot ? ANOTHER_USER : process.getuid?.()}`);
});

it.runIf(isRoot)("connects to root's socket with the single capability of the systemd drop-in", async () => {
  const conf = readFileSync("agent/sallyport-agent-csi.conf", "utf8");
  const settings = conf.split("\n").filter((line) => /^[A-Z]/.test(line));
  expect(settings).toEqual(["AmbientCapabilities=CAP_DAC_OVERRIDE", "CapabilityBoundingSet=CAP_DAC_OVERRIDE"]);
  expect(askedWith("dac_override", await served(0o755))).toBe("null");
});
