import { ok, type Result } from "../result.ts";
import type { HostVolumeRequest } from "./host-volume.ts";

/** What the rules of policies say of a new or changed volume: why not, or what they warn of. */
export type Judgement = Result<readonly string[]>;

/**
 * Judges a volume by the rules of policies before anything is asked of a node.
 * @param override soft rules only warn
 */
export const judgeHostVolume = async (_env: Env, _request: HostVolumeRequest, _override: boolean): Promise<Judgement> =>
  ok([]);
