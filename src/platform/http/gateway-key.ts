import { timingSafeEqual } from "node:crypto";

/**
 * The local runtime listens on loopback behind its gateway (scripts/gateway.ts), which states the client's address in
 * `CF-Connecting-IP`. A secret of the two tells its requests from those of other local processes.
 */

/** Removed from requests of clients, as every header of the platform. */
export const GATEWAY_KEY_HEADER = "CF-Gateway-Key";

/** The refusal of a request that did not come through the gateway; null for others, and on the platform. */
export function refusedBesideGateway(
  { headers }: Request,
  { GATEWAY_KEY: key }: { GATEWAY_KEY?: string },
): Response | null {
  if (key === undefined) return null;
  const [given, expected] = [Buffer.from(headers.get(GATEWAY_KEY_HEADER) ?? ""), Buffer.from(key)];
  if (given.length === expected.length && timingSafeEqual(given, expected)) return null;
  return new Response("this port is for the gateway only\n", { status: 403 });
}
