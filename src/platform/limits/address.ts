/**
 * What the requests of one caller are counted under: an IPv4 address, or the 64 bits of an IPv6 address that name its network,
 * because one network has as many addresses as it likes. Null for what only local development has: no address, or the
 * machine's own.
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

/** The groups of an address in one spelling. One that ends as IPv4 ends beyond what is looked at. */
const groups = (text: string): string[] =>
  text === ""
    ? []
    : text
        .split(":")
        .flatMap((group) => (group.includes(".") ? ["0", "0"] : [group.toLowerCase().replace(/^0+(?=.)/, "")]));
