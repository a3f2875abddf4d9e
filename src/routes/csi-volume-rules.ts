import { checkVolume, governs } from "../access/policies/volume-rules.ts";
import type { CsiRequest } from "../contracts/csi-volumes.ts";
import { accessControl } from "../contracts/stubs.ts";
import { ok, type Result } from "../lib/result.ts";

/** Evaluates policy rules before any plugin is called; see `judgeHostVolume`. Node pools do not apply. */
export async function judgeCsiVolume(
  env: Env,
  { name, namespace, pluginId, capacityMax }: CsiRequest,
  override: boolean,
): Promise<Result<readonly string[]>> {
  const rules = (await accessControl(env).volumeRules()).filter((rule) => governs(rule, namespace));
  if (rules.length === 0) return ok([]);
  return checkVolume(rules, { name, namespace, pluginId, capacityMax, nodePool: null }, override);
}
