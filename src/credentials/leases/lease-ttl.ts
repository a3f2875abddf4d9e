import type { MountTtls } from "../../contracts/credential-engine.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import { cappedTtlWarning } from "../../platform/http/capped-ttl.ts";

/** Maximum TTL of a lease unless the mount sets another, in seconds (768 h). */
const SYSTEM_MAX_TTL = 768 * 3600;

/** Lease TTLs of a role, in seconds; 0: not set. */
export interface RoleTtls {
  readonly ttl: number;
  readonly max_ttl: number;
  readonly explicit_max_ttl: number;
}

/** Maximum TTL of a role's leases, in seconds. */
function ceiling(role: RoleTtls, mount: MountTtls): number {
  const limits = [mount.max_lease_ttl || SYSTEM_MAX_TTL, role.max_ttl, role.explicit_max_ttl];
  return Math.min(...limits.filter((limit) => limit > 0));
}

/** TTL and maximum TTL of a new lease, in seconds. */
export function leaseTtlOf(role: RoleTtls, mount: MountTtls): { ttl: number; maxTtl: number; warnings: string[] } {
  const maxTtl = ceiling(role, mount);
  const desired = role.ttl || mount.default_lease_ttl || SYSTEM_MAX_TTL;
  return {
    ttl: Math.min(desired, maxTtl),
    maxTtl,
    warnings: desired > maxTtl ? [cappedTtlWarning(desired, maxTtl)] : [],
  };
}

/**
 * A password outlives the maximum TTL of its lease by this margin, in seconds, and expires at the provider if revocation
 * fails.
 */
const PASSWORD_MARGIN = 3_600;

/** Lifetime of a new password, in seconds. */
export const passwordLife = (role: RoleTtls, mount: MountTtls): number =>
  role.explicit_max_ttl || ceiling(role, mount) + PASSWORD_MARGIN;

/** Times of a lease, ms since 1970. `keyEnds`: expiry of its password at the provider. */
interface LeaseTimes {
  readonly issued: number;
  readonly expires: number;
  readonly keyEnds: number;
}

interface Renewal {
  readonly expires: number;
  readonly renewable: boolean;
  readonly warnings: readonly string[];
}

/**
 * Extends a lease from `now` by `increment` seconds; 0 means the TTL of its role. The role's current limits apply: the
 * lease ends at the latest at its issue time plus the maximum TTL, and never after its password.
 */
export function renewed(
  lease: LeaseTimes,
  role: RoleTtls,
  mount: MountTtls,
  increment: number,
  now: number,
): Result<Renewal> {
  const most = ceiling(role, mount);
  const last = Math.min(lease.issued + most * 1000, lease.keyEnds);
  if (last <= now) return refuse("invalid", "past the max TTL, cannot renew");
  const desired = increment || role.ttl || mount.default_lease_ttl || SYSTEM_MAX_TTL;
  const expires = Math.min(now + desired * 1000, last);
  const warnings = expires < now + desired * 1000 ? [cappedTtlWarning(desired, Math.floor((last - now) / 1000))] : [];
  return ok({ expires, renewable: expires < last, warnings });
}
