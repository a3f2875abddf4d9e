export interface MountOptions {
  readonly FSType: string;
  readonly MountFlags: readonly string[];
}

/** A CSI volume request of a task group. Empty modes = those of the volume. */
export interface CsiVolumeRequest {
  readonly source: string;
  /** Each allocation uses its own volume, named by its index. */
  readonly perAlloc: boolean;
  readonly readOnly: boolean;
  readonly accessMode: string;
  readonly attachmentMode: string;
  /** Merged over the options of the volume; null = unchanged. */
  readonly mount: MountOptions | null;
}

/** The fields of a job that determine its volumes. */
export interface VolumeJob {
  readonly TaskGroups?: readonly VolumeGroup[] | null;
}

export interface VolumeGroup {
  readonly Name?: string;
  readonly Volumes?: Readonly<Record<string, GroupVolume>> | null;
}
interface GroupVolume {
  readonly Type?: string;
  readonly Source?: string;
  readonly ReadOnly?: boolean;
  readonly Sticky?: boolean;
  readonly PerAlloc?: boolean;
  readonly AccessMode?: string;
  readonly AttachmentMode?: string;
  readonly MountOptions?: unknown;
}
