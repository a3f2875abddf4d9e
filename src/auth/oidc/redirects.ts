import { isLoopback } from "../../lib/hosts.ts";

/** Whether a URL may be an address of a redirect: https, or http on the caller's own machine, without a fragment. */
export function isRedirectUri(text: string): boolean {
  const url = URL.parse(text);
  if (url === null || url.hash !== "" || url.username !== "" || url.password !== "") return false;
  return url.protocol === "https:" || (url.protocol === "http:" && isLoopback(url.hostname));
}

/**
 * Whether a redirect goes to one of the allowed addresses, compared as texts. On the caller's own machine any port will
 * do, because command line clients listen at a free one (RFC 8252, 7.3).
 */
export function isAllowedRedirect(text: string, allowed: readonly string[]): boolean {
  const url = URL.parse(text);
  if (url === null || text.includes("#") || url.username !== "" || url.password !== "") return false;
  if (!isLoopback(url.hostname)) return allowed.includes(text);
  return allowed.some((one) => withoutPort(one) === withoutPort(text));
}

function withoutPort(text: string): string | null {
  const url = URL.parse(text);
  if (url === null) return null;
  url.port = "";
  return url.href;
}
