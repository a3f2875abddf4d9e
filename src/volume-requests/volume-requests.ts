import type { CsiVolumeRequest, MountOptions, VolumeGroup } from "../contracts/volume-requests.ts";
import { isPlainObject } from "../lib/json.ts";

/** The CSI volume requests of a group, merged by volume: writable if any request is. */
export function csiRequestsOf({ Volumes }: VolumeGroup): CsiVolumeRequest[] {
  const requests = new Map<string, CsiVolumeRequest>();
  for (const request of Object.values(Volumes ?? {})) {
    const { Type, Source = "", ReadOnly = false, PerAlloc = false, AccessMode = "", AttachmentMode = "" } = request;
    if (Type !== "csi" || Source === "") continue;
    const key = JSON.stringify([Source, PerAlloc]);
    requests.set(key, {
      source: Source,
      perAlloc: PerAlloc,
      accessMode: AccessMode,
      attachmentMode: AttachmentMode,
      readOnly: ReadOnly && (requests.get(key)?.readOnly ?? true),
      mount: mountOf(request.MountOptions),
    });
  }
  return [...requests.values()];
}

/** The names of the sticky host volumes of a task group. Volumes with `PerAlloc` cannot be sticky. */
export function stickyVolumes(groups: readonly VolumeGroup[] | null | undefined, group: string): string[] {
  const names = Object.values(groups?.find(({ Name }) => Name === group)?.Volumes ?? {})
    .filter(({ Type, Sticky = false, PerAlloc = false }) => Type === "host" && Sticky && !PerAlloc)
    .map(({ Source = "" }) => Source);
  return [...new Set(names)].filter((name) => name !== "");
}

/** The volume of an allocation, by the allocation's name. */
export function volumeIdOf(
  { source, perAlloc }: Pick<CsiVolumeRequest, "source" | "perAlloc">,
  allocName: string,
): string {
  if (!perAlloc) return source;
  const [index = ""] = /\[\d+\]$/.exec(allocName) ?? [];
  return `${source}${index}`;
}

/** Reads unchecked mount options from a scheduler's object. */
function mountOf(given: unknown): MountOptions | null {
  if (!isPlainObject(given)) return null;
  const { FSType, MountFlags } = given;
  const flags = Array.isArray(MountFlags) ? MountFlags.filter((flag) => typeof flag === "string") : [];
  const type = typeof FSType === "string" ? FSType : "";
  return type === "" && flags.length === 0 ? null : { FSType: type, MountFlags: flags };
}
