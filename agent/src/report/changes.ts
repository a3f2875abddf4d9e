import { isDeepStrictEqual } from "node:util";
import {
  frameBytes,
  MAX_VOLUME_CHANGES,
  type Report,
  type ReportChange,
  VOLUME_FRAME_BYTES,
  type VolumesChange,
} from "@sallyport/agent-protocol";

/** The report the service has. Volumes in `held` but not in the maps exist and are not reported yet. */
export type SentReport = Report & { readonly held?: string[] };

/** The changes of the node and of its volumes; undefined where there are none. */
interface Changes {
  readonly node: ReportChange["node"] | undefined;
  readonly volumes: VolumesChange | undefined;
}

export function changesOf(sent: SentReport, now: Report): Changes {
  const { HostVolumes: _, ...fields } = now.node;
  const node = fieldsChanged(sent, fields);
  return { node: Object.keys(node).length === 0 ? undefined : node, volumes: volumesChanged(sent, now) };
}

/** As `changesOf`, for services without volume changes: maps of volumes are sent whole. */
export function wholeMapsOf(sent: SentReport, now: Report): ReportChange | undefined {
  const node = fieldsChanged(sent, now.node);
  const sameVolumes = isDeepStrictEqual(now.unavailableVolumes, sent.unavailableVolumes);
  if (Object.keys(node).length === 0 && sameVolumes) return undefined;
  return { node, ...(sameVolumes ? {} : { unavailableVolumes: now.unavailableVolumes }) };
}

const fieldsChanged = (sent: SentReport, now: ReportChange["node"]): ReportChange["node"] =>
  Object.fromEntries(
    Object.entries(now).filter(([field, value]) => !isDeepStrictEqual(value, sent.node[field as keyof Report["node"]])),
  );

function volumesChanged(sent: SentReport, now: Report): VolumesChange | undefined {
  const [was, is] = [volumesById(sent), volumesById(now)];
  const differs = (id: string, volume: object) => {
    const before = was.get(id);
    // Most volumes are those of the previous report.
    return before !== volume && !isDeepStrictEqual(before, volume);
  };
  const usable = Object.values(now.node.HostVolumes).filter((volume) => differs(volume.ID, volume));
  const unavailable = now.unavailableVolumes.filter((volume) => differs(volume.id, volume));
  const gone = [...was.keys()].filter((id) => !is.has(id));
  return usable.length + unavailable.length + gone.length === 0 ? undefined : { usable, unavailable, gone };
}

/** Of each report that is compared: the next comparison is with the same one. */
const byId = new WeakMap<SentReport, ReadonlyMap<string, object>>();

function volumesById(report: SentReport): ReadonlyMap<string, object> {
  const known = byId.get(report);
  if (known) return known;
  const volumes = new Map<string, object>();
  for (const id of report.held ?? []) volumes.set(id, {});
  for (const volume of Object.values(report.node.HostVolumes)) volumes.set(volume.ID, volume);
  for (const volume of report.unavailableVolumes) volumes.set(volume.id, volume);
  byId.set(report, volumes);
  return volumes;
}

/** Splits a change into parts that fit a frame. Released names come first, so that other volumes can take them. */
export function inFrames({ usable, unavailable, gone }: VolumesChange): VolumesChange[] {
  const entries = [
    ...gone.map((id) => ({ gone: [id] })),
    ...unavailable.map((volume) => ({ unavailable: [volume] })),
    ...usable.map((volume) => ({ usable: [volume] })),
  ];
  const parts: Partial<VolumesChange>[][] = [];
  let room = 0;
  for (const entry of entries) {
    const bytes = frameBytes(JSON.stringify(entry));
    if (bytes > room || parts.at(-1)?.length === MAX_VOLUME_CHANGES) {
      parts.push([]);
      room = VOLUME_FRAME_BYTES;
    }
    parts.at(-1)?.push(entry);
    room -= bytes;
  }
  return parts.map((part) => ({
    usable: part.flatMap((entry) => entry.usable ?? []),
    unavailable: part.flatMap((entry) => entry.unavailable ?? []),
    gone: part.flatMap((entry) => entry.gone ?? []),
  }));
}

/**
 * A report limited to the volumes that fit, with the ids of all volumes if some do not. The others follow as changes.
 */
export function within(bytes: number, report: Report): SentReport {
  const { HostVolumes, ...node } = report.node;
  const bare = { node: { ...node, HostVolumes: {} }, unavailableVolumes: [] };
  const held = [...volumesById(report).keys()];
  let room = bytes - frameBytes(JSON.stringify({ ...bare, held }));
  const fits = (entry: unknown) => {
    room -= frameBytes(JSON.stringify(entry)) + 2;
    return room >= 0;
  };
  const unavailableVolumes = report.unavailableVolumes.filter(fits);
  const usable = Object.entries(HostVolumes).filter(fits);
  const sent = { node: { ...node, HostVolumes: Object.fromEntries(usable) }, unavailableVolumes };
  return usable.length + unavailableVolumes.length === held.length ? sent : { ...sent, held };
}
