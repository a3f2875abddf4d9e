import type { HostVolumeRequest, StoredVolume, VolumeMethod } from "../../contracts/host-volumes.ts";
import type { Change } from "./volume-operations.ts";
import { DEFAULT_CAPABILITY } from "./volume-views.ts";

/**
 * The definition that a request sets. An update keeps the volume's value of every omitted field, except parameters and
 * requested capacities, which it resets.
 */
export function changeOf(request: HostVolumeRequest, volume: StoredVolume | null): Change {
  const { name, parameters, capacityMin, capacityMax } = request;
  const capabilities = request.capabilities.length > 0 ? request.capabilities : volume?.wanted.capabilities;
  const isRegistration = request.hostPath !== "";
  return {
    name,
    pluginId: request.pluginId || (volume?.pluginId ?? ""),
    wanted: {
      parameters,
      capacityMin,
      capacityMax,
      constraints: volume?.wanted.constraints ?? request.constraints,
      capabilities: capabilities ?? [DEFAULT_CAPABILITY],
    },
    capacityBytes: isRegistration ? request.capacityBytes : (volume?.capacityBytes ?? 0),
    hostPath: isRegistration ? request.hostPath : (volume?.hostPath ?? ""),
  };
}

/** The parameters of a host-volume method for the node. */
export function paramsOf(
  method: VolumeMethod,
  { id, namespace }: StoredVolume,
  change: Change | null,
  force = false,
): object {
  if (!change) return { id, ...(force && { force }) };
  const { name, pluginId, hostPath, wanted } = change;
  if (method === "dhv.register") return { id, name, namespace, hostPath };
  const { parameters, capacityMin, capacityMax } = wanted;
  return { id, name, namespace, pluginId, parameters, capacityMin, capacityMax };
}
