/**
 * A process that runs host volume operations of a node one after the other. On request it sends itself SIGKILL
 * after a given number of steps of an operation.
 */
import type { HostVolumeCreate, HostVolumeDelete, HostVolumeRegister } from "@sallyport/agent-protocol";
import { type HostVolume, HostVolumes, type HostVolumesOptions } from "../../agent/src/dhv/index.ts";

export type Operation =
  | { readonly create: HostVolumeCreate }
  | { readonly register: HostVolumeRegister }
  | { readonly delete: HostVolumeDelete }
  | { readonly restore: true };

export type ToAgent =
  | { readonly start: HostVolumesOptions }
  | { readonly operation: Operation; readonly crashAfter: number | undefined };

export interface FromAgent {
  readonly result: { readonly ok: boolean; readonly message?: string };
  readonly volumes: readonly HostVolume[];
  /** The steps of the operation, in order. */
  readonly steps: readonly string[];
}

let volumes: HostVolumes;
let steps: string[] = [];
let crashAfter: number | undefined;

process.on("message", async (message: ToAgent) => {
  if ("start" in message) {
    volumes = new HostVolumes({ ...message.start, step });
    return;
  }
  steps = [];
  crashAfter = message.crashAfter;
  const result = await run(message.operation);
  crashAfter = undefined;
  const answer: FromAgent = { result, volumes: await volumes.volumes(), steps };
  process.send?.(answer);
});
process.on("disconnect", () => process.exit());

function step(name: string): void {
  steps.push(name);
  if (steps.length === crashAfter) process.kill(process.pid, "SIGKILL");
}

async function run(operation: Operation): Promise<FromAgent["result"]> {
  if ("create" in operation) return volumes.create(operation.create);
  if ("register" in operation) return volumes.register(operation.register);
  if ("delete" in operation) return volumes.delete(operation.delete);
  await volumes.restore();
  return { ok: true };
}
