import { type KeyObject, verify } from "node:crypto";
import { ApiError, type Level, type Permissions, type Repository, type State, type Token } from "./state.ts";

export type Actor = { kind: "app"; state: State } | { kind: "token"; id: string; token: Token; state: State };

/** The sender of a request: the bearer of a token, or an application with its own signed token. */
export function authenticate(
  authorization: string | undefined,
  { states, appKey, now }: { states: Iterable<State>; appKey: KeyObject; now: number },
): Actor {
  const [, scheme, credential] = /^(Bearer|token) (\S+)$/i.exec(authorization ?? "") ?? [];
  if (scheme === undefined || credential === undefined) throw new ApiError(401, "Requires authentication");
  if (credential.split(".").length === 3) {
    if (!/^bearer$/i.test(scheme)) throw badJwt();
    const issuer = checkJwt(credential, appKey, Math.floor(now / 1000));
    for (const state of states) if (state.credentials.appId === issuer) return { kind: "app", state };
    throw new ApiError(404, "Integration not found");
  }
  for (const state of states) {
    const token = state.tokens.get(credential);
    if (token === undefined) continue;
    if (token.kind === "installation" && token.expiresAt <= now) break;
    return { kind: "token", id: credential, token, state };
  }
  throw new ApiError(401, "Bad credentials");
}

const badJwt = (message = "A JSON web token could not be decoded") => new ApiError(401, message);

/** RS256, an issuer, and at most ten minutes from `iat` to `exp`; answers the issuer. */
function checkJwt(jwt: string, key: KeyObject, now: number): string {
  const [head = "", body = "", signature = ""] = jwt.split(".");
  const header = readPart(head);
  const { iat, exp, iss, ...others } = readPart(body);
  if (header["alg"] !== "RS256" || (header["typ"] ?? "JWT") !== "JWT" || Object.keys(others).length > 0) throw badJwt();
  if (!Number.isInteger(iat) || !Number.isInteger(exp)) throw badJwt("Missing 'issued at' claim ('iat')");
  if (Number(iat) > now) throw badJwt("'Issued at' claim ('iat') must be an Integer representing the time now");
  if (Number(exp) <= now) throw badJwt("'Expiration time' claim ('exp') must be in the future");
  if (Number(exp) > now + 600 || Number(exp) - Number(iat) > 600) {
    throw badJwt("'Expiration time' claim ('exp') is too far in the future");
  }
  if (!verify("sha256", Buffer.from(`${head}.${body}`), key, Buffer.from(signature, "base64url"))) throw badJwt();
  return String(iss);
}

function readPart(part: string): Record<string, unknown> {
  try {
    return { ...JSON.parse(Buffer.from(part, "base64url").toString()) };
  } catch {
    throw badJwt();
  }
}

/** The application itself, for the few paths that only it may use. */
export function asApp(actor: Actor): State {
  if (actor.kind === "app") return actor.state;
  throw new ApiError(401, "A JSON web token could not be decoded");
}

/** The bearer of a token: an application's own signature opens nothing else. */
export function asBearer(actor: Actor): Extract<Actor, { kind: "token" }> {
  if (actor.kind === "token") return actor;
  throw new ApiError(403, "Resource not accessible by integration");
}

/** Resources outside the bearer's reach do not exist for it. */
export function reaches({ token }: Extract<Actor, { kind: "token" }>, repository: Repository): boolean {
  if (token.kind === "classic") return !repository.private || token.scopes.includes("repo");
  return token.repositories === "all" || token.repositories.has(repository.id);
}

/** Throws 403 unless all permissions are there; for classic tokens `scope` and the user's role stand for them. */
export function mustHave(
  { token }: Extract<Actor, { kind: "token" }>,
  wanted: Permissions,
  { scope }: { scope: string },
): void {
  const level: Level = Object.values(wanted).includes("write") ? "write" : "read";
  if (token.kind === "classic") {
    if (!token.scopes.includes(scope)) throw new ApiError(403, "Must have admin rights to Repository.");
    if (level === "write" && token.role === "read") throw new ApiError(403, "Must have admin rights to Repository.");
    return;
  }
  const lacks = Object.entries(wanted).some(
    ([name, needed]) => token.permissions[name] !== "write" && token.permissions[name] !== needed,
  );
  if (!lacks) return;
  const who = token.kind === "installation" ? "integration" : "personal access token";
  const accepted = Object.entries(wanted).map(([name, needed]) => `${name}=${needed}`);
  throw new ApiError(403, `Resource not accessible by ${who}`, {
    headers: { "x-accepted-github-permissions": accepted.join(",") },
  });
}
