import * as z from "zod";
import { text, uuid } from "./bounds.ts";

/** Where a node gets its id, once, by a join token. */
export const JOIN_PATH = "/v1/agent/join";
/** Where a node's agent opens its WebSocket. */
export const CONNECT_PATH = "/v1/agent/connect";
export const SUBPROTOCOL = "sallyport-agent.v1";

/** The protocol versions this package speaks, both ends included. */
export const PROTOCOL: readonly [lowest: number, highest: number] = [1, 1];

/** The highest version that both sides speak; undefined when there is none (`CLOSE.version`). */
export function commonProtocol([lowest, highest]: readonly [number, number]): number | undefined {
  const common = Math.min(highest, PROTOCOL[1]);
  return common >= lowest && common >= PROTOCOL[0] ? common : undefined;
}

/** Sent and answered literally, byte for byte, so that the platform answers without waking the service's object. */
export const PING = '{"t":"ping"}';
export const PONG = '{"t":"pong"}';

/** Why a side closes the socket. */
export const CLOSE = {
  /** A newer connection of the same node took over: the agent stops. */
  superseded: 4001,
  /** The node was removed or its key revoked: the agent stops. */
  revoked: 4003,
  /** The other side broke the protocol: the agent comes back late. */
  protocol: 4008,
  /** There is no common protocol version: the agent stops. */
  version: 4010,
  /** Too much at once; the reason is `slowDown`'s text: the agent comes back after that time. */
  slowDown: 4029,
} as const;

/** The reason of a close with `CLOSE.slowDown`, in milliseconds. */
export const slowDown = (retryAfterMs: number) => JSON.stringify({ retryAfterMs });

const slowDownReason = z.object({ retryAfterMs: z.int().min(0).max(3_600_000) });

/** How long the service asks to stay away, in milliseconds; undefined when the reason does not say. */
export function retryAfterOf(reason: string): number | undefined {
  try {
    return slowDownReason.parse(JSON.parse(reason)).retryAfterMs;
  } catch {
    return undefined;
  }
}

/** 32 bytes as base64: an Ed25519 public key, raw. */
const publicKey = z.string().regex(/^[A-Za-z0-9+/]{43}=$/, "is not the base64 of 32 bytes");

export const joinRequest = z.object({ Token: text(512, 1), PublicKey: publicKey, Name: text(128, 1) });
export type JoinRequest = z.infer<typeof joinRequest>;

export const joinAnswer = z.object({
  NodeID: uuid,
  /** The audience of the tokens by which this node connects. */
  Service: text(512, 1),
});
export type JoinAnswer = z.infer<typeof joinAnswer>;

/** The longest life of a connect token, and the most that two clocks may differ, in seconds. */
export const TOKEN_SECONDS = 60;

/** The claims of the EdDSA token that an agent signs to connect. `jti` is used once. */
export const connectClaims = z
  .object({ iss: uuid, sub: uuid, aud: text(512, 1), iat: z.int(), exp: z.int(), jti: uuid })
  .refine(({ iss, sub }) => iss === sub, "has an issuer that is not its subject")
  .refine(({ iat, exp }) => exp > iat && exp - iat <= TOKEN_SECONDS, `lives for more than ${TOKEN_SECONDS} s`);
export type ConnectClaims = z.infer<typeof connectClaims>;
