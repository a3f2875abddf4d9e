import { createLocalJWKSet, decodeJwt, errors, type JSONWebKeySet, jwtVerify } from "jose";

/** The tokens of one issuer that a double accepts; compared exactly. */
export interface Trust {
  issuer: string;
  subject: string;
  audience: string;
  /** The issuer's key set, copied, because doubles cannot fetch from a Worker under test. */
  keys: JSONWebKeySet;
}

/** Why a token is none of a trusted issuer, about its subject, for its audience, signed with its keys and valid now. */
export async function refusedToken(token: string, trusted: readonly Trust[], now: number): Promise<string | null> {
  let claims: ReturnType<typeof decodeJwt>;
  try {
    claims = decodeJwt(token);
  } catch {
    return "malformed";
  }
  const { iss, sub, aud, exp = 0, iat } = claims;
  const audience = Array.isArray(aud) && aud.length === 1 ? aud[0] : aud;
  const trust = trusted.find((one) => one.issuer === iss && one.subject === sub && one.audience === audience);
  if (trust === undefined) return `iss '${iss}', sub '${sub}', aud '${String(aud)}'`;
  if (typeof iat !== "number" || exp - iat > 24 * 3600) return "lifetime";
  try {
    await jwtVerify(token, createLocalJWKSet(trust.keys), { algorithms: ["RS256"], currentDate: new Date(now) });
    return null;
  } catch (problem) {
    if (!(problem instanceof errors.JOSEError)) throw problem;
    return problem.code;
  }
}
