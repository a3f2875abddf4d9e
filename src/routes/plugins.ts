import * as z from "zod";
import { namedAllocations } from "../cluster/reports/named-allocations.ts";
import type { CsiInfo, CsiPlugin, Role } from "../contracts/csi-volumes.ts";
import { badRequest, notFound } from "../platform/http/errors.ts";
import * as query from "../platform/http/query-fields.ts";
import { allowsNamespace, allowsPlugin } from "../rights/cluster-rights.ts";
import { clusterRegistry } from "../rpc/stubs.ts";
import { pluginJson, pluginStub } from "../volumes/csi/plugin-views.ts";
import { CSI_PLUGIN } from "../volumes/csi/plugins.ts";
import { nothing, type Reading } from "./server/blocking.ts";
import { ALL, blockingRead, namespaceOf } from "./server/cluster-reads.ts";
import { everyPage } from "./server/listing.ts";
import { clusterJson, clusterText } from "./server/respond.ts";
import { type Asked, type AuthorisedCall, cluster } from "./server/route.ts";

/** CSI plugins (https://developer.hashicorp.com/nomad/api-docs/plugins). */

const PluginsQuery = z.object({ type: query.text(), prefix: query.text() });
type PluginsCall = AuthorisedCall & Asked<typeof PluginsQuery>;

async function readPlugins(call: PluginsCall): Promise<Reading> {
  const { prefix } = call.asked;
  const plugins: CsiPlugin[] = [];
  let index = 0;
  for await (const page of everyPage((from) => clusterRegistry(call.env).csiPlugins(prefix, from))) {
    plugins.push(...page.plugins);
    index ||= page.index;
  }
  return { index, respond: () => clusterJson(call, plugins.map(pluginStub), { index }) };
}

async function listPlugins(call: PluginsCall): Promise<Response> {
  const { type } = call.asked;
  if (type === "") {
    if (call.dialect === "upstream") return clusterText("[]");
    throw badRequest("type: is required: csi");
  }
  if (type !== "csi") throw notFound("resource not found");
  return blockingRead([CSI_PLUGIN], readPlugins)(call);
}

/** All instances of a plugin. */
async function instancesOf(call: AuthorisedCall, id: string, role: Role): Promise<Record<string, CsiInfo>> {
  const found: (readonly [string, CsiInfo])[] = [];
  const read = (from: string) => clusterRegistry(call.env).csiPluginInstances(id, role, from);
  for await (const page of everyPage(read)) found.push(...page.instances);
  return Object.fromEntries(found);
}

/** Allocations that run a plugin and are visible to the caller; null without any right. */
async function allocationsOf(call: AuthorisedCall, infos: readonly CsiInfo[]): Promise<unknown> {
  const namespace = namespaceOf(call);
  const rights = call.grant.cluster;
  if (namespace !== ALL && !allowsNamespace(rights, namespace, "read-job")) return null;
  const ids = [...new Set(infos.map(({ AllocID }) => AllocID))].filter((id) => id !== "");
  const mayRead = (held: string) => allowsNamespace(rights, held, "read-job");
  return namedAllocations(call.env, ids, namespace === ALL ? null : namespace, mayRead);
}

async function readPlugin(call: AuthorisedCall<"id">): Promise<Reading> {
  const id = call.params.id;
  const { plugin, index } = await clusterRegistry(call.env).csiPlugin(id);
  if (!plugin) return nothing("plugin not found", index);
  const respond = async () => {
    const [controller, node] = await Promise.all([instancesOf(call, id, "controller"), instancesOf(call, id, "node")]);
    const Allocations = await allocationsOf(call, [...Object.values(controller), ...Object.values(node)]);
    return clusterJson(call, { ...pluginJson(plugin, { controller, node }), Allocations }, { index });
  };
  return { index, respond };
}

export const pluginRoutes = [
  cluster("GET /plugins", { rights: (rights) => allowsPlugin(rights, "list"), query: PluginsQuery }, listPlugins),
  cluster(
    "GET /plugin/csi/:id",
    { rights: (rights) => allowsPlugin(rights, "read") },
    blockingRead([CSI_PLUGIN], readPlugin),
  ),
];
