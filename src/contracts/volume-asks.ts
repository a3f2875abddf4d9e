import { isPlainObject } from "../lib/json.ts";

export interface MountOptions {
  readonly FSType: string;
  readonly MountFlags: readonly string[];
}

/** What a task group asks of a CSI volume. Empty modes are the volume's. */
export interface VolumeAsk {
  readonly source: string;
  /** Each allocation has a volume of its own, called by its number. */
  readonly perAlloc: boolean;
  readonly readOnly: boolean;
  readonly accessMode: string;
  readonly attachmentMode: string;
  /** Laid over the volume's; null = as the volume has them. */
  readonly mount: MountOptions | null;
}

export interface AskingGroup {
  readonly Name?: string;
  readonly Volumes?: Readonly<Record<string, VolumeRequest>> | null;
}
interface VolumeRequest {
  readonly Type?: string;
  readonly Source?: string;
  readonly ReadOnly?: boolean;
  readonly PerAlloc?: boolean;
  readonly AccessMode?: string;
  readonly AttachmentMode?: string;
  readonly MountOptions?: unknown;
}

/** The CSI volumes that a group asks for; one that it asks for twice is written if either request may write. */
export function csiAsksOf({ Volumes }: AskingGroup): VolumeAsk[] {
  const asks = new Map<string, VolumeAsk>();
  for (const request of Object.values(Volumes ?? {})) {
    const { Type, Source = "", ReadOnly = false, PerAlloc = false, AccessMode = "", AttachmentMode = "" } = request;
    if (Type !== "csi" || Source === "") continue;
    const key = JSON.stringify([Source, PerAlloc]);
    asks.set(key, {
      ...{ source: Source, perAlloc: PerAlloc, accessMode: AccessMode, attachmentMode: AttachmentMode },
      readOnly: ReadOnly && (asks.get(key)?.readOnly ?? true),
      mount: mountOf(request.MountOptions),
    });
  }
  return [...asks.values()];
}

/** Which volume an allocation of this name gets. */
export function volumeIdOf({ source, perAlloc }: Pick<VolumeAsk, "source" | "perAlloc">, allocName: string): string {
  if (!perAlloc) return source;
  const [index = ""] = /\[\d+\]$/.exec(allocName) ?? [];
  return `${source}${index}`;
}

/** A scheduler's own object, of which nobody has checked this part. */
function mountOf(given: unknown): MountOptions | null {
  if (!isPlainObject(given)) return null;
  const { FSType, MountFlags } = given;
  const flags = Array.isArray(MountFlags) ? MountFlags.filter((flag) => typeof flag === "string") : [];
  const type = typeof FSType === "string" ? FSType : "";
  return type === "" && flags.length === 0 ? null : { FSType: type, MountFlags: flags };
}
