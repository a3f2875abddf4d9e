import * as z from "zod";
import { isListed, isLoopback } from "../../lib/hosts.ts";

/** Addresses of servers that a destination's owner runs: the operator lists the hosts (`SYNC_ALLOWED_HOSTS`). */

const ADDRESS_RULE = "must be a URL of a host alone, such as https://vault.example.com:8200";

/** The field of such an address: an origin. */
export const addressField = () =>
  z
    .string(ADDRESS_RULE)
    .transform((given) => URL.parse(given.trim()))
    .refine((url) => url !== null && isOrigin(url), ADDRESS_RULE)
    .transform((url) => url?.origin ?? "");

/** An optional one; an empty text clears it. */
export const optionalAddress = () => z.union([z.literal(""), addressField()], ADDRESS_RULE).optional();

const isOrigin = ({ protocol, username, password, pathname, search, hash }: URL): boolean =>
  ["https:", "http:"].includes(protocol) && username + password + search + hash === "" && pathname === "/";

/**
 * The refusal of an address to which credentials would be sent; null when it is allowed. One sentence without a full
 * stop. Allowed are the hosts in `SYNC_ALLOWED_HOSTS`, by http only loopback ones.
 */
export function refuseListedHost(
  field: string,
  address: string,
  settings: { SYNC_ALLOWED_HOSTS?: string | undefined },
): string | null {
  const url = new URL(address);
  if (!isListed(url, settings.SYNC_ALLOWED_HOSTS)) {
    return `${field}: the host must be one that the setting SYNC_ALLOWED_HOSTS lists`;
  }
  return url.protocol === "https:" || isLoopback(url.hostname) ? null : `${field}: must begin with https://`;
}
