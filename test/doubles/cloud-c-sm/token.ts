import { generateKeyPair, type KeyObject, randomBytes } from "node:crypto";
import { promisify } from "node:util";
import { decodeJwt, decodeProtectedHeader, jwtVerify } from "jose";

/** The content of a service account's key file, as the provider's console writes it. */
export interface KeyFile {
  type: "service_account";
  project_id: string;
  private_key_id: string;
  private_key: string;
  client_email: string;
  client_id: string;
  auth_uri: string;
  token_uri: string;
  universe_domain: string;
}

/** One service account of the token endpoint. */
export interface Registered {
  email: string;
  keyId: string;
  publicKey: KeyObject;
  disabled: boolean;
}

/** A refusal of the token endpoint: RFC 6749, section 5.2, with Google's descriptions. */
export class GrantError extends Error {
  readonly error: string;

  constructor(error: string, description: string) {
    super(description);
    this.error = error;
  }
}

/** The only accepted audience, Google's, for any address of the endpoint. */
export const audience = "https://oauth2.googleapis.com/token";

const scope = "https://www.googleapis.com/auth/cloud-platform";
const grantType = "urn:ietf:params:oauth:grant-type:jwt-bearer";

const newPair = () => promisify(generateKeyPair)("rsa", { modulusLength: 2048 });
/** Key pairs for reuse: generating one takes longer than most tests. */
const kept: ReturnType<typeof newPair>[] = [];
const KEPT = 8;
let taken = 0;

/** A key with an id of its own, whose pair differs from those of the last seven calls. */
export async function newKey(projectId: string): Promise<{ keyFile: KeyFile; publicKey: KeyObject }> {
  const at = taken++ % KEPT;
  kept[at] ??= newPair();
  const { privateKey, publicKey } = await kept[at];
  const keyFile: KeyFile = {
    type: "service_account",
    project_id: projectId,
    private_key_id: randomBytes(20).toString("hex"),
    private_key: privateKey.export({ type: "pkcs8", format: "pem" }).toString(),
    client_email: `sync@${projectId}.iam.gserviceaccount.com`,
    client_id: "100000000000000000001",
    auth_uri: "https://accounts.google.com/o/oauth2/auth",
    token_uri: audience,
    universe_domain: "googleapis.com",
  };
  return { keyFile, publicKey };
}

/** Whose assertion it claims to be, unverified: for the log. */
export function claimedIssuer(body: Buffer): string | null {
  try {
    return decodeJwt(new URLSearchParams(body.toString()).get("assertion") ?? "").iss ?? null;
  } catch {
    return null;
  }
}

/**
 * The account that a request for an access token proves to be. Stricter than Google: the form has exactly its two fields,
 * claims and header nothing beyond what is documented, and the one scope must be cloud-platform.
 */
export async function verifyAssertion(
  contentType: string | undefined,
  body: Buffer,
  { find, now }: { find(email: string, kid: string | undefined): Registered | undefined; now: number },
): Promise<Registered> {
  if (!/^application\/x-www-form-urlencoded(;\s*charset=utf-8)?$/i.test(contentType ?? "")) {
    throw new GrantError("invalid_request", "The content type is not a form's");
  }
  const form = new URLSearchParams(body.toString());
  if ([...form.keys()].toSorted().join() !== "assertion,grant_type") {
    throw new GrantError("invalid_request", "The form must have grant_type and assertion");
  }
  if (form.get("grant_type") !== grantType) throw new GrantError("unsupported_grant_type", "Invalid grant_type");
  const assertion = form.get("assertion") ?? "";

  const { header, claims } = decode(assertion);
  const { alg, typ = "JWT", kid, ...otherHeaders } = header;
  if (alg !== "RS256" || typ !== "JWT" || Object.keys(otherHeaders).length > 0) {
    throw new GrantError("invalid_grant", "Invalid JWT: bad header");
  }
  const { iss, scope: scopes, aud, iat, exp, ...otherClaims } = claims;
  if (Object.keys(otherClaims).length > 0) throw new GrantError("invalid_grant", "Invalid JWT: unknown claims");
  const account = find(iss ?? "", kid);
  if (account === undefined) throw new GrantError("invalid_grant", "Invalid grant: account not found");
  if (kid !== undefined && kid !== account.keyId) throw new GrantError("invalid_grant", "Invalid JWT Signature.");
  try {
    await jwtVerify(assertion, account.publicKey, { algorithms: ["RS256"], currentDate: new Date(now) });
  } catch (problem) {
    if (problem instanceof Error && "code" in problem && problem.code === "ERR_JWT_EXPIRED") throw badTimes();
    throw new GrantError("invalid_grant", "Invalid JWT Signature.");
  }
  if (typeof iat !== "number" || typeof exp !== "number" || exp - iat > 3600 || exp <= iat || iat > now / 1000 + 60) {
    throw badTimes();
  }
  if (aud !== audience) throw new GrantError("invalid_grant", "Invalid JWT: Failed audience check.");
  if (scopes !== scope) throw new GrantError("invalid_scope", "Invalid OAuth scope or ID token audience provided.");
  if (account.disabled) throw new GrantError("invalid_grant", "Robot is disabled.");
  return account;
}

const badTimes = () =>
  new GrantError(
    "invalid_grant",
    "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe. Check your iat and exp values in the JWT claim.",
  );

function decode(assertion: string) {
  try {
    return { header: decodeProtectedHeader(assertion), claims: decodeJwt(assertion) };
  } catch {
    throw new GrantError("invalid_grant", "Bad Request");
  }
}
