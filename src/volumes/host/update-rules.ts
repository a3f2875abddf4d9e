import type { HostVolumeRequest, StoredVolume } from "../../contracts/host-volumes.ts";
import { type Refusal, refuse } from "../../lib/result.ts";
import { joinedErrors } from "../joined-errors.ts";

/** Why a volume cannot be updated as requested; null when the update is permitted (docs/internals/wire/volumes.md). */
export function updateRefusal(
  volume: StoredVolume,
  request: HostVolumeRequest,
  users: readonly string[],
): Refusal | null {
  const { nodeId, nodePool, pluginId, hostPath, capacityMax } = request;
  const rules: string[] = [];
  if (nodeId !== "" && nodeId !== volume.nodeId) rules.push("node ID cannot be updated");
  if (nodePool !== "" && nodePool !== volume.nodePool) rules.push("node pool cannot be updated");
  if (pluginId !== "" && pluginId !== volume.pluginId) rules.push("plugin ID cannot be updated");
  else if (volume.pluginId === "" && hostPath === "")
    rules.push("a registered volume is updated by registering it again");
  if (capacityMax !== 0 && capacityMax < volume.capacityBytes) {
    rules.push(
      `capacity_max (${capacityMax}) cannot be less than existing provisioned capacity (${volume.capacityBytes})`,
    );
  }
  const inUse =
    users.length === 0 ? [] : [`cannot update a volume in use: claimed by allocs (${namesOf(users).join(", ")})`];
  if (rules.length === 0 && inUse.length === 0) return null;
  const message = `validating volume ${JSON.stringify(volume.id)} update failed: ${joinedErrors([...inUse, ...rules])}`;
  return refuse(rules.length === 0 ? "conflict" : "invalid", message);
}

const MAX_NAMED = 20;

/** Up to 20 allocation ids, then the number of the others. */
export const namesOf = (users: readonly string[]): string[] =>
  users.length <= MAX_NAMED ? [...users] : [...users.slice(0, MAX_NAMED), `and ${users.length - MAX_NAMED} more`];
