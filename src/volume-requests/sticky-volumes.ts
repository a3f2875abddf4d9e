interface VolumeRequest {
  readonly Type?: string;
  readonly Source?: string;
  readonly Sticky?: boolean;
  readonly PerAlloc?: boolean;
}

export interface TaskGroup {
  readonly Name?: string;
  readonly Volumes?: Readonly<Record<string, VolumeRequest>> | null;
}

/**
 * The sticky host volumes of a task group. Volumes with `PerAlloc` cannot be sticky.
 */
export function stickyVolumes(groups: readonly TaskGroup[] | null | undefined, group: string): string[] {
  const asked = groups?.find(({ Name }) => Name === group)?.Volumes ?? {};
  const names = Object.values(asked)
    .filter(({ Type, Sticky = false, PerAlloc = false }) => Type === "host" && Sticky && !PerAlloc)
    .map(({ Source = "" }) => Source);
  return [...new Set(names)].filter((name) => name !== "");
}
