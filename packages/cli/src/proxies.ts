import * as http from "node:http";
import type { Environment } from "./command.ts";

type Proxies = { readonly http_proxy: string; readonly https_proxy: string; readonly no_proxy: string };

/** Node.js has it from 24.14 on: https://nodejs.org/docs/latest-v24.x/api/http.html#httpsetglobalproxyfromenvproxyenv */
const { setGlobalProxyFromEnv } = http as typeof http & { setGlobalProxyFromEnv?(env: Proxies): unknown };

/** Hosts that no proxy reaches. */
const LOOPBACK = "localhost,.localhost,127.0.0.1-127.255.255.255,::1,[::1]";

/**
 * Sends the requests of this program through the proxies of the environment: `HTTPS_PROXY` for https, `HTTP_PROXY` for
 * http, except for hosts in `NO_PROXY` and loopback. With a proxy of another kind than http and https there is none.
 */
export function useProxies(env: Environment): void {
  const given = (name: string): string => env[name.toLowerCase()] || env[name] || "";
  const [http_proxy, https_proxy] = [proxyIn(given("HTTP_PROXY")), proxyIn(given("HTTPS_PROXY"))];
  if (http_proxy === null || https_proxy === null) return;
  const none = given("NO_PROXY");
  const no_proxy = none === "*" ? none : [none, LOOPBACK].filter((part) => part !== "").join(",");
  setGlobalProxyFromEnv?.({ http_proxy, https_proxy, no_proxy });
}

/** The URL of a proxy, also of one without a scheme; null for another kind. */
function proxyIn(text: string): string | null {
  const url = text === "" || /^[a-z][a-z0-9+.-]*:\/\//i.test(text) ? text : `http://${text}`;
  return url === "" || (/^https?:/i.test(url) && URL.canParse(url)) ? url : null;
}
