import { mkdir, realpath } from "node:fs/promises";
import { join } from "node:path";
import * as z from "zod";
import { Faults } from "./faults.ts";
import { Locks } from "./locks.ts";
import { Mounts } from "./mounts.ts";
import { Nodes } from "./nodes.ts";
import { Scratch } from "./scratch.ts";
import { Shelf } from "./shelf.ts";

const bytes = z.string().regex(/^\d{1,19}$/);

const volume = z.object({
  id: z.string(),
  name: z.string(),
  /** Reserved, not enforced: a directory has no size limit. */
  bytes,
  parameters: z.record(z.string(), z.string()),
  mutableParameters: z.record(z.string(), z.string()).default({}),
  /** The source of its initial content. */
  source: z.object({ kind: z.enum(["snapshot", "volume"]), id: z.string() }).nullable(),
  /** By node. */
  published: z.record(z.string(), z.object({ readonly: z.boolean(), mode: z.int() })),
});
export type VolumeRecord = z.infer<typeof volume>;

const snapshot = z.object({
  id: z.string(),
  name: z.string(),
  volumeId: z.string(),
  bytes,
  /** Unix time in milliseconds. */
  created: z.int(),
  readyAt: z.int(),
});
export type SnapshotRecord = z.infer<typeof snapshot>;

export interface Settings {
  readonly root: string;
  readonly nodeId: string;
  readonly roles: readonly ("controller" | "node")[];
  /** Topology segments of this machine; without any, volumes are usable everywhere. */
  readonly topology: Readonly<Record<string, string>>;
  /** Total bytes that may be reserved; undefined: unlimited. */
  readonly capacity: bigint | undefined;
  /** 0: unlimited. */
  readonly maxVolumesPerNode: number;
  /** The file with injected faults; undefined: none. */
  readonly faults: string | undefined;
}

/** The dependencies of all calls. */
export interface Driver {
  readonly settings: Settings;
  readonly faults: Faults;
  readonly locks: Locks;
  readonly volumes: Shelf<VolumeRecord>;
  readonly snapshots: Shelf<SnapshotRecord>;
  readonly mounts: Mounts;
  readonly nodes: Nodes;
}

/** Opens a root directory and removes partial state left by crashes. */
export async function openDriver(settings: Settings): Promise<Driver> {
  await mkdir(settings.root, { recursive: true, mode: 0o711 });
  const root = await realpath(settings.root);
  const faults = new Faults(settings.faults);
  const scratch = new Scratch(root);
  const common = { root, scratch, step: () => faults.step() };
  const driver: Driver = {
    settings: { ...settings, root },
    faults,
    locks: new Locks(root),
    volumes: new Shelf({ ...common, kind: "volumes", prefix: "vol", schema: volume }),
    snapshots: new Shelf({ ...common, kind: "snapshots", prefix: "snap", schema: snapshot }),
    mounts: new Mounts(join(root, "mounts"), common),
    nodes: new Nodes(join(root, "nodes"), scratch),
  };
  await scratch.prepare();
  await driver.volumes.prepare();
  await driver.snapshots.prepare();
  await driver.mounts.prepare();
  await driver.nodes.prepare();
  if (settings.roles.includes("node")) await driver.nodes.add(settings.nodeId);
  return driver;
}
