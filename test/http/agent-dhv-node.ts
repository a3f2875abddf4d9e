import { randomUUID } from "node:crypto";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { HostVolumeCreate } from "@sallyport/agent-protocol";
import { type AllowedPlugin, HostVolumes, type HostVolumesOptions } from "../../agent/src/dhv/index.ts";

const NODE_ID = "0f0e0d0c-0b0a-4908-8706-050403020100";

/** The directories of one node with host volumes, and the process of its agent. */
export class TestNode {
  readonly dir = mkdtempSync(join(tmpdir(), "sallyport-dhv-"));
  readonly volumesDir = join(this.dir, "volumes");
  readonly pluginDir = join(this.dir, "plugins");
  readonly stateDir = join(this.dir, "state");
  /** Directories below it may be registered, and plugins may create volumes there. */
  readonly root = join(this.dir, "root");
  readonly allowed: AllowedPlugin[] = [];
  readonly log: string[] = [];

  constructor() {
    for (const dir of [this.volumesDir, this.pluginDir, this.stateDir, this.root]) mkdirSync(dir, { mode: 0o755 });
  }

  /** Installs an executable in the plugin directory and allows it. */
  plugin(name: string, script: string, mode = 0o755): string {
    const file = join(this.pluginDir, name);
    writeFileSync(file, script);
    chmodSync(file, mode);
    if (!this.allowed.some((plugin) => plugin.name === name)) this.allowed.push({ name });
    return file;
  }

  get options(): HostVolumesOptions {
    const { volumesDir, pluginDir, stateDir, allowed, root } = this;
    return {
      volumesDir,
      pluginDir,
      stateDir,
      nodeId: NODE_ID,
      nodePool: "pool",
      allowed,
      registerRoots: [root],
      limits: { killGraceMs: 300 },
    };
  }

  /** A new agent on the state of earlier ones. */
  start(more: Partial<HostVolumesOptions> = {}): HostVolumes {
    return new HostVolumes({ ...this.options, log: (line) => this.log.push(line), ...more });
  }

  /** All names in the volumes directory, including hidden ones. */
  volumes(): string[] {
    return readdirSync(this.volumesDir).sort();
  }

  /** The stored records of volumes, by file. */
  records(): Record<string, { state: string; request: HostVolumeCreate; path?: string }> {
    const dir = join(this.stateDir, "host-volumes");
    return Object.fromEntries(
      readdirSync(dir).map((file) => [file, JSON.parse(readFileSync(join(dir, file), "utf8"))]),
    );
  }

  /** Sets a flag for the plugins below, such as `create.fail`. */
  flag(name: string): void {
    writeFileSync(join(this.pluginDir, name), "");
  }

  unflag(name: string): void {
    rmSync(join(this.pluginDir, name));
  }

  /** The calls of the plugins below: the operation, the volume's id, and the path of a deletion. */
  calls(): string[] {
    const file = join(this.pluginDir, "calls");
    return existsSync(file) ? readFileSync(file, "utf8").trimEnd().split("\n") : [];
  }

  remove(): void {
    rmSync(this.dir, { recursive: true, force: true });
  }
}

export function request(more: Partial<HostVolumeCreate> = {}): HostVolumeCreate {
  const id = more.id ?? randomUUID();
  return {
    id,
    name: `volume-${id}`,
    namespace: "default",
    pluginId: "mkdir",
    parameters: {},
    capacityMin: 0,
    capacityMax: 0,
    ...more,
  };
}

/** A typical plugin: a directory named after the volume's id, `fingerprint`, `create` and `delete`. */
export const DIRECTORY_PLUGIN = `#!/bin/sh
case "$1" in
  fingerprint) echo '{"version": "1.2.3"}' ;;
  create)
    mkdir -p "$DHV_VOLUMES_DIR/$DHV_VOLUME_ID"
    echo "{\\"path\\": \\"$DHV_VOLUMES_DIR/$DHV_VOLUME_ID\\", \\"bytes\\": 1024}" ;;
  delete) rm -rf "$DHV_CREATED_PATH" ;;
esac
`;

const NOTE = "echo $1 $DHV_VOLUME_ID $DHV_CREATED_PATH >> calls\n";

/** Waits in an operation while the flag `<operation>.hold` is set. */
export const HOLDING_PLUGIN = DIRECTORY_PLUGIN.replace(
  'case "$1" in',
  `${NOTE}while [ -e "$1.hold" ]; do sleep 0.01; done\ncase "$1" in`,
);

/** Fails in an operation while the flag `<operation>.fail` is set. */
export const FAILING_PLUGIN = DIRECTORY_PLUGIN.replace(
  'case "$1" in',
  `${NOTE}[ -e "$1.fail" ] && { echo '{"error":"told to"}'; exit 1; }\ncase "$1" in`,
);

/** The error when another volume has the name. */
export const NAME_TAKEN = {
  ok: false,
  kind: "conflict",
  outcome: "failed",
  message: "volume name already exists on this node",
};

/** For each volume of an agent, the reason that it is unusable; undefined for a usable one. */
export async function problems(volumes: HostVolumes): Promise<Record<string, string | undefined>> {
  return Object.fromEntries((await volumes.volumes()).map(({ id, problem }) => [id, problem]));
}
