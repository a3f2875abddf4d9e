import { isListed, isLoopback } from "../lib/hosts.ts";
import { isWithinNetworks } from "../lib/networks.ts";
import { type Call, type CallLimits, callProvider, failure, type Send } from "./outcome.ts";
import { missingNetwork, type Network, privateNetworkOf } from "./private-networks.ts";

/**
 * The one policy for addresses that tenants name: issuers, key sets, clusters, webhooks. Hosts are public and called by
 * https, except those of the operator's setting `PRIVATE_HOSTS` (plain http: only loopback hosts among them). A name may resolve to a private address: the
 * platform's network has none, and the local runtime calls tenants' hosts through `PUBLIC_NETWORK`, which refuses
 * private addresses when it connects (docs/operate/security.md).
 */

/** Addresses of no public host: https://www.iana.org/assignments/iana-ipv4-special-registry, and that of IPv6. */
const PRIVATE_IPV4 = [
  "0.0.0.0/8",
  "10.0.0.0/8",
  "100.64.0.0/10",
  "127.0.0.0/8",
  "169.254.0.0/16",
  "172.16.0.0/12",
  "192.168.0.0/16",
  "192.0.0.0/24",
  "192.0.2.0/24",
  "192.88.99.0/24",
  "198.18.0.0/15",
  "198.51.100.0/24",
  "203.0.113.0/24",
  "224.0.0.0/3",
];
const PRIVATE_IPV6 = [
  // All but global unicast: loopback, embedded IPv4, NAT64, local, link-local, multicast.
  "::/3",
  "4000::/2",
  "8000::/1",
  // Teredo and other protocol assignments, documentation, 6to4.
  "2001::/23",
  "2001:db8::/32",
  "2002::/16",
  "3fff::/20",
];
/** Names of private networks (RFC 6761, 6762, 8375), and names without a domain. */
const PRIVATE_NAME = /^[^.]*$|(?:^|\.)(?:localhost|local|localdomain|internal|intranet|lan|home\.arpa)$/;

/** The operator's bindings for tenants' hosts. */
interface OutboundPolicy {
  /** Hosts that may be private, and loopback ones called by plain http, in the form of `isListed`. */
  readonly PRIVATE_HOSTS?: string | undefined;
  /** A network of public addresses only. Absent on the platform, whose network reaches no others. */
  readonly PUBLIC_NETWORK?: Network | undefined;
}

let policy: OutboundPolicy = {};

/** Sets the policy of this isolate. @param given bindings of the deployment, read at each call */
export function setOutboundPolicy(given: OutboundPolicy): void {
  policy = given;
}

/** The refusal of a URL that a tenant names, without the field's name; null when it is allowed. */
export function refusedUrl(text: string): string | null {
  const url = URL.parse(text);
  if (url === null || url.username !== "" || url.password !== "") return "must be a URL without credentials";
  const isOperatorsHost = isListed(url, policy.PRIVATE_HOSTS);
  if (url.protocol !== "https:" && !(url.protocol === "http:" && isOperatorsHost && isLoopback(url.hostname))) {
    return "must begin with https://";
  }
  if (isPrivate(url.hostname) && !isOperatorsHost)
    return "must not be a private address, unless PRIVATE_HOSTS lists it";
  const network = privateNetworkOf(url);
  return typeof network === "string" ? missingNetwork(network) : null;
}

/** `callProvider` for a URL that a tenant has named: refused URLs are not called. */
export async function callTenantUrl(url: string, init: RequestInit, limits: CallLimits): Promise<Call> {
  const refused = refusedUrl(url);
  if (refused !== null) return { ok: false, outcome: failure("client", "address_refused", `the URL ${refused}`) };
  const network = isListed(new URL(url), policy.PRIVATE_HOSTS) ? undefined : policy.PUBLIC_NETWORK;
  return callProvider([url, init], { ...limits, network });
}

/** The `sender` of an operation for URLs that a tenant has named: its calls share one deadline, counted from now. */
export function tenantSender({ deadlineMs }: CallLimits): Send {
  const end = Date.now() + deadlineMs;
  return ([url, init]) => callTenantUrl(url, init, { deadlineMs: end - Date.now() });
}

/** @param hostname of a parsed URL, which spells every IPv4 address as four decimal numbers */
function isPrivate(hostname: string): boolean {
  const host = hostname.replace(/^\[|\]$/g, "").replace(/\.+$/, "");
  return (
    isWithinNetworks(host, host.includes(":") ? PRIVATE_IPV6 : PRIVATE_IPV4) ||
    (!host.includes(":") && PRIVATE_NAME.test(host))
  );
}
