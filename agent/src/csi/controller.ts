import { setTimeout as sleep } from "node:timers/promises";
import { status } from "@grpc/grpc-js";
import type { ParamsOf, ResultOf } from "@sallyport/agent-protocol";
import { CONTROLLER_RPC, type RequestDraft, type Response, type Rpc } from "@sallyport/csi-wire";
import type { Secrets } from "../ops/handler.ts";
import type { PluginClient } from "./client.ts";
import { refusedIn } from "./confirmed.ts";
import { capabilityOf, countOf, externalVolumeOf, NEWER_MODES, rangeOf, snapshotOf, Unusable } from "./convert.ts";
import { CallFailure } from "./failure.ts";
import type { CsiOperation } from "./operation.ts";
import { pagesOf } from "./pages.ts";

/** How long an unready snapshot is polled. */
const SNAPSHOT_READY_MS = 10_000;
const SNAPSHOT_POLL_MS = 250;
/** Page bounds for plugin calls and for results: a result must fit a frame. */
const PAGE_ENTRIES = 250;
const PAGE_CHARACTERS = 400_000;

/** Per-operation dependencies. */
export interface Context {
  readonly client: PluginClient;
  readonly secrets: Secrets;
  /** Deadline, Unix time in ms. */
  readonly until: number;
}

export type Works<M extends CsiOperation> = {
  readonly [O in M]: (params: ParamsOf<O>, context: Context) => Promise<ResultOf<O>>;
};

/** The controller operations as plugin calls. They throw `CallFailure` and `Unusable`. */
export const controllerWorks: Works<Extract<CsiOperation, `csi.controller.${string}`>> = {
  "csi.controller.create": async (params, { client, secrets, until }) => {
    const { name, capacityMin, capacityMax, capabilities, mount, parameters, mutableParameters } = params;
    await checkModes(params, { client, until });
    const request = {
      name,
      capacityRange: rangeOf(capacityMin, capacityMax),
      volumeCapabilities: capabilities.map((capability) => capabilityOf(capability, mount)),
      parameters,
      secrets,
      volumeContentSource: sourceOf(params),
      accessibilityRequirements: topologyOf(params.topology),
      mutableParameters: mutableParameters ?? {},
    };
    const { volume } = await client.call("CreateVolume", request, until);
    return {
      externalId: volume?.volumeId ?? "",
      capacityBytes: countOf(volume?.capacityBytes ?? "0"),
      context: { ...volume?.volumeContext },
      topologies: (volume?.accessibleTopology ?? []).map(({ segments }) => segments),
    };
  },

  "csi.controller.delete": async ({ externalId }, { client, secrets, until }) => {
    await unlessGone(client.call("DeleteVolume", { volumeId: externalId, secrets }, until));
    return {};
  },

  "csi.controller.validate": async (params, { client, secrets, until }) => {
    const { externalId, capabilities, mount, parameters, context } = params;
    await checkModes(params, { client, until });
    const asked = capabilities.map((capability) => capabilityOf(capability, mount));
    const request = {
      volumeId: externalId,
      volumeContext: context,
      volumeCapabilities: asked,
      parameters,
      secrets,
    };
    const answer = await client.call("ValidateVolumeCapabilities", request, until);
    const refused = refusedIn(asked, answer);
    if (refused !== undefined)
      throw new Unusable(`CSI plugin "${params.pluginId}": ValidateVolumeCapabilities: ${refused}`);
    return {};
  },

  "csi.controller.publish": async (params, { client, secrets, until }) => {
    const { externalId, externalNodeId, capability, mount, readOnly, context } = params;
    const request = {
      volumeId: externalId,
      nodeId: externalNodeId,
      volumeCapability: capabilityOf(capability, mount),
      // The specification forbids it to plugins without the capability; the mount on the node is read-only all the same.
      readonly: readOnly && (await offers(CONTROLLER_RPC.publishReadonly, { client, until })),
      secrets,
      volumeContext: context,
    };
    const { publishContext } = await client.call("ControllerPublishVolume", request, until);
    return { publishContext: { ...publishContext } };
  },

  "csi.controller.unpublish": async ({ externalId, externalNodeId }, { client, secrets, until }) => {
    const request = { volumeId: externalId, nodeId: externalNodeId, secrets };
    await unlessGone(client.call("ControllerUnpublishVolume", request, until));
    return {};
  },

  "csi.controller.expand": async (params, { client, secrets, until }) => {
    const { externalId, capacityMin, capacityMax, capability, mount } = params;
    const request = {
      volumeId: externalId,
      capacityRange: rangeOf(capacityMin, capacityMax),
      secrets,
      volumeCapability: capability && capabilityOf(capability, mount),
    };
    const { capacityBytes, nodeExpansionRequired } = await client.call("ControllerExpandVolume", request, until);
    return { capacityBytes: countOf(capacityBytes), nodeExpansionRequired };
  },

  "csi.controller.modify": async ({ externalId, mutableParameters }, { client, secrets, until }) => {
    await client.call("ControllerModifyVolume", { volumeId: externalId, secrets, mutableParameters }, until);
    return {};
  },

  "csi.controller.list": async ({ pluginId, maxEntries, startingToken }, { client, until }) => {
    const request = { maxEntries: pageSize(maxEntries), startingToken };
    const pages = pagesOf(client, "ListVolumes", pluginId, request, until);
    const { entries, nextToken } = await gather(pages, maxEntries, externalVolumeOf);
    return { volumes: entries, nextToken };
  },

  "csi.controller.snapshotCreate": async ({ externalId, name, parameters }, { client, secrets, until }) => {
    const request = { sourceVolumeId: externalId, name, secrets, parameters };
    const create = async () => snapshotOf((await client.call("CreateSnapshot", request, until)).snapshot);
    const poll = Math.min(until, Date.now() + SNAPSHOT_READY_MS);
    let snapshot = await create();
    while (!snapshot.isReady && Date.now() + SNAPSHOT_POLL_MS < poll) {
      await sleep(SNAPSHOT_POLL_MS);
      try {
        snapshot = await create();
      } catch (failure) {
        // The snapshot exists, however long a further call takes.
        if (failure instanceof CallFailure && failure.code === status.DEADLINE_EXCEEDED) break;
        throw failure;
      }
    }
    return snapshot;
  },

  "csi.controller.snapshotDelete": async ({ snapshotId }, { client, secrets, until }) => {
    await unlessGone(client.call("DeleteSnapshot", { snapshotId, secrets }, until));
    return {};
  },

  "csi.controller.snapshotList": async ({ pluginId, maxEntries, startingToken }, { client, secrets, until }) => {
    const request = { maxEntries: pageSize(maxEntries), startingToken, secrets };
    const pages = pagesOf(client, "ListSnapshots", pluginId, request, until);
    const { entries, nextToken } = await gather(pages, maxEntries, ({ snapshot }) => snapshotOf(snapshot));
    return { snapshots: entries, nextToken };
  },
};

