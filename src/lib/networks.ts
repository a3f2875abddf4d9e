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

/** The first address of a network, as one number of 32 or 128 bits. */
function bitsOf(address: string, version: "ipv4" | "ipv6"): bigint {
  if (version === "ipv4") return address.split(".").reduce((sum, part) => (sum << 8n) | BigInt(part), 0n);
  const text = address.replace(/(\d+)\.(\d+)\.(\d+)\.(\d+)$/, (_all, ...parts: string[]) => {
    const [a = 0, b = 0, c = 0, d = 0] = parts.slice(0, 4).map(Number);
    return `${((a << 8) | b).toString(16)}:${((c << 8) | d).toString(16)}`;
  });
  const [head = "", tail] = text.split("::");
  const groups = (part: string): string[] => (part === "" ? [] : part.split(":"));
  const [first, last] = [groups(head), groups(tail ?? "")];
  const zeros = Array.from({ length: 8 - first.length - last.length }, () => "0");
  return [...first, ...zeros, ...last].reduce((sum, part) => (sum << 16n) | BigInt(`0x${part}`), 0n);
}

/**
 * Whether each network lies inside one of the outer networks.
 * @param networks texts that `parseNetwork` accepts, as are the outer ones
 */
export function areWithinNetworks(networks: readonly string[], outer: readonly string[]): boolean {
  return networks.every((text) => {
    const inner = parseNetwork(text);
    return inner !== null && outer.some((other) => isSubnet(inner, parseNetwork(other)));
  });
}

type Network = NonNullable<ReturnType<typeof parseNetwork>>;

function isSubnet(inner: Network, outer: Network | null): boolean {
  if (outer === null || inner.family !== outer.family || inner.prefix < outer.prefix) return false;
  const shift = BigInt((outer.family === "ipv4" ? 32 : 128) - outer.prefix);
  return bitsOf(inner.address, inner.family) >> shift === bitsOf(outer.address, outer.family) >> shift;
}
