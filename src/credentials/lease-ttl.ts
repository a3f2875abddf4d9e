import type { MountTtls } from "../contracts/credential-engine.ts";
import { goDuration } from "../lib/go-duration.ts";
import { ok, type Result, refuse } from "../lib/result.ts";
import type { Role } from "./role.ts";

/** The longest life of a lease unless the mount says otherwise, in seconds (768 h). */
const SYSTEM_MAX_TTL = 768 * 3600;

type RoleTtls = Pick<Role, "ttl" | "max_ttl" | "explicit_max_ttl">;

/** The longest that a lease of a role may live, in seconds. */
function ceiling(role: RoleTtls, mount: MountTtls): number {
  const limits = [mount.max_lease_ttl || SYSTEM_MAX_TTL, role.max_ttl, role.explicit_max_ttl];
  return Math.min(...limits.filter((limit) => limit > 0));
}

const cappedWarning = (ttl: number, most: number): string =>
  `TTL of "${goDuration(ttl)}" exceeded the effective max_ttl of "${goDuration(most)}"; TTL value is capped accordingly`;

/** How long a lease lives at first, and at most, in seconds (docs/internals/wire/credentials.md). */
export function termsOf(role: RoleTtls, mount: MountTtls): { ttl: number; maxTtl: number; warnings: string[] } {
  const maxTtl = ceiling(role, mount);
  const wish = role.ttl || mount.default_lease_ttl || SYSTEM_MAX_TTL;
  return { ttl: Math.min(wish, maxTtl), maxTtl, warnings: wish > maxTtl ? [cappedWarning(wish, maxTtl)] : [] };
}

/** A password outlives the longest life of its lease by this, in seconds, so that it ends by itself if nothing else ends it. */
const PASSWORD_MARGIN = 3_600;

/** How long a new password is good for, in seconds. */
export const passwordLife = (role: RoleTtls, mount: MountTtls): number =>
  role.explicit_max_ttl || ceiling(role, mount) + PASSWORD_MARGIN;

/** The times of a lease, ms since 1970. `keyEnds`: when the provider lets its password end. */
export interface LeaseTimes {
  readonly issued: number;
  readonly expires: number;
  readonly keyEnds: number;
}

export interface Renewal {
  readonly expires: number;
  readonly renewable: boolean;
  readonly warnings: readonly string[];
}

/**
 * A lease extended from now on by `increment` seconds (0: what its role says), by today's role, and never beyond the ceiling
 * counted from its issue nor beyond its password.
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
  const wish = increment || role.ttl || mount.default_lease_ttl || SYSTEM_MAX_TTL;
  const expires = Math.min(now + wish * 1000, last);
  const warnings = expires < now + wish * 1000 ? [cappedWarning(wish, Math.floor((last - now) / 1000))] : [];
  return ok({ expires, renewable: expires < last, warnings });
}
