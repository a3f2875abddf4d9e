import { NODE_RPC, type Response } from "@sallyport/csi-wire";
import { type Context, lacksMode, unlessGone, type Works } from "./controller.ts";
import { capabilityOf, countOf, NEWER_MODES, rangeOf } from "./convert.ts";
import { placeOf } from "./mount-table.ts";
import type { CsiOperation } from "./operation.ts";
import type { Uses } from "./uses.ts";

/** The node operations as plugin calls. */
export const nodeWorks = (uses: Uses): Works<Extract<CsiOperation, `csi.node.${string}`>> => ({
  "csi.node.publish": async (params, { client, secrets, until }) => {
    const { externalId, capability, mount, readOnly, context, publishContext } = params;
    const path = uses.target(params);
    const offered = await capabilitiesOf({ client, until });
    if (NEWER_MODES.has(capability.accessMode) && !has(offered, NODE_RPC.singleNodeMultiWriter))
      throw lacksMode(params.pluginId, "NodeGetCapabilities", capability.accessMode);
    const stages = has(offered, NODE_RPC.stageUnstageVolume);
    const stagingTargetPath = stages ? uses.staging(params) : "";
    const common = {
      volumeId: externalId,
      publishContext,
      stagingTargetPath,
      volumeCapability: capabilityOf(capability, mount),
      secrets,
      volumeContext: context,
    };
    await uses.add(params);
    if (stages) await client.call("NodeStageVolume", common, until);
    await client.call("NodePublishVolume", { ...common, targetPath: path, readonly: readOnly }, until);
    await uses.published(params, await placeOf(path), stagingTargetPath);
    return { path };
  },

  "csi.node.detach": async (params, { client, secrets, until }) => {
    const volumeId = params.externalId;
    const stages = await isStaged({ client, secrets, until });
    await unlessGone(client.call("NodeUnpublishVolume", { volumeId, targetPath: uses.target(params) }, until));
    if (!(await uses.remove(params))) return {};
    const stagingTargetPath = uses.staging(params);
    if (stages) await unlessGone(client.call("NodeUnstageVolume", { volumeId, stagingTargetPath }, until));
    await uses.forget(params);
    return {};
  },

  "csi.node.expand": async (params, { client, secrets, until }) => {
    const { externalId, capacityMin, capacityMax, capability, mount } = params;
    const stages = await isStaged({ client, secrets, until });
    const request = {
      volumeId: externalId,
      volumePath: uses.target(params),
      capacityRange: rangeOf(capacityMin, capacityMax),
      stagingTargetPath: stages ? uses.staging(params) : "",
      volumeCapability: capability && capabilityOf(capability, mount),
      secrets,
    };
    return { capacityBytes: countOf((await client.call("NodeExpandVolume", request, until)).capacityBytes) };
  },
});

type Offered = Response<"NodeGetCapabilities">["capabilities"];

/** Queried each time: the plugin may have been replaced by another version. */
const capabilitiesOf = async ({ client, until }: Pick<Context, "client" | "until">): Promise<Offered> =>
  (await client.call("NodeGetCapabilities", {}, until)).capabilities;

const has = (offered: Offered, type: number): boolean => offered.some(({ rpc }) => rpc?.type === type);

const isStaged = async (context: Context): Promise<boolean> =>
  has(await capabilitiesOf(context), NODE_RPC.stageUnstageVolume);
