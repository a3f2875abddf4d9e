import { randomBytes } from "node:crypto";
import { ServiceError } from "./cloud-a-parameters.ts";
import type { KnownKey } from "./cloud-a-signature.ts";

/** A role and its trust policy: who may assume it, and the external id it insists on. */
export interface Role {
  arn: string;
  externalId?: string;
  trustedAccessKeyIds: readonly string[];
}

const rules: Record<string, RegExp> = {
  Action: /^AssumeRole$/,
  Version: /^2011-06-15$/,
  RoleArn: /^(?=.{20,2048}$)arn:aws[a-z-]*:iam::\d{12}:role\/[\w+=,.@/-]+$/,
  RoleSessionName: /^[\w+=,.@-]{2,64}$/,
  ExternalId: /^[\w+=,.@:/-]{2,1224}$/,
  DurationSeconds: /^\d{1,5}$/,
};
const required = ["Action", "Version", "RoleArn", "RoleSessionName"];

/** The names STS gives to what Secrets Manager calls otherwise. */
export const stsNames: Record<string, string> = {
  UnrecognizedClientException: "InvalidClientTokenId",
  InvalidSignatureException: "SignatureDoesNotMatch",
  ExpiredTokenException: "ExpiredToken",
  MissingAuthenticationTokenException: "MissingAuthenticationToken",
  IncompleteSignatureException: "IncompleteSignature",
};

/**
 * STS AssumeRole (API version 2011-06-15): a session key for `caller`, valid from `now` (ms since the epoch).
 * Throws `ServiceError` with STS's names. Parameters we do not use are refused.
 */
export function assumeRole(form: string, caller: KnownKey, roles: readonly Role[], now: number): KnownKey {
  const parameters = new Map<string, string>();
  for (const [name, value] of new URLSearchParams(form)) {
    const rule = rules[name];
    if (parameters.has(name) || rule === undefined || !rule.test(value)) {
      throw new ServiceError("ValidationError", `Value '${value}' at '${name}' failed to satisfy constraint`);
    }
    parameters.set(name, value);
  }
  for (const name of required) {
    if (!parameters.has(name)) throw new ServiceError("ValidationError", `Value null at '${name}'`);
  }
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
  return {
    accessKeyId: `ASIA${randomBytes(8).toString("hex").toUpperCase()}`,
    secretAccessKey: randomBytes(30).toString("base64"),
    sessionToken: randomBytes(120).toString("base64"),
    expiresAt: now + seconds * 1000,
  };
}

/** The answer's document. Text is escaped more than needed, so that a reader without entities fails. */
export function sessionXml(session: KnownKey): string {
  const { accessKeyId, secretAccessKey, sessionToken = "", expiresAt = 0 } = session;
  return `<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
  <AssumeRoleResult>
    <AssumedRoleUser><AssumedRoleId>AROA:s</AssumedRoleId><Arn>arn:aws:sts::123456789012:assumed-role/r/s</Arn></AssumedRoleUser>
    <Credentials>
      <AccessKeyId>${escapeXml(accessKeyId)}</AccessKeyId>
      <SecretAccessKey>${escapeXml(secretAccessKey)}</SecretAccessKey>
      <SessionToken>${escapeXml(sessionToken)}</SessionToken>
      <Expiration>${new Date(expiresAt).toISOString()}</Expiration>
    </Credentials>
  </AssumeRoleResult>
</AssumeRoleResponse>`;
}

export function errorXml(type: string, message: string): string {
  const code = escapeXml(stsNames[type] ?? type);
  return `<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type><Code>${code}</Code><Message>${escapeXml(message)}</Message></Error></ErrorResponse>`;
}

const escapeXml = (text: string) =>
  text.replace(/[<>&"'=+/]/g, (one) => (one === "&" ? "&amp;" : one === "+" ? "&#x2B;" : `&#${one.charCodeAt(0)};`));
