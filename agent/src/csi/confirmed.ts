import { ACCESS_MODE, type Draft, type Message, type Response } from "@sallyport/csi-wire";

type Asked = Draft<"VolumeCapability">;
type Confirmed = Message<"VolumeCapability">;

/**
 * The refusal in a validation response; undefined without one. A plugin that confirms nothing and gives no message
 * does not refuse. Mount flags may hold passwords, so no message contains them.
 */
export function refusedIn(
  asked: readonly Asked[],
  { confirmed, message }: Response<"ValidateVolumeCapabilities">,
): string | undefined {
  if (confirmed === null) return message === "" ? undefined : message;
  const capabilities = confirmed.volumeCapabilities;
  if (capabilities.length === 0) return undefined;
  const lacking = asked.find((capability) => !capabilities.some((candidate) => covers(candidate, capability)));
  if (lacking === undefined) return undefined;
  const kind = lacking.block ? "block-device" : "file-system";
  return `it does not confirm a ${kind} volume with access mode ${lacking.accessMode?.mode} and these mount options`;
}

function covers(confirmed: Confirmed, asked: Asked): boolean {
  const mode = confirmed.accessMode?.mode ?? ACCESS_MODE.unknown;
  if (mode !== ACCESS_MODE.unknown && mode !== asked.accessMode?.mode) return false;
  if (Boolean(confirmed.block) !== Boolean(asked.block)) return false;
  if (asked.block) return true;
  const { fsType = "", mountFlags = [] } = confirmed.mount ?? {};
  const wanted = asked.mount?.mountFlags ?? [];
  const sameType = fsType === "" || !asked.mount?.fsType || fsType === asked.mount.fsType;
  return sameType && wanted.every((flag) => mountFlags.includes(flag));
}
