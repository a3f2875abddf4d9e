import { randomBytes } from "node:crypto";
import { ServiceError } from "../cloud-a-sm/parameters.ts";
import type { KnownKey } from "./signature.ts";

/** A role and its trust policy: the principals that may assume it, and the required external id. */
export interface Role {
  arn: string;
  externalId?: string;
  trustedAccessKeyIds: readonly string[];
}

/** Each action's parameters and their rules. Those of the real service that we do not use are refused. */
const actions: Record<string, { required: string[]; rules: Record<string, RegExp> }> = {
  AssumeRole: {
    required: ["RoleArn", "RoleSessionName"],
    rules: {
      RoleArn: /^(?=.{20,2048}$)arn:aws[a-z-]*:iam::\d{12}:role\/[\w+=,.@/-]+$/,
      RoleSessionName: /^[\w+=,.@-]{2,64}$/,
      ExternalId: /^[\w+=,.@:/-]{2,1224}$/,
      DurationSeconds: /^\d{1,5}$/,
    },
  },
  GetCallerIdentity: { required: [], rules: {} },
};

/** The names STS gives to what Secrets Manager calls otherwise. */
export const stsNames: Record<string, string> = {
  UnrecognizedClientException: "InvalidClientTokenId",
  InvalidSignatureException: "SignatureDoesNotMatch",
  ExpiredTokenException: "ExpiredToken",
  MissingAuthenticationTokenException: "MissingAuthenticationToken",
  IncompleteSignatureException: "IncompleteSignature",
};

/**
 * One action of STS (API version 2011-06-15) for `caller`: the answer's document, and for AssumeRole the session's key,
 * valid from `now` (ms since the epoch). Throws `ServiceError` with STS's names.
 */
export function callSts(
  form: string,
  caller: KnownKey,
  roles: readonly Role[],
  now: number,
): { xml: string; session?: KnownKey } {
  const parameters = checkedForm(form);
  if (parameters.get("Action") === "GetCallerIdentity") return { xml: identityXml(caller) };
  const session = assumeRole(parameters, caller, roles, now);
  return { xml: sessionXml(session), session };
}

function checkedForm(form: string): Map<string, string> {
  const given = [...new URLSearchParams(form)];
  const parameters = new Map(given);
  if (parameters.size !== given.length) throw new ServiceError("ValidationError", "A parameter is given twice");
  const name = parameters.get("Action") ?? "";
  const action = Object.hasOwn(actions, name) ? actions[name] : undefined;
  if (action === undefined || parameters.get("Version") !== "2011-06-15") {
    const message = `Could not find operation ${name} for version ${parameters.get("Version")}`;
    throw new ServiceError("InvalidAction", message);
  }
  for (const [key, value] of given) {
    if (key === "Action" || key === "Version" || action.rules[key]?.test(value)) continue;
    throw new ServiceError("ValidationError", `Value '${value}' at '${key}' failed to satisfy constraint`);
  }
  for (const key of action.required) {
    if (!parameters.has(key)) throw new ServiceError("ValidationError", `Value null at '${key}'`);
  }
  return parameters;
}

function assumeRole(
  parameters: ReadonlyMap<string, string>,
  caller: KnownKey,
  roles: readonly Role[],
  now: number,
): KnownKey {
  const seconds = Number(parameters.get("DurationSeconds") ?? 3600);
  // A session that assumes a further role gets an hour at most.
  if (seconds < 900 || seconds > (caller.sessionToken === undefined ? 43_200 : 3600)) {
    throw new ServiceError("ValidationError", `Value '${seconds}' at 'durationSeconds' failed to satisfy constraint`);
  }
  const role = roles.find(({ arn }) => arn === parameters.get("RoleArn"));
  const trusted = role?.trustedAccessKeyIds.includes(caller.accessKeyId) === true;
  // A role without a condition on the external id ignores one that is sent.
  const idMatches = role?.externalId === undefined || role.externalId === parameters.get("ExternalId");
  if (!trusted || !idMatches) {
    const message = `User is not authorized to perform: sts:AssumeRole on resource: ${parameters.get("RoleArn")}`;
    throw new ServiceError("AccessDenied", message, 403);
  }
  return newSession(now, seconds);
}

/** The key of a new session. */
export const newSession = (now: number, seconds: number): KnownKey => ({
  accessKeyId: `ASIA${randomBytes(8).toString("hex").toUpperCase()}`,
  secretAccessKey: randomBytes(30).toString("base64"),
  sessionToken: randomBytes(120).toString("base64"),
  expiresAt: now + seconds * 1000,
});

function identityXml({ accessKeyId, sessionToken }: KnownKey): string {
  const arn =
    sessionToken === undefined
      ? `arn:aws:iam::123456789012:user/${accessKeyId}`
      : "arn:aws:sts::123456789012:assumed-role/r/s";
  return `<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
  <GetCallerIdentityResult>
    <Arn>${escapeXml(arn)}</Arn><UserId>AIDA</UserId><Account>123456789012</Account>
  </GetCallerIdentityResult>
  <ResponseMetadata><RequestId>${crypto.randomUUID()}</RequestId></ResponseMetadata>
</GetCallerIdentityResponse>`;
}

/** The answer's document. Text is escaped more than needed, so that a reader without entities fails. */
export function sessionXml(session: KnownKey, action = "AssumeRole"): string {
  const { accessKeyId, secretAccessKey, sessionToken = "", expiresAt = 0 } = session;
  return `<${action}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
  <${action}Result>
    <AssumedRoleUser><AssumedRoleId>AROA:s</AssumedRoleId><Arn>arn:aws:sts::123456789012:assumed-role/r/s</Arn></AssumedRoleUser>
    <Credentials>
      <AccessKeyId>${escapeXml(accessKeyId)}</AccessKeyId>
      <SecretAccessKey>${escapeXml(secretAccessKey)}</SecretAccessKey>
      <SessionToken>${escapeXml(sessionToken)}</SessionToken>
      <Expiration>${new Date(expiresAt).toISOString()}</Expiration>
    </Credentials>
  </${action}Result>
</${action}Response>`;
}

export function errorXml(type: string, message: string): string {
  const code = escapeXml(stsNames[type] ?? type);
  return `<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type><Code>${code}</Code><Message>${escapeXml(message)}</Message></Error></ErrorResponse>`;
}

const escapeXml = (text: string) =>
  text.replace(/[<>&"'=+/]/g, (one) => (one === "&" ? "&amp;" : one === "+" ? "&#x2B;" : `&#${one.charCodeAt(0)};`));
