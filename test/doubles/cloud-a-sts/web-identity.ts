import { ServiceError } from "../cloud-a-sm/parameters.ts";
import { refusedToken, type Trust } from "../trusted-token.ts";
import type { KnownKey } from "./signature.ts";
import { newSession, sessionXml } from "./sts.ts";

/** A role whose trust policy accepts identity tokens of an OpenID provider of its account. */
export interface WebIdentityRole extends Trust {
  arn: string;
}

const rules: Record<string, RegExp> = {
  Action: /^AssumeRoleWithWebIdentity$/,
  Version: /^2011-06-15$/,
  RoleArn: /^(?=.{20,2048}$)arn:aws[a-z-]*:iam::\d{12}:role\/[\w+=,.@/-]+$/,
  RoleSessionName: /^[\w+=,.@-]{2,64}$/,
  WebIdentityToken: /^.{4,20000}$/,
  DurationSeconds: /^\d{1,5}$/,
};

/**
 * AssumeRoleWithWebIdentity of STS, which takes no signature. Stricter than the real service: a signed request, unknown
 * parameters and an external id are refused, as is a token that differs from the role's trust in any claim.
 */
export async function assumeWithWebIdentity(
  { form, signed }: { form: string; signed: boolean },
  roles: readonly WebIdentityRole[],
  now: number,
): Promise<{ xml: string; session: KnownKey }> {
  const given = [...new URLSearchParams(form)];
  const parameters = new Map(given);
  if (signed || parameters.size !== given.length) throw new ServiceError("ValidationError", "The request is not plain");
  for (const [name, value] of given) {
    if (rules[name]?.test(value)) continue;
    throw new ServiceError("ValidationError", `Value '${value}' at '${name}' failed to satisfy constraint`);
  }
  for (const name of ["RoleArn", "RoleSessionName", "WebIdentityToken"]) {
    if (!parameters.has(name)) throw new ServiceError("ValidationError", `Value null at '${name}'`);
  }
  const seconds = Number(parameters.get("DurationSeconds") ?? 3600);
  if (seconds < 900 || seconds > 43_200) throw new ServiceError("ValidationError", "'durationSeconds'");
  const token = parameters.get("WebIdentityToken") ?? "";
  const trusted = roles.filter(({ arn }) => arn === parameters.get("RoleArn"));
  if (trusted.length === 0) {
    throw new ServiceError("AccessDenied", "Not authorized to perform sts:AssumeRoleWithWebIdentity", 403);
  }
  const refused = await refusedToken(token, trusted, now);
  if (refused !== null) throw new ServiceError("InvalidIdentityToken", `The token '${token}' is refused: ${refused}`);
  const session = newSession(now, seconds);
  return { xml: sessionXml(session, "AssumeRoleWithWebIdentity"), session };
}
