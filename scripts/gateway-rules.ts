/** Rules of the gateway for a request head: which hosts, paths and fields pass to the runtime. */
import type { Origin } from "./forwarding.ts";
import { type Head, Malformed } from "./http-framing.ts";

/** A registered name, an IPv4 address or an IPv6 address in brackets, and a port. */
const AUTHORITY = /^(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::\d{0,5})?$/;
/** Paths that the local runtime serves itself. A deployed Worker does not serve them either. */
const RESERVED = /^\/(?:cdn-cgi|__cf_local|__scheduled|__explorer)(?:\/|$)/i;
/**
 * Headers in which the platform and its local runtime describe the connection; a client's are dropped. The assertion of
 * Cloudflare Access passes: it is signed, and a login verifies it (docs/guides/log-in-through-cloudflare-access.md).
 */
const PLATFORM_FIELD = /^(?:mf|cf)-(?!access-jwt-assertion:)/i;
/** Headers in which proxies describe a client; replaced by the gateway's own statement. */
const FORWARDED_FIELD = /^(?:forwarded|x-forwarded-(?:for|host|port|proto)|x-real-ip|true-client-ip):/i;
const EVENT_STREAM = /\/v1\/(?:event\/stream$|(?:[^/]+\/)*sys\/events\/subscribe\/)/;

/**
 * The head without the platform's headers, and with the client's address and scheme when the gateway states them.
 * @throws Malformed for a reserved or invalid host or path
 */
export function checkedHead(head: Head, target: string, origin?: Origin): Head {
  const [host] = head.fields.get("host") ?? [];
  if (host !== undefined && !isAuthority(host.trim())) throw new Malformed(400, "malformed Host");
  const path = pathOf(target);
  if (RESERVED.test(path)) throw new Malformed(404, "there is no such path");
  const lines = head.lines.filter((line) => !PLATFORM_FIELD.test(line));
  if (origin) {
    const kept = lines.filter((line) => !FORWARDED_FIELD.test(line));
    return {
      ...head,
      lines: [...kept, `CF-Connecting-IP: ${origin.address}`, `X-Forwarded-Proto: ${origin.scheme}`],
    };
  }
  return lines.length === head.lines.length ? head : { ...head, lines };
}

/** Whether the response is an event stream, which ends only with its client or the service. */
export const isEventStream = (target: string): boolean => EVENT_STREAM.test(pathOf(target));

/** The path as URL parsers return it: dots resolved, backslashes replaced. */
function pathOf(target: string): string {
  if (target.startsWith("/")) return new URL(`http://a${target}`).pathname;
  const [, authority = ""] = /^https?:\/\/([^/?#]*)/.exec(target) ?? [];
  if (!isAuthority(authority)) throw new Malformed(400, "malformed host in the request line");
  return new URL(target).pathname;
}

const isAuthority = (text: string): boolean => AUTHORITY.test(text) && URL.canParse(`http://${text}`);
