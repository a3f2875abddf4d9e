import { createHash } from "node:crypto";
import type { IssueRequest, LeaseRow } from "../../contracts/credential-engine.ts";
import { integer } from "../../platform/http/fields.ts";

/** Greatest share of a TTL, in percent: a client needs time to use what it reads. */
const MAX_PERCENT = 90;

/** The field `share_until` of roles; 0: every request gets a lease of its own. A role without it is as one with 0. */
export const sharePercent = () =>
  integer()
    .min(0)
    .refine((percent) => percent <= MAX_PERCENT, `must be at most ${MAX_PERCENT}`);

/** A share as roles store it: absent when it is 0, as in older roles. */
export const storedShare = (given: number | undefined, before: number | undefined): number | undefined =>
  (given ?? before ?? 0) || undefined;

/**
 * Identifies the requests that may share a lease: of one caller, with equal parameters, for a role with the same content.
 * A role that has changed shares no earlier lease.
 */
export const shareKey = (ask: IssueRequest, role: object): string =>
  createHash("sha256")
    .update(JSON.stringify(["share", ask.at ?? "creds", ask.role, ask.sharer, ask.request ?? {}, role]))
    .digest("base64url");

/** Whether a lease is young enough to be given to its caller again. @param ttl of the role, in seconds */
export const isShareable = ({ state, expires }: LeaseRow, ttl: number, percent: number, now: number): boolean =>
  state === "live" && expires - now >= (ttl * 1000 * (100 - percent)) / 100;

/**
 * Whether a renewal of a shared lease can be whole. Clients renew for the duration that they read, before it has passed;
 * a renewal that is cut counts as failed, and they would read the same lease again.
 */
export const isWhollyRenewable = (expires: number, last: number, now: number): boolean =>
  last - now >= 2 * (expires - now);
