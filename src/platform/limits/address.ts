/**
 * The rate-limit key of a caller: an IPv4 address, or the /64 network of an IPv6 address, since one network can use any
 * number of addresses. Null in local development: no address, or the loopback address.
 */
export function networkOf(address: string | null): string | null {
  if (address === null || address === "::1" || address.startsWith("127.")) return null;
  if (!address.includes(":")) return address;
  const [head = "", tail] = address.split("::");
  const before = groups(head);
  const after = tail === undefined ? [] : groups(tail);
  const between =
    tail === undefined ? [] : Array.from({ length: Math.max(0, 8 - before.length - after.length) }, () => "0");
  return `${[...before, ...between, ...after].slice(0, 4).join(":")}::/64`;
}

/** The groups of an address in canonical spelling. An embedded IPv4 suffix lies beyond the compared groups. */
const groups = (text: string): string[] =>
  text === ""
    ? []
    : text
        .split(":")
        .flatMap((group) => (group.includes(".") ? ["0", "0"] : [group.toLowerCase().replace(/^0+(?=.)/, "")]));
