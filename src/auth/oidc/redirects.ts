import { isLoopback } from "../../lib/hosts.ts";

/** Whether a URL may be an address of a redirect: https, or http on the caller's own machine, without a fragment. */
export function isRedirectUri(text: string): boolean {
  const url = URL.parse(text);
  if (url === null || url.hash !== "" || url.username !== "" || url.password !== "") return false;
  return url.protocol === "https:" || (url.protocol === "http:" && isLoopback(url.hostname));
}

/**
 * Whether a redirect goes to one of the allowed addresses. They are compared as texts; on the caller's own machine any
 * port will do (RFC 8252, 7.3).
 */
export function isAllowedRedirect(text: string, allowed: readonly string[]): boolean {
  if (allowed.includes(text)) return isRedirectUri(text);
  const wanted = onLoopback(text);
  return wanted !== null && allowed.some((each) => onLoopback(each) === wanted);
}

/** A URL on the caller's own machine without its port; null for others. */
function onLoopback(text: string): string | null {
  const url = URL.parse(text);
  if (url === null || !isRedirectUri(text) || !isLoopback(url.hostname)) return null;
  url.port = "";
  return url.toString();
}
