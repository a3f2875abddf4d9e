import { MAX_VOLUMES } from "@sallyport/agent-protocol";
import { expect, it } from "vitest";
import type { VolumeNode } from "../../cluster/nodes/view.ts";
import { hasCapacity, obstacleOf } from "./placement.ts";
import type { HostVolumeStore } from "./volume-store.ts";

const node = (changes: Partial<VolumeNode> = {}): VolumeNode => ({
  id: "n",
  name: "n",
  datacenter: "dc",
  nodeClass: "",
  pool: "default",
  meta: {},
  attributes: { "plugins.host_volume.mkdir.version": "1.0.0" },
  status: "ready",
  eligible: true,
  hasAgent: true,
  isUsable: () => false,
  hasName: () => false,
  ...changes,
});

it("names the reason why a node cannot take a volume", () => {
  const obstacle = obstacleOf({ pluginId: "mkdir", constraints: [] });
  expect(obstacle(node())).toBeNull();
  expect(obstacle(node({ hasAgent: false }))).toBe("without an agent of this service");
  expect(obstacle(node({ attributes: {} }))).toBe('without the plugin "mkdir"');
});

it("gives a node no more volumes than its maximum", () => {
  const storeWith = (count: number) => ({ countOn: () => count }) as unknown as HostVolumeStore;
  expect(hasCapacity(storeWith(MAX_VOLUMES - 1), node())).toBe(true);
  expect(hasCapacity(storeWith(MAX_VOLUMES), node())).toBe(false);
});
