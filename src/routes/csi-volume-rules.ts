import { checkVolume } from "../access/policies/volume-rules.ts";
import type { CsiRequest } from "../contracts/csi-volumes.ts";
import type { GoverningRule } from "../contracts/policies.ts";
import { ok, type Result } from "../lib/result.ts";

/** Evaluates policy rules before any plugin is called; see `judgeHostVolume`. Node pools do not apply. */
export function judgeCsiVolume(
  rules: readonly GoverningRule[],
  { name, namespace, pluginId, capacityMax }: CsiRequest,
  override: boolean,
): Result<readonly string[]> {
  if (rules.length === 0) return ok([]);
  return checkVolume(rules, { name, namespace, pluginId, capacityMax, nodePool: null }, override);
}
