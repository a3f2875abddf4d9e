import { BlockList, isIP } from "node:net";

/** Parses `10.0.0.0/8`, `2001:db8::/32` or a single address; null for other texts. */
export function parseNetwork(text: string): { address: string; prefix: number; family: "ipv4" | "ipv6" } | null {
  const [address = "", bits, ...rest] = text.split("/");
  const version = isIP(address);
  if (version === 0 || address.includes("%") || rest.length > 0) return null;
  const most = version === 4 ? 32 : 128;
  if (bits !== undefined && !/^\d{1,3}$/.test(bits)) return null;
  const prefix = bits === undefined ? most : Number(bits);
  return prefix <= most ? { address, prefix, family: version === 4 ? "ipv4" : "ipv6" } : null;
}

/**
 * Whether an address lies in one of the networks. True when there are none; false without an address.
 * @param networks texts that `parseNetwork` accepts
 */
export function isWithinNetworks(address: string | null, networks: readonly string[]): boolean {
  if (networks.length === 0) return true;
  if (address === null) return false;
  const version = isIP(address);
  if (version === 0) return false;
  const list = new BlockList();
  for (const text of networks) {
    const network = parseNetwork(text);
    if (network) list.addSubnet(network.address, network.prefix, network.family);
  }
  return list.check(address, version === 4 ? "ipv4" : "ipv6");
}
