import * as z from "zod";
import { HEX_PREFIX_RULE, hexRange } from "../cluster/reports/hex-prefix.ts";
import { CSI_LIST_RIGHTS } from "../contracts/cluster-rights.ts";
import type { VolumeQuery } from "../contracts/host-volumes.ts";
import { badRequest, denied, notFound } from "../platform/http/errors.ts";
import * as query from "../platform/http/query-fields.ts";
import { allowsNamespace } from "../rights/cluster-rights.ts";
import { clusterRegistry } from "../rpc/stubs.ts";
import { CSI_VOLUME } from "../volumes/csi/volume-store.ts";
import { csiVolumeFields, csiVolumeStub, type ShownCsiVolume, shownCsiVolume } from "../volumes/csi/volume-views.ts";
import {
  hostVolumeFields,
  hostVolumeJson,
  hostVolumeStub,
  type ShownHostVolume,
  shownHostVolume,
} from "../volumes/host/volume-views.ts";
import { allowsOne } from "./csi-access.ts";
import type { Reading } from "./server/blocking.ts";
import { ALL, blockingRead, byNamespace, namespaceOf } from "./server/cluster-reads.ts";
import { readList } from "./server/listing.ts";
import { clusterText } from "./server/respond.ts";
import { type Asked, type AuthorisedCall, cluster } from "./server/route.ts";

/** Lists of host and CSI volumes (https://developer.hashicorp.com/nomad/api-docs/volumes). */

const VolumesQuery = z.object({
  type: query.text(),
  node_id: query.text(),
  node_pool: query.text(),
  plugin_id: query.text(),
  prefix: query.text(),
});
type VolumesCall = AuthorisedCall & Asked<typeof VolumesQuery>;

/** Present on every node with an agent. */
const BUILT_IN_PLUGIN = "mkdir";
const UUID_LENGTH = 36;

/** Node filter: one node, or an id prefix in whole bytes. In the upstream dialect the value is a whole id. */
function nodesOf({ asked, dialect }: VolumesCall): Pick<VolumeQuery, "nodeId" | "nodePrefix"> {
  const given = asked.node_id;
  if (given === "") return {};
  if (dialect === "upstream") return { nodeId: given.toLowerCase() };
  const range = hexRange(given);
  if (!range) throw badRequest(`node_id: ${HEX_PREFIX_RULE}`);
  return range[0].length === UUID_LENGTH ? { nodeId: range[0] } : { nodePrefix: range[0] };
}

/** Plugin filter: an existing plugin, or an id prefix in bytes. */
async function pluginsOf(
  { asked, dialect }: VolumesCall,
  isThere: (pluginId: string) => Promise<boolean>,
): Promise<Pick<VolumeQuery, "pluginId" | "pluginPrefix">> {
  const given = asked.plugin_id;
  if (given === "") return {};
  if (dialect === "upstream" || (await isThere(given))) return { pluginId: given };
  if (hexRange(given)) return { pluginPrefix: given };
  throw badRequest(`plugin_id: is no plugin of a volume, and as a prefix it ${HEX_PREFIX_RULE}`);
}

async function readHostVolumes(call: VolumesCall): Promise<Reading> {
  const { asked } = call;
  const registry = clusterRegistry(call.env);
  const namespace = namespaceOf(call);
  const wanted = {
    namespace: namespace === ALL ? null : namespace,
    ...nodesOf(call),
    ...(await pluginsOf(call, async (id) => id === BUILT_IN_PLUGIN || (await registry.hasHostVolumesOf(id)))),
    ...(asked.node_pool && { nodePool: asked.node_pool }),
    prefix: asked.prefix,
  };
  return readList<ShownHostVolume>(call, {
    ...byNamespace(
      (cut) => registry.hostVolumes({ ...wanted, ...cut }),
      (volume) => shownHostVolume(hostVolumeJson(volume)),
    ),
    stub: hostVolumeStub,
    fields: hostVolumeFields,
    // Without the right, the list is empty, also per namespace in a list over all.
    visible: ({ Namespace }) => allowsNamespace(call.grant.cluster, Namespace, "host-volume-read"),
  });
}

/** Prefix of node ids: bytes, or any text in the upstream dialect. */
function nodePrefixOf({ asked, dialect }: VolumesCall): string {
  const given = asked.node_id.toLowerCase();
  if (dialect === "upstream" || given === "") return given;
  const range = hexRange(given);
  if (!range) throw badRequest(`node_id: ${HEX_PREFIX_RULE}`);
  return range[0];
}

async function readCsiVolumes(call: VolumesCall): Promise<Reading> {
  const registry = clusterRegistry(call.env);
  const namespace = namespaceOf(call);
  if (!allowsOne(call.grant.cluster, namespace, CSI_LIST_RIGHTS)) throw denied();
  const wanted = {
    namespace: namespace === ALL ? null : namespace,
    nodePrefix: nodePrefixOf(call),
    ...(await pluginsOf(call, (id) => registry.hasCsiVolumesOf(id))),
    prefix: call.asked.prefix,
  };
  return readList<ShownCsiVolume>(call, {
    ...byNamespace((cut) => registry.csiVolumes({ ...wanted, ...cut }), shownCsiVolume),
    stub: csiVolumeStub,
    fields: csiVolumeFields,
    visible: ({ Namespace }) => allowsOne(call.grant.cluster, Namespace, CSI_LIST_RIGHTS),
  });
}

async function listVolumes(call: VolumesCall): Promise<Response> {
  const { type } = call.asked;
  if (type === "") {
    if (call.dialect === "upstream") return clusterText("[]");
    throw badRequest("type: is required: csi or host");
  }
  if (type !== "host" && type !== "csi") throw notFound("resource not found");
  const [table, read] = type === "csi" ? [CSI_VOLUME, readCsiVolumes] : ["HostVolume", readHostVolumes];
  return blockingRead([table], read)(call);
}

export const volumeRoutes = [cluster("GET /volumes", { rights: "any", query: VolumesQuery }, listVolumes)];