/** Refuses access modes that the plugin does not have: to an older plugin their numbers may mean something else. */
async function checkModes(
  { pluginId, capabilities }: Pick<Creation, "pluginId" | "capabilities">,
  { client, until }: Pick<Context, "client" | "until">,
): Promise<void> {
  const newer = capabilities.find(({ accessMode }) => NEWER_MODES.has(accessMode));
  if (newer === undefined) return;
  if (await offers(CONTROLLER_RPC.singleNodeMultiWriter, { client, until })) return;
  throw lacksMode(pluginId, "ControllerGetCapabilities", newer.accessMode);
}

/** Whether the controller has a capability. */
async function offers(type: number, { client, until }: Pick<Context, "client" | "until">): Promise<boolean> {
  const { capabilities } = await client.call("ControllerGetCapabilities", {}, until);
  return capabilities.some(({ rpc }) => rpc?.type === type);
}

/** The failure of an operation whose access mode the plugin does not have. */
export const lacksMode = (pluginId: string, rpc: Rpc, accessMode: string): CallFailure =>
  new CallFailure(pluginId, rpc, status.UNIMPLEMENTED, `no access mode ${accessMode} (SINGLE_NODE_MULTI_WRITER)`, true);

type Creation = ParamsOf<"csi.controller.create">;

function sourceOf({ snapshotId, cloneId }: Creation): RequestDraft<"CreateVolume">["volumeContentSource"] {
  if (snapshotId !== "" && cloneId !== "") throw new Unusable("snapshotId and cloneId exclude each other");
  if (snapshotId !== "") return { snapshot: { snapshotId } };
  return cloneId === "" ? undefined : { volume: { volumeId: cloneId } };
}

/** Absent rather than empty: CSI forbids two empty lists. */
function topologyOf(topology: Creation["topology"]): RequestDraft<"CreateVolume">["accessibilityRequirements"] {
  const { required = [], preferred = [] } = topology ?? {};
  if (required.length === 0 && preferred.length === 0) return undefined;
  const all = (list: typeof required) => list.map((segments) => ({ segments }));
  // CSI requires every preferred topology to be requisite.
  return { requisite: all(required.length > 0 ? required : preferred), preferred: all(preferred) };
}

/** Treats NOT_FOUND as success. */
export async function unlessGone(call: Promise<object>): Promise<void> {
  try {
    await call;
  } catch (failure) {
    if (!(failure instanceof CallFailure && failure.code === status.NOT_FOUND)) throw failure;
  }
}

const pageSize = (maxEntries: number) => Math.min(maxEntries || PAGE_ENTRIES, PAGE_ENTRIES);

type Listing = Response<"ListVolumes"> | Response<"ListSnapshots">;

/**
 * Collects pages until there are `most` entries (0: all), or until the frame is full. Surplus entries of a plugin are
 * kept.
 */
async function gather<P extends Listing, T>(
  pages: AsyncIterable<P>,
  most: number,
  convert: (entry: P["entries"][number]) => T,
): Promise<{ entries: T[]; nextToken: string }> {
  const entries: T[] = [];
  let characters = 0;
  let nextToken = "";
  for await (const page of pages) {
    const converted = page.entries.map(convert);
    entries.push(...converted);
    characters += JSON.stringify(converted).length;
    nextToken = page.nextToken;
    if ((most > 0 && entries.length >= most) || characters >= PAGE_CHARACTERS) break;
  }
  return { entries, nextToken };
}
