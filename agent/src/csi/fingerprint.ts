import { status } from "@grpc/grpc-js";
import { csiNodeInfo, describe, type ReportedCsiController, type ReportedCsiNode } from "@sallyport/agent-protocol";
import { CONTROLLER_RPC, NODE_RPC, PLUGIN_SERVICE, type Response, type Rpc } from "@sallyport/csi-wire";
import type { PluginClient } from "./client.ts";
import type { CsiPluginConfig } from "./config.ts";
import { countOf } from "./convert.ts";
import { CallFailure } from "./failure.ts";

/** Timeout of one probe call. */
const PROBE_MS = 5_000;

type ControllerInfo = ReportedCsiController["ControllerInfo"];
type NodeInfo = ReportedCsiNode["NodeInfo"];

/** A plugin's self-description; null for a role it does not have. */
export interface PluginFingerprint {
  readonly provider: string;
  readonly version: string;
  readonly requiresController: boolean;
  readonly requiresTopologies: boolean;
  readonly controller: ControllerInfo | null;
  readonly node: NodeInfo | null;
  /** Bytes for new volumes at this node; undefined when the plugin does not tell. */
  readonly availableBytes: number | undefined;
}

type Probe =
  | { readonly ok: true; readonly fingerprint: PluginFingerprint }
  | {
      readonly ok: false;
      readonly reason: string;
      /** The socket is not served, which is certain at once; a busy plugin may only miss a probe. */
      readonly gone: boolean;
    };

/** Probes a plugin completely. Nothing is cached, since the plugin may be replaced between probes. */
export async function probePlugin(client: PluginClient, { roles, topology }: CsiPluginConfig): Promise<Probe> {
  const ask = <R extends Rpc>(rpc: R) => client.call(rpc, {}, Date.now() + PROBE_MS);
  try {
    const { name, vendorVersion } = await ask("GetPluginInfo");
    const services = (await ask("GetPluginCapabilities")).capabilities.map(({ service }) => service?.type);
    const { ready } = await ask("Probe");
    if (ready?.value === false) return { ok: false, reason: "it says that it is not ready", gone: false };
    const requiresController = services.includes(PLUGIN_SERVICE.controllerService);
    const controller =
      roles.includes("controller") && requiresController
        ? await unlessLacking(async () => controllerInfo(await ask("ControllerGetCapabilities")))
        : null;
    const node = roles.includes("node")
      ? await unlessLacking(async () =>
          nodeInfo(await ask("NodeGetInfo"), await unlessLacking(() => ask("NodeGetCapabilities")), topology),
        )
      : null;
    // The report of the whole node would be refused with it.
    const fault = node === null ? undefined : csiNodeInfo.safeParse(node).error;
    if (fault) return { ok: false, reason: `NodeGetInfo: its answer is not one: ${describe(fault)}`, gone: false };
    const fingerprint: PluginFingerprint = {
      provider: name.slice(0, 256),
      version: vendorVersion.slice(0, 256),
      requiresController,
      requiresTopologies: services.includes(PLUGIN_SERVICE.volumeAccessibilityConstraints),
      controller,
      node,
      availableBytes: controller?.["SupportsGetCapacity"]
        ? await availableBytes(client, node?.AccessibleTopology?.Segments)
        : undefined,
    };
    return { ok: true, fingerprint };
  } catch (failure) {
    if (!(failure instanceof CallFailure)) throw failure;
    const { rpc, code, reached, message } = failure;
    const reason = `${rpc}: ${status[code] ?? "no answer"}: ${message}`.replace(/\p{Cc}+/gu, " ").slice(0, 1024);
    return { ok: false, reason, gone: code === status.UNAVAILABLE && !reached };
  }
}

/** Capacity at the node's topology. A plugin that fails to tell is not unhealthy. */
async function availableBytes(
  client: PluginClient,
  segments: Readonly<Record<string, string>> | undefined,
): Promise<number | undefined> {
  try {
    const request = segments ? { accessibleTopology: { segments } } : {};
    const { availableCapacity } = await client.call("GetCapacity", request, Date.now() + PROBE_MS);
    return twoDigits(countOf(availableCapacity));
  } catch (failure) {
    if (failure instanceof CallFailure) return undefined;
    throw failure;
  }
}

/** Rounded down to two digits, so that reports stay rare while volumes fill. */
function twoDigits(count: number): number {
  const unit = 10 ** Math.max(0, String(count).length - 2);
  return Math.floor(count / unit) * unit;
}

/** Null when the plugin does not implement an optional call. */
async function unlessLacking<T>(ask: () => Promise<T>): Promise<T | null> {
  try {
    return await ask();
  } catch (failure) {
    if (failure instanceof CallFailure && failure.code === status.UNIMPLEMENTED) return null;
    throw failure;
  }
}

export function controllerInfo(answer: Response<"ControllerGetCapabilities"> | null): ControllerInfo {
  const has = offered(answer);
  return {
    SupportsAttachDetach: has(CONTROLLER_RPC.publishUnpublishVolume),
    SupportsClone: has(CONTROLLER_RPC.cloneVolume),
    SupportsCondition: has(CONTROLLER_RPC.volumeCondition),
    SupportsCreateDelete: has(CONTROLLER_RPC.createDeleteVolume),
    SupportsCreateDeleteSnapshot: has(CONTROLLER_RPC.createDeleteSnapshot),
    SupportsExpand: has(CONTROLLER_RPC.expandVolume),
    SupportsGet: has(CONTROLLER_RPC.getVolume),
    SupportsGetCapacity: has(CONTROLLER_RPC.getCapacity),
    SupportsListSnapshots: has(CONTROLLER_RPC.listSnapshots),
    SupportsListVolumes: has(CONTROLLER_RPC.listVolumes),
    SupportsListVolumesAttachedNodes: has(CONTROLLER_RPC.listVolumesPublishedNodes),
    SupportsModify: has(CONTROLLER_RPC.modifyVolume),
    SupportsReadOnlyAttach: has(CONTROLLER_RPC.publishReadonly),
  };
}

export function nodeInfo(
  info: Response<"NodeGetInfo"> | null,
  capabilities: Response<"NodeGetCapabilities"> | null,
  topology: CsiPluginConfig["topology"],
): NodeInfo {
  const has = offered(capabilities);
  const segments = info?.accessibleTopology?.segments ?? topology;
  return {
    AccessibleTopology: segments ? { Segments: { ...segments } } : null,
    ID: info?.nodeId ?? "",
    MaxVolumes: countOf(info?.maxVolumesPerNode ?? "0"),
    RequiresNodeStageVolume: has(NODE_RPC.stageUnstageVolume),
    SupportsCondition: has(NODE_RPC.volumeCondition),
    SupportsExpand: has(NODE_RPC.expandVolume),
    SupportsStats: has(NODE_RPC.getVolumeStats),
  };
}

type Offer = Response<"ControllerGetCapabilities" | "NodeGetCapabilities">;
const offered = (answer: Offer | null) => (type: number) =>
  answer?.capabilities.some(({ rpc }) => rpc?.type === type) ?? false;
