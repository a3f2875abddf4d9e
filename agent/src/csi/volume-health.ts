import { status } from "@grpc/grpc-js";
import { type CsiVolumeProblem, frameBytes, MAX_CSI_PROBLEMS, type ReportedCsiNode } from "@sallyport/agent-protocol";
import { USAGE_UNIT } from "@sallyport/csi-wire";
import type { PluginClient } from "./client.ts";
import { countOf } from "./convert.ts";
import { CallFailure } from "./failure.ts";
import { mountPoints, placeOf } from "./mount-table.ts";
import type { Published, Uses } from "./uses.ts";

/** Timeout of one statistics call, so that hung storage delays the other volumes little. */
const STATS_MS = 5_000;
const MAX_REASON_LENGTH = 1_024;
/** Upper bound of a plugin's problems as JSON: the report of the whole node has to fit a frame. */
const MAX_PROBLEM_BYTES = 64 * 1024;

interface VolumeUsage {
  readonly externalId: string;
  readonly usedBytes: number;
  readonly totalBytes: number;
}

/** The published volumes of a plugin: those that cannot be used as they should, and the usage of each that is known. */
export interface VolumeHealth {
  readonly problems: readonly CsiVolumeProblem[];
  readonly usage: readonly VolumeUsage[];
}
export const NO_VOLUMES: VolumeHealth = { problems: [], usage: [] };

interface Inspection {
  readonly client: PluginClient;
  readonly pluginId: string;
  readonly info: ReportedCsiNode["NodeInfo"];
  readonly uses: Uses;
  /** Runs a task while no operation of the volume runs; undefined when one runs now. */
  readonly whenIdle: <T>(externalId: string, task: () => Promise<T>) => Promise<T> | undefined;
  /** The last inspection, for volumes in use by an operation. */
  readonly last: VolumeHealth;
}

/** Inspects the published volumes of a plugin, one at a time: the mount table, and one call each if the plugin has it. */
export async function inspectVolumes({ uses, pluginId, ...inspection }: Inspection): Promise<VolumeHealth> {
  const problems: CsiVolumeProblem[] = [];
  const usage = new Map<string, VolumeUsage>();
  for (const volume of await uses.all(pluginId)) {
    const { externalId, allocId } = volume;
    const seen = await inspection.whenIdle(
      externalId,
      async (): Promise<Seen> => ((await uses.isHere(volume)) ? inspect(volume, inspection) : {}),
    );
    const known = inspection.last.problems.find((each) => each.ExternalID === externalId && each.AllocID === allocId);
    const Reason = seen ? seen.problem : known?.Reason;
    if (Reason !== undefined)
      problems.push({ ExternalID: externalId, AllocID: allocId, Reason: Reason.slice(0, MAX_REASON_LENGTH) });
    if (seen?.usage) usage.set(externalId, seen.usage);
  }
  return { problems: reportable(problems), usage: [...usage.values()] };
}

/** The first problems, up to the bounds of a report. */
export function reportable(problems: readonly CsiVolumeProblem[]): CsiVolumeProblem[] {
  let room = MAX_PROBLEM_BYTES;
  return problems.slice(0, MAX_CSI_PROBLEMS).filter((problem) => {
    room -= frameBytes(JSON.stringify(problem));
    return room >= 0;
  });
}

interface Seen {
  readonly problem?: string;
  readonly usage?: VolumeUsage;
}

async function inspect(volume: Published, { client, info }: Pick<Inspection, "client" | "info">): Promise<Seen> {
  const { externalId: volumeId, path: volumePath, place, staging } = volume;
  if (place !== "none" && (await placeOf(volumePath, await mountPoints())) !== place)
    return { problem: `the ${place} of the plugin at ${volumePath} was removed` };
  if (!info.SupportsStats) return {};
  const request = { volumeId, volumePath, stagingTargetPath: staging };
  try {
    const answer = await client.call("NodeGetVolumeStats", request, Date.now() + STATS_MS);
    const { abnormal = false, message = "" } = answer.volumeCondition ?? {};
    const bytes = answer.usage.find(({ unit }) => unit === USAGE_UNIT.bytes);
    return {
      ...(abnormal && info.SupportsCondition && { problem: `its condition is abnormal: ${oneLine(message)}` }),
      ...(bytes && {
        usage: { externalId: volumeId, usedBytes: countOf(bytes.used), totalBytes: countOf(bytes.total) },
      }),
    };
  } catch (failure) {
    if (!(failure instanceof CallFailure)) throw failure;
    // Other failures are of the plugin, whose health shows them.
    if (failure.code !== status.NOT_FOUND) return {};
    return { problem: `the plugin does not find it at ${volumePath}: ${oneLine(failure.message)}` };
  }
}

const oneLine = (text: string): string => text.replace(/\p{Cc}+/gu, " ").toWellFormed();
