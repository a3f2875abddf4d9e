import { connectClaims, describe, TOKEN_SECONDS } from "@sallyport/agent-protocol";
import { decodeJwt, importJWK, jwtVerify } from "jose";
import type { AgentIdentity } from "../contracts/node-agents.ts";
import { ok, type Result, refuse } from "../lib/result.ts";

/** The claims of a connect token, not yet verified. */
interface ClaimedToken {
  readonly text: string;
  readonly nodeId: string;
  readonly service: string;
  readonly jti: string;
  /** Seconds since 1970. */
  readonly issued: number;
}

/** Upper bound of a token: header, seven short claims and a signature. */
const MAX_TOKEN_LENGTH = 2_048;

export function readConnectToken(authorization: string | null): Result<ClaimedToken> {
  const text = /^Bearer\s+(\S+)\s*$/i.exec(authorization ?? "")?.[1];
  if (text === undefined) return refuse("denied", "Authorization: must be a bearer token signed by the node's key");
  if (text.length > MAX_TOKEN_LENGTH) return refuse("denied", "Authorization: the token is too long");
  let payload: unknown;
  try {
    payload = decodeJwt(text);
  } catch {
    return refuse("denied", "Authorization: the token is not a JWT");
  }
  const claims = connectClaims.safeParse(payload);
  if (!claims.success) return refuse("denied", `Authorization: the token's ${describe(claims.error)}`);
  const { iss, aud, jti, iat } = claims.data;
  return ok({ text, nodeId: iss, service: aud, jti, issued: iat });
}

/** Verifies a token at `now` (ms since 1970). Single use is enforced by the node's session. */
export async function verifyConnectToken(
  { text, nodeId, issued }: ClaimedToken,
  { publicKey, service }: AgentIdentity,
  now: number,
): Promise<Result<null>> {
  // The agent reports the difference to its operator.
  if (Math.abs(now / 1_000 - issued) > TOKEN_SECONDS) {
    const [made, here] = [issued * 1_000, now].map((ms) => new Date(ms).toISOString());
    return refuse(
      "denied",
      `Authorization: the token was made at ${made}; here it is ${here}, and clocks may differ by ${TOKEN_SECONDS} s`,
    );
  }
  try {
    const key = await importJWK(
      { kty: "OKP", crv: "Ed25519", x: Buffer.from(publicKey, "base64").toString("base64url") },
      "EdDSA",
    );
    await jwtVerify(text, key, {
      algorithms: ["EdDSA"],
      audience: service,
      issuer: nodeId,
      subject: nodeId,
      clockTolerance: TOKEN_SECONDS,
      currentDate: new Date(now),
    });
    return ok(null);
  } catch {
    return refuse("denied", "Authorization: the token is not signed by the node's key, or is for another service");
  }
}
