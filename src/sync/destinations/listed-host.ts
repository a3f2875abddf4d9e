import * as z from "zod";
import { isListed, isLoopback } from "../../lib/hosts.ts";
import { failure } from "../../providers/outcome.ts";
import { notSent, type Rest, type RestOptions, restClient } from "../../providers/rest.ts";
import type { CallContext, ProviderSettings } from "./destination-type.ts";

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

/** A connection with the `optionalAddress` of a server in place of the provider's. */
interface Addressed {
  readonly address?: string;
}

/** The refusal of an optional address; null also without one. */
export const refuseAddress = ({ address }: Addressed, settings: ProviderSettings): string | null =>
  address ? refuseListedHost("address", address, settings) : null;

/**
 * A client of a connection's server. Its host is checked again before credentials are sent: settings may have changed
 * since the destination was written.
 * @param usual the provider's base URL
 * @param path of the API
 */
export function addressedClient(
  connection: Addressed,
  { settings, send }: CallContext,
  usual: string,
  path: string,
  options: Omit<RestOptions, "base" | "send">,
): Rest {
  const refused = refuseAddress(connection, settings);
  if (refused !== null) return async () => notSent(failure("client", "host_not_allowed", `${refused}.`));
  return restClient({ base: `${(connection.address ?? usual).replace(/\/+$/, "")}${path}`, send, ...options });
}
