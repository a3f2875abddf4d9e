import { rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { allocation, allocationId, type CsiNode, job, World } from "./csi-chain-world.ts";
import { PATIENT } from "./node-faults-world.ts";

vi.setConfig({ testTimeout: 240_000 });
const world = new World();

beforeAll(() => world.start(), 180_000);
afterAll(() => world.destroy(), 60_000);

/** An agent finds another start of its machine than before, and none of the mounts. */
function startAfterReboot(node: CsiNode): void {
  for (const path of node.mounts()) rmSync(path);
  rmSync(join(node.driver.root, "mounts"), { recursive: true });
  const path = node.at("reboot.mjs");
  const bootId = "/proc/sys/kernel/random/boot_id";
  writeFileSync(
    path,
    `import fs from "node:fs";
     import { syncBuiltinESMExports } from "node:module";
     const read = fs.readFileSync;
     fs.readFileSync = (path, ...more) => (path === "${bootId}" ? "another" : read(path, ...more));
     syncBuiltinESMExports();`,
  );
  node.start({ NODE_OPTIONS: `--import=${pathToFileURL(path)}` });
}

it("an allocation finds its volume again when its node's machine has started again", async () => {
  const node = await world.csiNode("reboot");
  const made = await world.made({ ID: "reboot-1", Name: "reboot-1", PluginID: "reboot" });
  const use = (status: string) => world.report(allocation(allocationId(1), "reboot-job", node.id, status));
  await world.report(job("reboot-job", "reboot-1"));
  await use("running");
  const [claim] = await world.claimed("reboot-1", "published");
  await node.kill();
  await node.driver.kill();
  startAfterReboot(node);
  await node.driver.start();
  await vi.waitFor(() => expect(node.mounts(), node.log).toEqual([claim?.Path]), PATIENT);
  await world.claimed("reboot-1", "published");
  expect(Object.keys(node.record(made.ExternalID).published)).toEqual([node.name]);
  await use("complete");
  await world.claimed("reboot-1");
  expect([node.mounts(), node.record(made.ExternalID).published]).toEqual([[], {}]);
  expect((await world.ask("DELETE", "/v1/volume/csi/reboot-1/delete")).status).toBe(200);
  expect(dirname(claim?.Path ?? "")).toContain(node.root);
});
