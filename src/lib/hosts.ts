/** Hosts to which credentials may be sent. */

/** `URL` normalizes every spelling of an IPv4 address to four decimal numbers. */
export const isLoopback = (hostname: string): boolean =>
  hostname === "localhost" || hostname === "[::1]" || /^127(\.\d{1,3}){3}$/.test(hostname);

/**
 * Whether a list contains the host of `url`: `host` (any port), `host:port`, or `*.suffix` for every subdomain,
 * separated by commas or spaces (the setting `SYNC_ALLOWED_HOSTS`).
 */
export function isListed(url: URL, list: string | undefined): boolean {
  const { host, hostname } = url;
  return (list ?? "")
    .toLowerCase()
    .split(/[\s,]+/)
    .some((one) => one === host || one === hostname || (/^\*\../.test(one) && hostname.endsWith(one.slice(1))));
}
