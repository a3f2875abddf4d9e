import { isPlainObject } from "../lib/json.ts";
import { cappedTtlWarning } from "../platform/http/capped-ttl.ts";
import { parseDuration } from "../platform/http/fields.ts";

/** Default and maximum TTL without a setting of the mount, in seconds (768 h). */
const SYSTEM_TTL = 768 * 3600;

/** Matches data that may have one of the two fields. */
const MAY_HAVE_TTL = /"(?:ttl|lease)"/;

/**
 * `lease_duration` of a secret of a version 1 mount, in seconds: how long a reader may keep the value. It is the field
 * `ttl`, else `lease`, else the mount's default, and at most the mount's maximum. Nothing ends after it
 * (https://developer.hashicorp.com/vault/docs/secrets/kv/kv-v1).
 * @param data JSON text of the secret; @param mount TTLs of the mount in seconds, 0 = the system's
 */
export function leaseDurationOf(
  data: string,
  mount: { readonly default_lease_ttl: number; readonly max_lease_ttl: number },
): { ttl: number; warnings: string[] } {
  const most = mount.max_lease_ttl || SYSTEM_TTL;
  const wanted = ttlIn(data) || mount.default_lease_ttl || SYSTEM_TTL;
  return wanted > most ? { ttl: most, warnings: [cappedTtlWarning(wanted, most)] } : { ttl: wanted, warnings: [] };
}

/** The secret's own TTL; 0 without a valid one. */
function ttlIn(data: string): number {
  const fields: unknown = MAY_HAVE_TTL.test(data) ? JSON.parse(data) : null;
  if (!isPlainObject(fields)) return 0;
  const given = Object.hasOwn(fields, "ttl") ? fields["ttl"] : Object.hasOwn(fields, "lease") ? fields["lease"] : 0;
  return Math.max(parseDuration(given) ?? 0, 0);
}
