import { isDeepStrictEqual } from "node:util";
import type { CsiRequest, CsiVolume, Texts } from "../../contracts/csi-volumes.ts";
import type { Capability } from "../../contracts/host-volumes.ts";
import { ok, type Refusal, type Result, refuse } from "../../lib/result.ts";
import { joinedErrors } from "../joined-errors.ts";
import { REDACTED } from "./volume-views.ts";

/** The result of merging a request into an existing volume (docs/internals/wire/volumes.md). */
export interface Merged {
  readonly volume: CsiVolume;
  /** The plugin has to expand the volume first. */
  readonly grows: boolean;
  /** The plugin has to change mutable parameters first. */
  readonly modifies: boolean;
}

const refused = (reason: string): Refusal => refuse("invalid", `unable to update volume: ${reason}`);

/**
 * @param volume including its mount flags
 * @param modes modes of its first claim
 */
export function merged(
  volume: CsiVolume,
  request: CsiRequest,
  inUse: boolean,
  modes: Capability | null,
): Result<Merged> {
  const faults: string[] = [];
  const fixed = (is: string, asked: string, what: string): void => {
    if (asked !== "" && asked !== is) faults.push(`volume ${what} cannot be updated`);
  };
  fixed(volume.name, request.name, "name");
  fixed(volume.externalId, request.externalId, "external ID");
  fixed(volume.pluginId, request.pluginId, "plugin ID");
  fixed(volume.cloneId, request.cloneId, "clone ID");
  fixed(volume.snapshotId, request.snapshotId, "snapshot ID");
  if (!isEmpty(request.parameters) && !isDeepStrictEqual(request.parameters, volume.parameters))
    faults.push("volume parameters cannot be updated");
  const asked = request.topologyRequest;
  if (asked && volume.topologies.length > 0 && !isDeepStrictEqual(plain(asked), plain(volume.topologyRequest)))
    faults.push("volume topology request update was not compatible with existing topology");
  if (modes && !request.capabilities.some((capability) => isDeepStrictEqual({ ...capability }, modes)))
    faults.push("volume requested capabilities update was not compatible with existing capability in use");
  const mount = mountOf(volume, request);
  if (inUse && !isDeepStrictEqual(sorted(mount), sorted(volume.mount)))
    faults.push("can not update mount options while volume is in use");
  if (faults.length > 0) return refused(joinedErrors(faults));
  const size = sizeOf(volume, request);
  if (!size.ok) return size;
  const { min, max } = size.value;
  const { mutableParameters: known = {} } = volume;
  const mutableParameters = { ...known, ...request.mutableParameters };
  return ok({
    volume: {
      ...volume,
      capabilities: request.capabilities,
      mount,
      topologyRequest: asked ?? volume.topologyRequest,
      context: isEmpty(request.context) ? volume.context : request.context,
      capacityMin: min,
      capacityMax: max,
      mutableParameters,
    },
    grows: min > volume.capacityBytes && min !== volume.capacityMin,
    modifies: !isDeepStrictEqual(mutableParameters, known),
  });
}

const isEmpty = (map: Texts): boolean => Object.keys(map).length === 0;

/** An absent list is an empty one, as upstream compares them (nomad/structs/csi.go, `CSITopologyRequest.Equal`). */
const plain = (request: CsiVolume["topologyRequest"]) => ({
  Required: request?.Required ?? [],
  Preferred: request?.Preferred ?? [],
});

/**
 * Mount options as upstream compares them: absent ones are empty, and flags are a set (nomad/structs/csi.go,
 * `CSIMountOptions.Equal`). Terraform sends empty options where `nomad volume create` sends none.
 */
const sorted = (mount: CsiVolume["mount"]) => ({
  FSType: mount?.FSType ?? "",
  MountFlags: [...new Set(mount?.MountFlags)].sort(),
});

/** Redacted flags, as reads show them, keep the volume's flags. */
function mountOf({ mount: is }: CsiVolume, { mount: asked }: CsiRequest): CsiVolume["mount"] {
  if (!asked) return is;
  return isDeepStrictEqual(asked.MountFlags, [REDACTED]) ? { ...asked, MountFlags: is?.MountFlags ?? [] } : asked;
}

function sizeOf(volume: CsiVolume, { capacityMin, capacityMax }: CsiRequest): Result<{ min: number; max: number }> {
  const { capacityMin: min, capacityMax: max, capacityBytes: current } = volume;
  const nothingAsked = capacityMin === 0 && capacityMax === 0;
  if (nothingAsked || (capacityMin === min && capacityMax === max)) return ok({ min, max });
  const fault = sizeFault(capacityMax, { min: capacityMin, current });
  return fault ? refused(fault) : ok({ min: capacityMin, max: capacityMax });
}

/** Why the maximum capacity is invalid; null when it is valid or not given. */
export function sizeFault(max: number, atLeast: Readonly<Record<string, number>>): string | null {
  const [than, bytes] = Object.entries(atLeast).find(([, size]) => max > 0 && max < size) ?? [];
  if (bytes === undefined) return null;
  return `max requested capacity (${humanBytes(max)}) less than or equal to ${than} (${humanBytes(bytes)})`;
}

const UNITS = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];

/** Formats bytes in units of 1000, with one decimal below 10: `2 B`, `1.5 kB`, `10 GB`. */
export function humanBytes(bytes: number): string {
  if (bytes < 10) return `${bytes} B`;
  const exponent = Math.min(Math.floor(Math.log10(bytes) / 3 + 1e-12), UNITS.length - 1);
  const value = Math.floor((bytes / 1000 ** exponent) * 10 + 0.5) / 10;
  return `${value < 10 ? value.toFixed(1) : Math.round(value)} ${UNITS[exponent]}`;
}
