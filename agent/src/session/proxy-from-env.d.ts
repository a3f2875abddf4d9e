declare module "proxy-from-env" {
  /** The proxy that HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY name for an address; empty without one. */
  export function getProxyForUrl(url: string): string;
}
