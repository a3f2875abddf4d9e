import { isLoopback } from "./hosts.ts";

/**
 * The origin in a text: scheme, host and optional port only; a trailing slash is accepted. Null when invalid, or for
 * plain http to another machine: providers fetch keys from there.
 */
export function originOf(text: string): string | null {
  if (!/^https?:\/\/[^/?#@\\\s]+\/?$/i.test(text) || !URL.canParse(text)) return null;
  const { protocol, hostname, origin } = new URL(text);
  return protocol === "https:" || isLoopback(hostname) ? origin : null;
}

export const ORIGIN_RULE = "must be https://host or https://host:port, without a path (http only for a loopback host)";

/** Whether a URL may receive secrets and contains none: https, or http to a loopback host. */
export function isSecureUrl(text: string): boolean {
  const url = URL.parse(text);
  return url !== null && url.username + url.password === "" && originOf(url.origin) !== null;
}
