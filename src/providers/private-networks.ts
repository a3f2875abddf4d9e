import { isListed } from "../lib/hosts.ts";

/**
 * Networks of the operator behind bindings, such as those of Workers VPC
 * (https://developers.cloudflare.com/workers-vpc/), by the hosts of the setting `PRIVATE_NETWORKS`: `HOST=BINDING`, with
 * commas or spaces between. It only leads calls there; which hosts may be called is decided elsewhere.
 */

/** Carries requests: the Worker itself, or a binding. */
export type Network = Pick<typeof globalThis, "fetch">;

let bindings: object = {};

/** Sets the bindings of this isolate, read at each call. */
export function usePrivateNetworks(given: object): void {
  bindings = given;
}

/** The network of a host; undefined for the Worker's own, the binding's name where the deployment lacks it. */
export function privateNetworkOf(url: URL): Network | string | undefined {
  const { PRIVATE_NETWORKS = "" } = bindings as { readonly PRIVATE_NETWORKS?: string };
  for (const entry of PRIVATE_NETWORKS.split(/[\s,]+/)) {
    const [host, name = ""] = entry.split("=");
    if (!isListed(url, host) || host === "") continue;
    const bound = (bindings as Readonly<Record<string, unknown>>)[name];
    return isNetwork(bound) ? bound : name;
  }
  return undefined;
}

/** A binding with `fetch`: a service, a VPC service or network. */
const isNetwork = (bound: unknown): bound is Network =>
  typeof bound === "object" && bound !== null && typeof (bound as { fetch?: unknown }).fetch === "function";

export const missingNetwork = (name: string): string =>
  `needs the network ${name} of PRIVATE_NETWORKS, which is not bound`;
