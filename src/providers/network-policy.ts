import { isIP } from "node:net";
import * as z from "zod";
import type { Failure } from "../contracts/failure.ts";
import type { Networking } from "../contracts/sync-tasks.ts";
import { tryParseJson } from "../lib/json.ts";
import { memo } from "../lib/memo.ts";
import { isWithinNetworks } from "../lib/networks.ts";
import { failure, type Send, withoutEffect } from "./outcome.ts";

/**
 * Restrictions of a destination's calls to networks and ports, checked before each call. A Worker does not learn the
 * address that a call connects to. So a host's addresses are looked up beforehand by DNS over HTTPS, and all of them
 * must be allowed. A host that changes its addresses between lookup and call is not noticed. Costs two lookups per host
 * and TTL; none without address lists.
 */

const DEFAULT_DNS_URL = "https://cloudflare-dns.com/dns-query";
const MAX_CACHED = 500;
const MAX_TTL_MS = 60_000;

interface Lookup {
  readonly addresses: readonly string[];
  readonly until: number;
}

/** Addresses by DNS URL and host. */
const lookups = new Map<string, Lookup>();

/** A sender that refuses requests to other networks and ports than the allowed ones. */
export function restricted(send: Send, policy: Networking, dnsUrl = DEFAULT_DNS_URL): Send {
  const { allowed_ipv4_addresses: ipv4 = [], allowed_ipv6_addresses: ipv6 = [], allowed_ports: ports = [] } = policy;
  if (policy.disable_strict_networking || ipv4.length + ipv6.length + ports.length === 0) return send;
  return async (request) => {
    const url = URL.parse(request[0]);
    if (url === null) return send(request);
    const port = Number(url.port || (url.protocol === "http:" ? 80 : 443));
    if (ports.length > 0 && !ports.includes(port)) {
      return blocked(`${url.hostname} is called at the port ${port}, which allowed_ports does not contain.`);
    }
    if (ipv4.length + ipv6.length > 0) {
      const found = await addressesOf(url.hostname, send, dnsUrl);
      if ("outcome" in found) return { ok: false, outcome: found };
      const outside = found.find((address) => !isAllowed(address, isIP(address) === 4 ? ipv4 : ipv6));
      if (outside !== undefined) {
        const field = isIP(outside) === 4 ? "allowed_ipv4_addresses" : "allowed_ipv6_addresses";
        return blocked(`${url.hostname} has the address ${outside}, which ${field} does not contain.`);
      }
    }
    return send(request);
  };
}

const blocked = (message: string) => ({ ok: false as const, outcome: failure("client", "network_blocked", message) });

const isAllowed = (address: string, networks: readonly string[]): boolean =>
  networks.length > 0 && isWithinNetworks(address, networks);

/** All addresses of a host name, as far as they are known before connecting. */
async function addressesOf(hostname: string, send: Send, dnsUrl: string): Promise<readonly string[] | Failure> {
  const literal = hostname.replace(/^\[(.*)\]$/, "$1");
  if (isIP(literal) !== 0) return [literal];
  if (hostname === "localhost") return ["127.0.0.1", "::1"];
  const key = `${dnsUrl} ${hostname}`;
  const held = lookups.get(key);
  if (held && held.until > Date.now()) return held.addresses;
  const answers = await Promise.all((["A", "AAAA"] as const).map((type) => lookUp(hostname, type, send, dnsUrl)));
  const found: Lookup[] = [];
  for (const answer of answers) {
    if ("outcome" in answer) return answer;
    found.push(answer);
  }
  const addresses = found.flatMap((answer) => answer.addresses);
  if (addresses.length === 0) {
    return failure("external", "network_error", `${hostname} has no address, so its call cannot be checked.`);
  }
  if (lookups.size >= MAX_CACHED) lookups.clear();
  lookups.set(key, { addresses, until: Math.min(...found.map(({ until }) => until)) });
  return addresses;
}

/**
 * The JSON form of DNS over HTTPS
 * (https://developers.cloudflare.com/1.1.1.1/encryption/dns-over-https/make-api-requests/dns-json/).
 */
const DnsAnswer = memo(() =>
  z.object({
    Status: z.number(),
    Answer: z.array(z.object({ type: z.number(), TTL: z.number().min(0), data: z.string() })).default([]),
  }),
);
const RECORD_TYPES = { A: 1, AAAA: 28 };
const NO_SUCH_NAME = 3;

async function lookUp(hostname: string, type: "A" | "AAAA", send: Send, dnsUrl: string): Promise<Lookup | Failure> {
  const url = URL.parse(dnsUrl);
  url?.searchParams.set("name", hostname);
  url?.searchParams.set("type", type);
  const call = await send([url?.href ?? dnsUrl, { headers: { accept: "application/dns-json" } }]);
  if (!call.ok) return withoutEffect(call.outcome);
  const parsed = DnsAnswer().safeParse(tryParseJson(call.text));
  const isAnswer = call.response.ok && parsed.success && [0, NO_SUCH_NAME].includes(parsed.data.Status);
  if (!isAnswer) return failure("external", "network_error", `The addresses of ${hostname} could not be looked up.`);
  const records = parsed.data.Answer.filter((record) => record.type === RECORD_TYPES[type]);
  const ttls = records.map(({ TTL }) => TTL * 1000);
  return {
    addresses: records.map(({ data }) => data).filter((data) => isIP(data) !== 0),
    until: Date.now() + Math.min(MAX_TTL_MS, ...ttls),
  };
}
