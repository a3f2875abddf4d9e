/** The address and the scheme of a client: those of its connection, or those that a trusted proxy states. */
import { BlockList, isIP } from "node:net";
import type { Head } from "./http-framing.ts";

export interface Origin {
  readonly address: string;
  readonly scheme: "http" | "https";
}

/** An address, or a network as `address/bits`. */
const NETWORK = /^([^/]+?)(?:\/(\d{1,3}))?$/;

export class Forwarding {
  readonly #proxies = new BlockList();

  /** @throws RangeError for an entry that is no address and no network */
  constructor(proxies: readonly string[]) {
    for (const entry of proxies) {
      const [, address = "", bits] = NETWORK.exec(entry) ?? [];
      const family = familyOf(address);
      if (!family || (bits !== undefined && Number(bits) > (family === "ipv4" ? 32 : 128))) {
        throw new RangeError(`"${entry}" is not an address, nor a network such as 10.0.0.0/8`);
      }
      if (bits === undefined) this.#proxies.addAddress(address, family);
      else this.#proxies.addSubnet(address, Number(bits), family);
    }
  }

  /** Whether `address` belongs to a named proxy. */
  trusts(address: string): boolean {
    const family = familyOf(address);
    return family !== undefined && this.#proxies.check(address, family);
  }

  /**
   * Reads `X-Forwarded-For` from its end, where the nearest proxy has written: the first address that is no named proxy
   * is the client's, and everything before it is the client's claim.
   */
  origin(peer: string, isTls: boolean, head: Head): Origin {
    const address = addressOf(peer);
    const own: Origin = { address, scheme: isTls ? "https" : "http" };
    if (!this.trusts(address)) return own;
    const scheme = items(head, "x-forwarded-proto").at(-1)?.toLowerCase();
    let client = address;
    for (const item of items(head, "x-forwarded-for").reverse()) {
      const named = addressOf(item);
      if (!isIP(named)) break;
      client = named;
      if (!this.trusts(named)) break;
    }
    return { address: client, scheme: scheme === "https" || scheme === "http" ? scheme : own.scheme };
  }
}

/** Without a port, brackets, and the prefix of an IPv4 address on an IPv6 socket. */
export function addressOf(text: string): string {
  const bare = /^\[([^\]]*)\](?::\d+)?$/.exec(text)?.[1] ?? /^(\d+\.\d+\.\d+\.\d+):\d+$/.exec(text)?.[1] ?? text;
  return /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(bare)?.[1] ?? bare;
}

const familyOf = (address: string): "ipv4" | "ipv6" | undefined =>
  ([undefined, "ipv4", "ipv6"] as const)[isIP(address) === 6 ? 2 : isIP(address) === 4 ? 1 : 0];

const items = (head: Head, field: string): string[] =>
  (head.fields.get(field) ?? [])
    .flatMap((value) => value.split(","))
    .map((item) => item.trim())
    .filter((item) => item !== "");
