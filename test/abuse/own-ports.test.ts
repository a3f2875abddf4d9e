import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { afterAll, beforeAll, expect, it } from "vitest";
import { Wires } from "./raw-http.ts";
import { deploymentSecrets, Service } from "./service.ts";

/* Ports of the service's own processes, behind its gateway, as another process of the machine finds them. */

/** Of ports that do not speak HTTP. */
const PATIENCE_MS = 2_000;

let service: Service;
beforeAll(async () => {
  service = await Service.start({ AGENT: "0", PLAYGROUND: "0", RATE_LIMITS: "off" });
});
afterAll(() => service?.stop());

/** A process and its descendants. */
function familyOf(pid: number): number[] {
  const parents = readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name): [child: number, parent: number][] => {
      try {
        // The name of a program may hold spaces and brackets.
        const [, parent] = /^.*\) \S (\d+)/s.exec(readFileSync(`/proc/${name}/stat`, "utf8")) ?? [];
        return [[Number(name), Number(parent)]];
      } catch {
        return [];
      }
    });
  const family = [pid];
  for (const member of family)
    family.push(...parents.filter(([, parent]) => parent === member).map(([child]) => child));
  return family;
}

/** The TCP ports on which these processes listen. */
function portsOf(pids: readonly number[]): number[] {
  const sockets = new Set(
    pids.flatMap((pid) =>
      readdirSync(`/proc/${pid}/fd`).flatMap((fd) => {
        try {
          return /^socket:\[(\d+)\]$/.exec(readlinkSync(`/proc/${pid}/fd/${fd}`))?.[1] ?? [];
        } catch {
          return [];
        }
      }),
    ),
  );
  const LISTEN = "0A";
  const listening = ["tcp", "tcp6"].flatMap((file) =>
    readFileSync(`/proc/net/${file}`, "utf8")
      .split("\n")
      .map((line) => line.trim().split(/\s+/))
      .filter(([, , , state, , , , , , inode = ""]) => state === LISTEN && sockets.has(inode)),
  );
  return [...new Set(listening.map(([, local = ""]) => Number.parseInt(local.split(":")[1] ?? "", 16)))];
}

it.skipIf(process.platform !== "linux")(
  "serve no request without the gateway's key, whichever address and token it claims",
  async () => {
    const ports = portsOf(familyOf(service.pid));
    expect(ports).toContain(service.port);
    const inner = ports.filter((port) => port !== service.port);
    // The runtime, at least.
    expect(inner.length).toBeGreaterThan(0);
    const wrong: string[] = [];
    for (const port of inner) {
      const wires = new Wires(port);
      for (const [method, target] of [
        ["GET", "/v1/sys/health"],
        ["GET", "/v1/auth/token/lookup-self"],
        ["PUT", "/v1/secret/data/own-port"],
        ["GET", "/v1/metrics"],
        ["GET", "/ui/"],
        ["GET", "/cdn-cgi/mf/reload"],
        ["GET", "/json"],
      ] as const) {
        for (const key of ["", "0".repeat(64)]) {
          const reply = await wires.send(
            {
              method,
              target,
              headers: [
                ["Host", "localhost"],
                ["X-Orch-Token", deploymentSecrets.DEV_ROOT_TOKEN],
                ["CF-Connecting-IP", "10.0.0.1"],
                ["CF-Gateway-Key", key],
              ],
            },
            PATIENCE_MS,
          );
          if (reply.status !== 0 && reply.status < 400)
            wrong.push(`${port} ${method} ${target}: ${reply.status} ${reply.text.slice(0, 200)}`);
        }
      }
      wires.close();
    }
    expect(wrong).toEqual([]);
  },
);
