import type { CsiOperation, CsiPlugin, CsiRequest, CsiVolume, Name } from "../../contracts/csi-volumes.ts";
import { type Refusal, refuse } from "../../lib/result.ts";
import type { Merged } from "./merge.ts";
import { failedAt } from "./methods.ts";

/** The columns of a volume that its plugin reports. */
export const providerOf = (plugin: CsiPlugin | null) => ({
  provider: plugin?.provider ?? "",
  providerVersion: plugin?.version ?? "",
  controllerRequired: plugin?.controllerRequired ?? true,
});

/** The record of a registered volume: a new one, or the known one merged with the request. */
export function volumeFrom(request: CsiRequest, plugin: CsiPlugin, known: Merged | null, now: number): CsiVolume {
  if (known) return { ...known.volume, ...providerOf(plugin), modifyTime: now };
  const { secrets: _secrets, ...wanted } = request;
  return {
    ...wanted,
    ...providerOf(plugin),
    topologies: request.topologyRequest?.Required ?? [],
    capacityBytes: 0,
    nodeExpansionOwed: false,
    createTime: now,
    modifyTime: now,
    createIndex: null,
    modifyIndex: null,
  };
}

/** A name that the plugin has given away. Does not reveal the name of a volume in another namespace. */
export function taken({ method, pluginId, namespace }: CsiOperation, holder: Name): Refusal {
  const whose = holder.namespace === namespace ? `volume ${JSON.stringify(holder.id)}` : "another volume";
  // Terraform repeats every refusal without such a text for minutes.
  const message = `a volume of this Name already exists at plugin ${JSON.stringify(pluginId)}: it is ${whose}`;
  return failedAt(method, refuse("conflict", message));
}
