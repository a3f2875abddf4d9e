import * as z from "zod";
import { text, uuid } from "./bounds.ts";

/** Exchanges a join token for a node id. */
export const JOIN_PATH = "/v1/agent/join";
/** Accepts the WebSocket of a node's agent. */
export const CONNECT_PATH = "/v1/agent/connect";
export const SUBPROTOCOL = "sallyport-agent.v1";

/** The supported protocol versions, inclusive. */
export const PROTOCOL: readonly [lowest: number, highest: number] = [1, 1];

/** The highest common protocol version; undefined without one (`CLOSE.version`). */
export function commonProtocol([lowest, highest]: readonly [number, number]): number | undefined {
  const common = Math.min(highest, PROTOCOL[1]);
  return common >= lowest && common >= PROTOCOL[0] ? common : undefined;
}

/** Literal texts, so that the platform answers pings without waking the service's object. */
export const PING = '{"t":"ping"}';
export const PONG = '{"t":"pong"}';

/** Close codes. */
export const CLOSE = {
  /** A newer connection of the same node took over: the agent stops. */
  superseded: 4001,
  /** The node was removed or its key revoked: the agent stops. */
  revoked: 4003,
  /** Protocol violation: the agent reconnects after the longest pause. */
  protocol: 4008,
  /** No common protocol version: the agent stops. */
  version: 4010,
  /** Rate limit exceeded; the reason is the text of `slowDown`: the agent reconnects after that time. */
  slowDown: 4029,
} as const;

/** The reason of a close with `CLOSE.slowDown`. */
export const slowDown = (retryAfterMs: number) => JSON.stringify({ retryAfterMs });

const slowDownReason = z.object({ retryAfterMs: z.int().min(0).max(3_600_000) });

/** The requested pause in milliseconds; undefined when the reason has none. */
export function retryAfterOf(reason: string): number | undefined {
  try {
    return slowDownReason.parse(JSON.parse(reason)).retryAfterMs;
  } catch {
    return undefined;
  }
}

/** A raw Ed25519 public key: 32 bytes as base64. */
const publicKey = z.string().regex(/^[A-Za-z0-9+/]{43}=$/, "is not the base64 of 32 bytes");

export const joinRequest = z.object({ Token: text(512, 1), PublicKey: publicKey, Name: text(128, 1) });
export type JoinRequest = z.infer<typeof joinRequest>;

export const joinAnswer = z.object({
  NodeID: uuid,
  /** The audience of this node's connect tokens. */
  Service: text(512, 1),
});

/** Maximum lifetime of a connect token and maximum clock difference, in seconds. */
export const TOKEN_SECONDS = 60;

/** Claims of the EdDSA token by which an agent connects. `jti` is single-use. */
export const connectClaims = z
  .object({ iss: uuid, sub: uuid, aud: text(512, 1), iat: z.int(), exp: z.int(), jti: uuid })
  .refine(({ iss, sub }) => iss === sub, "has an issuer that is not its subject")
  .refine(({ iat, exp }) => exp > iat && exp - iat <= TOKEN_SECONDS, `lives for more than ${TOKEN_SECONDS} s`);
