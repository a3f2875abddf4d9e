import { checkVolume, type VolumeProperties } from "../access/policies/volume-rules.ts";
import type { HostVolumeRequest } from "../contracts/host-volumes.ts";
import type { GoverningRule } from "../contracts/policies.ts";
import { ok, type Result } from "../lib/result.ts";
import { clusterRegistry } from "../rpc/stubs.ts";

/** Result of policy rules for a new or changed volume: a refusal, or warnings. */
type Judgement = Result<readonly string[]>;

/**
 * Evaluates policy rules before any node is called.
 * @param rules those of the volume's namespace, read for each request, so that a change applies to the next one
 * @param override soft rules only warn
 */
export async function judgeHostVolume(
  env: Env,
  rules: readonly GoverningRule[],
  request: HostVolumeRequest,
  override: boolean,
): Promise<Judgement> {
  return rules.length === 0 ? ok([]) : checkVolume(rules, await factsOf(env, request), override);
}

/** Requested values, with those of the volume or its node as defaults. */
async function factsOf(env: Env, request: HostVolumeRequest): Promise<VolumeProperties> {
  const { id, name, namespace, nodePool, nodeId } = request;
  const found = id === null ? null : await clusterRegistry(env).readHostVolume(id);
  const volume = found?.volume.namespace === namespace ? found.volume : null;
  return {
    name,
    namespace,
    pluginId: request.pluginId || (volume?.pluginId ?? ""),
    capacityMax: Math.max(request.capacityMax, request.capacityBytes),
    nodePool: volume?.nodePool ?? (nodePool || (nodeId === "" ? "" : await poolOf(env, nodeId))),
  };
}

/** Null for a missing node, which the registry refuses. */
async function poolOf(env: Env, nodeId: string): Promise<string | null> {
  const node = await clusterRegistry(env).readNode(nodeId);
  return node && (JSON.parse(node.body) as { NodePool: string }).NodePool;
}
