import { isDeepStrictEqual } from "node:util";
import {
  frameBytes,
  MAX_VOLUME_CHANGES,
  type Report,
  type ReportChange,
  VOLUME_FRAME_BYTES,
  type VolumesChange,
} from "@sallyport/agent-protocol";

/** What the service has been told: volumes in `held` that the maps leave out are there, and nothing is told of them yet. */
export type Told = Report & { readonly held?: string[] };

/** What changed of the node and of its volumes since something was told; undefined where nothing did. */
export interface Changes {
  readonly node: ReportChange["node"] | undefined;
  readonly volumes: VolumesChange | undefined;
}

export function changesOf(told: Told, now: Report): Changes {
  const { HostVolumes: _, ...node } = fieldsChanged(told, now);
  return { node: Object.keys(node).length === 0 ? undefined : node, volumes: volumesChanged(told, now) };
}

/** As `changesOf`, for a service of the first release: maps of volumes are told whole. */
export function wholeMapsOf(told: Told, now: Report): ReportChange | undefined {
  const node = fieldsChanged(told, now);
  const sameVolumes = isDeepStrictEqual(now.unavailableVolumes, told.unavailableVolumes);
  if (Object.keys(node).length === 0 && sameVolumes) return undefined;
  return { node, ...(sameVolumes ? {} : { unavailableVolumes: now.unavailableVolumes }) };
}

const fieldsChanged = (told: Told, now: Report): ReportChange["node"] =>
  Object.fromEntries(
    Object.entries(now.node).filter(
      ([field, value]) => !isDeepStrictEqual(value, told.node[field as keyof Report["node"]]),
    ),
  );

function volumesChanged(told: Told, now: Report): VolumesChange | undefined {
  const [was, is] = [volumesById(told), volumesById(now)];
  const differs = (id: string, volume: object) => !isDeepStrictEqual(was.get(id), volume);
  const usable = Object.values(now.node.HostVolumes).filter((volume) => differs(volume.ID, volume));
  const unavailable = now.unavailableVolumes.filter((volume) => differs(volume.id, volume));
  const gone = [...was.keys()].filter((id) => !is.has(id));
  return usable.length + unavailable.length + gone.length === 0 ? undefined : { usable, unavailable, gone };
}

const volumesById = ({ node, unavailableVolumes, held = [] }: Told) =>
  new Map<string, object>([
    ...held.map((id) => [id, {}] as const),
    ...Object.values(node.HostVolumes).map((volume) => [volume.ID, volume] as const),
    ...unavailableVolumes.map((volume) => [volume.id, volume] as const),
  ]);

/** A change in parts, each of which fits a frame. Names that are given up come first, so that others can take them. */
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
 * A report with as many of its volumes as fit so many bytes, and the ids of all when some do not.
 * The others are told as changes of what this one says.
 */
export function within(bytes: number, report: Report): Told {
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
  const told = { node: { ...node, HostVolumes: Object.fromEntries(usable) }, unavailableVolumes };
  return usable.length + unavailableVolumes.length === held.length ? told : { ...told, held };
}
