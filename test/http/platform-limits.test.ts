import { mkdtempSync, openSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { createServer, request } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { cli } from "./cli-program.ts";
import { Service } from "./events-service.ts";

/* Limits that the local runtime does not have, enforced or measured from outside (docs/internals/platform-limits.md). */

/** Of the smallest plan of the edge, in bytes. */
const EDGE_BODY = 100_000_000;
/** Of an invocation without a setting, in seconds. */
const CPU_SECONDS = 30;
const TICKS_PER_SECOND = 100;
/** The most events of one report, and nearly the largest body. */
const EVENTS = 20_000;
/** Backtracking would take years. */
const COSTLY = 'Name matches "(j|o|b|-)*(a+)+(j.*o.*b.*){3,9}$"';
const NOTE = "x".repeat(1_400);

const service = new Service({ RATE_LIMITS: "off" });
const dir = mkdtempSync(join(tmpdir(), "sallyport-limits-"));

/** A proxy that refuses bodies as the edge does: by their length, with a page of its own. */
const edge = createServer((incoming, response) => {
  if (Number(incoming.headers["content-length"] ?? 0) > EDGE_BODY) {
    incoming.resume();
    response.writeHead(413, { "Content-Type": "text/html" }).end("<html>413 Payload Too Large</html>");
    return;
  }
  const to = new URL(incoming.url ?? "/", service.base);
  const onward = request(to, { method: incoming.method ?? "GET", headers: incoming.headers }, (answer) => {
    response.writeHead(answer.statusCode ?? 502, answer.headers);
    answer.pipe(response);
  });
  incoming.pipe(onward);
});

beforeAll(async () => {
  await service.create();
  await new Promise<void>((listening) => edge.listen(0, "127.0.0.1", listening));
}, 300_000);
afterAll(async () => {
  edge.closeAllConnections();
  edge.close();
  await service.destroy();
  rmSync(dir, { recursive: true });
});

/** The CPU time of a process and all below it, in seconds. */
function cpuOf(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").split(" ").filter(Boolean).map(Number);
  const below = children.reduce((sum, child) => sum + cpuOf(child), 0);
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND + below;
}

describe("the CPU time of a single request", { timeout: 600_000 }, () => {
  const report = (more: object) =>
    Array.from({ length: EVENTS }, (_, at) => ({
      Topic: "Job",
      Type: "JobRegistered",
      Payload: {
        Job: { ID: `job-${at}`, Name: `job-${at}`, Namespace: "default", Type: "service", Note: NOTE, ...more },
      },
    }));
  const text = JSON.stringify({ data: { value: "y".repeat(1_000_000) } });

  it.each<[string, readonly [string, string, unknown?]]>([
    ["the largest report", ["PUT", "/v1/cluster/objects?full=true&topic=Job", report({})]],
    ["a report that changes all of it", ["PUT", "/v1/cluster/objects?full=true&topic=Job", report({ n: 1 })]],
    ["a list of all of it", ["GET", "/v1/jobs"]],
    ["a costly filter over all of it", ["GET", `/v1/jobs?filter=${encodeURIComponent(COSTLY)}`]],
    ["the deletion of all of it", ["PUT", "/v1/cluster/objects?full=true&topic=Job", []]],
    ["a large secret", ["POST", "/v1/secret/data/large", JSON.parse(text)]],
  ])("is far below the limit for %s", async (_name, [method, path, body]) => {
    if (path.startsWith("/v1/secret"))
      await service.call("POST", "/v1/sys/mounts/secret", { type: "kv", options: { version: "2" } });
    const pid = Number(readFileSync(join(service.dataDir, "runtime", "pid"), "utf8").split(" ")[0]);
    const before = cpuOf(pid);
    const response = await fetch(service.base + path, {
      method,
      headers: { "X-Orch-Token": "root", Connection: "close" },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const answer = await response.text();
    expect([response.status, answer.slice(0, 200)]).toEqual([200, expect.anything()]);
    // All processes of the runtime, with what the request has left to do.
    expect(cpuOf(pid) - before).toBeLessThan(CPU_SECONDS / 2);
  });
});

describe("a body beyond the limit of the edge", { timeout: 120_000 }, () => {
  const settings = () => ({
    SALLYPORT_ADDR: `http://127.0.0.1:${(edge.address() as AddressInfo).port}`,
    SALLYPORT_TOKEN: "root",
  });

  it("is a restore that names the way through the bucket, and changes nothing", async () => {
    const file = join(dir, "large.snapshot");
    openSync(file, "w");
    truncateSync(file, EDGE_BODY + 1);
    const { code, err } = await cli(["snapshot", "restore", file], settings());
    expect([code, err]).toEqual([
      1,
      "sallyport snapshot restore: POST sys/snapshot: 413 the edge takes no body of this size: copy the file into the " +
        "bucket of SNAPSHOT_BUCKET, and restore it with --object\n",
    ]);
    expect((await service.call("GET", "/v1/sys/mounts"))?.status).toBe(200);
  });

  it("reaches the service when it is within the limit", async () => {
    const file = join(dir, "no.snapshot");
    writeFileSync(file, "no snapshot");
    const { code, err } = await cli(["snapshot", "restore", file], settings());
    expect([code, err]).toEqual([1, expect.stringContaining("POST sys/snapshot: 400 ")]);
  });
});
