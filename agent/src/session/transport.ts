import { readFileSync } from "node:fs";
import { type Agent, request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import { rootCertificates } from "node:tls";
import { HttpsProxyAgent } from "https-proxy-agent";
import { getProxyForUrl } from "proxy-from-env";
import type { Config } from "../config.ts";
import { Ending, EXIT } from "../exit.ts";
import { textOf } from "../log.ts";

/** The certificate authorities that the agent trusts, and its proxy. Read at the start and at each reload. */
export interface Transport {
  /** PEM texts; undefined for the public ones. */
  readonly ca: string[] | undefined;
  /** The proxy's address with its credentials; undefined without a proxy. */
  readonly proxy: string | undefined;
}

const CERTIFICATE = /-----BEGIN CERTIFICATE-----/;
/** An answer to a join is short. */
const MAX_BYTES = 64 * 1024;

/** @throws Ending when the file of certificate authorities is unusable */
export const transportOf = ({ service, caFile, proxy }: Pick<Config, "service" | "caFile" | "proxy">): Transport => ({
  ca: caFile === undefined ? undefined : [...rootCertificates, certificatesIn(caFile)],
  proxy: proxy === "none" ? undefined : (proxy ?? environmentProxy(service)),
});

function certificatesIn(path: string): string {
  let pem: string;
  try {
    pem = readFileSync(path, "utf8");
  } catch (failure) {
    throw new Ending(EXIT.unusable, `caFile cannot be read: ${textOf(failure)}.`);
  }
  if (!CERTIFICATE.test(pem)) throw new Ending(EXIT.unusable, `caFile: ${path} has no PEM certificate.`);
  return pem;
}

/** Of HTTPS_PROXY, ALL_PROXY and NO_PROXY; a loopback service is reached directly. */
function environmentProxy(service: string): string | undefined {
  if (service.startsWith("http:")) return undefined;
  return getProxyForUrl(service) || undefined;
}

/** The options of `node:http`, `node:https` and `ws` for one connection. */
export function connectOptions({ ca, proxy }: Transport): { ca?: string[]; agent?: Agent } {
  const trusted = ca === undefined ? {} : { ca };
  if (proxy === undefined) return trusted;
  const { username, password, ...url } = urlParts(proxy);
  const basic = Buffer.from(`${decodeURIComponent(username)}:${decodeURIComponent(password)}`).toString("base64");
  // The library would log credentials of the address under DEBUG.
  const headers: Record<string, string> = username || password ? { "Proxy-Authorization": `Basic ${basic}` } : {};
  return { ...trusted, agent: new HttpsProxyAgent(url.origin, { ...trusted, headers }) };
}

function urlParts(proxy: string) {
  const { username, password, origin } = new URL(proxy);
  return { username, password, origin };
}

/** Sends JSON and resolves with the answer. Redirects are not followed. Rejects with the network's failure. */
export function postJson(
  url: string,
  body: unknown,
  transport: Transport,
  timeoutMs: number,
): Promise<{ status: number; body: string }> {
  const content = JSON.stringify(body);
  const headers = { "content-type": "application/json", "content-length": Buffer.byteLength(content) };
  const request = url.startsWith("https:") ? requestHttps : requestHttp;
  return new Promise((resolve, reject) => {
    const options = { method: "POST", headers, signal: AbortSignal.timeout(timeoutMs), ...connectOptions(transport) };
    const sent = request(url, options, (response) => {
      const chunks: Buffer[] = [];
      let bytes = 0;
      response.on("data", (chunk: Buffer) => {
        bytes += chunk.length;
        if (bytes > MAX_BYTES) sent.destroy(new Error("the answer is too long"));
        else chunks.push(chunk);
      });
      response.on("end", () => resolve({ status: response.statusCode ?? 0, body: Buffer.concat(chunks).toString() }));
      response.on("error", reject);
    });
    sent.on("error", reject);
    sent.end(content);
  });
}
