import type { CsiPlugin, CsiRequest, CsiVolume } from "../../contracts/csi-volumes.ts";
import type { Merged } from "./merge.ts";

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
    ...{ capacityBytes: 0, nodeExpansionOwed: false, createTime: now, modifyTime: now },
    ...{ createIndex: null, modifyIndex: null },
  };
}
