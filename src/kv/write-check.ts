import type { KvConfig, SecretRow, WriteRights } from "../contracts/kv-store.ts";
import { type Refusal, refuse } from "../lib/result.ts";

/**
 * The refusal of a new version by the mount's state, the caller's rights or check-and-set; null when it may be written.
 */
export function refusesWrite(
  { gone, config }: { readonly gone: boolean; readonly config: KvConfig },
  secret: SecretRow | null,
  cas: number | null,
  rights: WriteRights,
): Refusal | null {
  if (gone) return refuse("missing");
  if (!(secret ? rights.update : rights.create)) return refuse("denied", "permission denied");
  if (cas === null) {
    const required = config.cas_required || secret?.cas_required === 1;
    return required ? refuse("invalid", "check-and-set parameter required for this call") : null;
  }
  return cas === (secret?.current_version ?? 0)
    ? null
    : refuse("invalid", "check-and-set parameter did not match the current version");
}
