import { isLoopback } from "./hosts.ts";

/**
 * The origin that a text names: scheme, host and optional port, and nothing else; a trailing slash is taken. Null when it is
 * none, or plain http to another machine: a provider fetches the keys from there.
 */
export function originOf(text: string): string | null {
  if (!/^https?:\/\/[^/?#@\\\s]+\/?$/i.test(text) || !URL.canParse(text)) return null;
  const { protocol, hostname, origin } = new URL(text);
  return protocol === "https:" || isLoopback(hostname) ? origin : null;
}

export const ORIGIN_RULE = "must be https://host or https://host:port, without a path (http only for a loopback host)";
