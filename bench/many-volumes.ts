/**
 * A node full of host volumes (`bench/full-node.ts`) alone. Prints the sizes of the agent's frames and of the lines of
 * the event stream, in the first and the last quarter, and what was dropped.
 *
 *     node bench/many-volumes.ts [seconds] [volumes] [clients]
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fullNode, type Size } from "./full-node.ts";
import { startCluster } from "./volumes-sides.ts";

const [seconds = 300, volumes = 2_000, clients = 8] = process.argv.slice(2).map(Number);
const dir = mkdtempSync(join(tmpdir(), "sallyport-bench-"));
const running: { stop(): void }[] = [];
process.on("exit", () => {
  for (const one of running) one.stop();
  rmSync(dir, { recursive: true, force: true });
});
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => process.exit(130));

const service = await startCluster(dir, "many");
running.push(service.server);
const { operations, cpu, frames, lines, begun, dropped, ...result } = await fullNode(
  service,
  join(dir, "agent"),
  { seconds, volumes, clients },
  (one) => running.push(one),
);
const until = begun + seconds * 1_000;

/** Count, mean and most of each kind, at the beginning and at the end. */
function table(title: string, sizes: readonly Size[]): void {
  const quarter = (seconds * 1_000) / 4;
  const parts = [sizes.filter(({ at }) => at < begun + quarter), sizes.filter(({ at }) => at >= until - quarter)];
  for (const what of [...new Set(sizes.map((size) => size.what))].sort()) {
    const cells = parts.map((part) => {
      const bytes = part.filter((size) => size.what === what).map((size) => size.bytes);
      const mean = bytes.reduce((sum, each) => sum + each, 0) / Math.max(1, bytes.length);
      return `${bytes.length} of ${Math.round(mean)} B (most ${Math.max(0, ...bytes)})`;
    });
    process.stdout.write(`${title} ${what}: first quarter ${cells[0]}, last quarter ${cells[1]}\n`);
  }
}

const each = (side: "service" | "agent") =>
  ((1_000 * (cpu?.[side] ?? Number.NaN)) / Math.max(1, operations)).toFixed(1);
process.stdout.write(
  `${operations} operations in ${seconds} s by ${clients} clients: ${(operations / result.seconds).toFixed(1)} a second, ` +
    `${each("service")} ms of the service's CPU each, ${each("agent")} ms of the agent's\n`,
);
table("frame", frames);
table("line", lines);
process.stdout.write(`dropped: ${dropped.length === 0 ? "nothing" : `${dropped.length}, the first ${dropped[0]}`}\n`);
process.exit(dropped.length === 0 ? 0 : 1);
