import { isLoopback } from "../lib/hosts.ts";
import { isWithinNetworks } from "../lib/networks.ts";

/**
 * Networks that no public host has: private, link-local, shared, reserved and multicast addresses, and those that
 * embed an IPv4 address (https://www.iana.org/assignments/iana-ipv6-special-registry).
 */
const PRIVATE = [
  ...["0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16"],
  ...["192.0.0.0/24", "198.18.0.0/15", "224.0.0.0/3"],
  ...["fc00::/7", "fe80::/9", "ff00::/8", "::/96", "::ffff:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "2002::/16"],
];

/** The refusal of a URL that this service must not call, without the field's name; null when it is allowed. */
export function refusedUrl(text: string): string | null {
  const url = URL.parse(text);
  if (url === null || url.username !== "" || url.password !== "") return "must be a URL without credentials";
  if (url.protocol !== "https:" && !(url.protocol === "http:" && isLoopback(url.hostname))) {
    return "must begin with https://";
  }
  const address = url.hostname.replace(/^\[|\]$/g, "");
  const isPrivate = !isLoopback(url.hostname) && isWithinNetworks(address, PRIVATE);
  return isPrivate ? "must not be a private address" : null;
}
