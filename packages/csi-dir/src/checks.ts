import { ACCESS_MODE, type Message } from "@sallyport/csi-wire";
import { invalid, outOfRange } from "./refusal.ts";

type Capability = Message<"VolumeCapability">;

const GIB = 1024n ** 3n;
export const MAX_BYTES = 16n * 1024n ** 4n;
const MAX_TEXT_BYTES = 128;
const MODES: readonly number[] = Object.values(ACCESS_MODE);
const ON_MANY_NODES: readonly number[] = [
  ACCESS_MODE.multiNodeReaderOnly,
  ACCESS_MODE.multiNodeSingleWriter,
  ACCESS_MODE.multiNodeMultiWriter,
];

export const isForManyNodes = (mode: number): boolean => ON_MANY_NODES.includes(mode);

/** Checks that a field is present. */
export function required(field: string, value: string): string {
  if (value === "") throw invalid(`${field} is missing`);
  return value;
}

export function nameOf(field: string, value: string): string {
  if (Buffer.byteLength(required(field, value)) > MAX_TEXT_BYTES)
    throw invalid(`${field} has more than ${MAX_TEXT_BYTES} bytes`);
  return value;
}

/** The fault of an unsupported capability, or undefined. */
export function unsupported({ block, mount, accessMode }: Capability): string | undefined {
  if (block) return "block volumes are not made here: volumes are directories";
  if (!mount) return "access_type is missing";
  if (!accessMode || accessMode.mode === ACCESS_MODE.unknown) return "access_mode is missing";
  if (!MODES.includes(accessMode.mode)) return `access_mode ${accessMode.mode} is not known here`;
  return undefined;
}

/** Checks a capability. @returns its access mode */
export function supported(capability: Capability | null): number {
  if (!capability) throw invalid("volume_capability is missing");
  const fault = unsupported(capability);
  if (fault !== undefined) throw invalid(`volume_capability: ${fault}`);
  return capability.accessMode?.mode ?? ACCESS_MODE.unknown;
}

export function allSupported(capabilities: readonly Capability[]): void {
  if (capabilities.length === 0) throw invalid("volume_capabilities are missing");
  for (const capability of capabilities) supported(capability);
}

export interface Range {
  readonly least: bigint;
  /** 0: no limit. */
  readonly most: bigint;
}

export function rangeOf(range: Message<"CapacityRange"> | null): Range {
  const least = BigInt(range?.requiredBytes ?? 0);
  const most = BigInt(range?.limitBytes ?? 0);
  if (least < 0n || most < 0n) throw invalid("capacity_range is negative");
  if (most > 0n && most < least) throw outOfRange("capacity_range: limit_bytes is less than required_bytes");
  if (least > MAX_BYTES) throw outOfRange(`capacity_range: a volume has at most ${MAX_BYTES} bytes`);
  return { least, most };
}

/** The size of a new volume whose content needs `content` bytes. */
export function sizeOf({ least, most }: Range, content: bigint): bigint {
  const wanted = least > 0n ? least : most > 0n && most < GIB ? most : GIB;
  const size = least > 0n || wanted > content ? wanted : content;
  if (size < content || (most > 0n && size > most)) throw outOfRange(`capacity_range: the source has ${content} bytes`);
  return size;
}

export const fits = (bytes: bigint, { least, most }: Range): boolean =>
  bytes >= least && (most === 0n || bytes <= most);

export const sameMap = (a: Readonly<Record<string, string>>, b: Readonly<Record<string, string>>): boolean =>
  Object.keys(a).length === Object.keys(b).length && Object.entries(a).every(([key, value]) => b[key] === value);

/** A returned context must equal the one that was issued. It may be empty, since volumes can be registered by hand. */
export function checkContext(
  field: string,
  given: Readonly<Record<string, string>>,
  known: Record<string, string>,
): void {
  if (Object.keys(given).length > 0 && !sameMap(given, known)) throw invalid(`${field} is not this volume's`);
}

/** The only mutable parameter is `mode`, the permissions of the volume's directory. */
export function mutable(given: Readonly<Record<string, string>>): void {
  for (const [key, value] of Object.entries(given)) {
    if (key !== "mode") throw invalid(`mutable_parameters: ${key.slice(0, 64)} is not supported`);
    if (!/^0?[0-7]{3}$/.test(value)) throw invalid("mutable_parameters: mode is not three octal digits, such as 0750");
  }
}
