import { ServiceError } from "../cloud-a-sm/parameters.ts";
import type { AccessKey, Account, Session } from "./account.ts";
import type { ActionRules, Node, Parameters } from "./query.ts";

/** The signed actions of STS (API version 2011-06-15), with the parameters of the reference. */

const tags = { members: { Key: /^.{1,128}$/s, Value: /^.{0,256}$/s }, most: 50 };
const arns = { members: { arn: /^arn:[\w:/.@+=,-]{16,2044}$/ }, most: 10 };
const document = /^[\t\n\r\u0020-\u00ff]{1,2048}$/;
const seconds = /^\d{1,6}$/;

export const stsActions: Readonly<Record<string, ActionRules>> = {
  AssumeRole: {
    required: ["RoleArn", "RoleSessionName"],
    rules: {
      RoleArn: /^(?=.{20,2048}$)arn:aws[a-z-]*:iam::\d{12}:role\/[\w+=,.@/-]+$/,
      RoleSessionName: /^[\w+=,.@-]{2,64}$/,
      ExternalId: /^[\w+=,.@:/-]{2,1224}$/,
      DurationSeconds: seconds,
      Policy: document,
      PolicyArns: arns,
      Tags: tags,
    },
  },
  GetFederationToken: {
    required: ["Name"],
    rules: { Name: /^[\w+=,.@-]{2,32}$/, DurationSeconds: seconds, Policy: document, PolicyArns: arns, Tags: tags },
  },
  GetSessionToken: {
    required: [],
    rules: { DurationSeconds: seconds, SerialNumber: /^[\w+=/:,.@-]{9,256}$/, TokenCode: /^\d{6}$/ },
  },
  GetCallerIdentity: { required: [], rules: {} },
};

/** The caller: a user's key, or a session. */
export type Caller = { readonly key: AccessKey } | { readonly session: Session };

export function callSts(account: Account, action: string, given: Parameters, caller: Caller, now: number): Node {
  const self = "key" in caller ? account.users.get(caller.key.userName) : null;
  if (action === "GetCallerIdentity") {
    const arn = "session" in caller ? caller.session.arn : self ? account.userArn(self) : "";
    return { Arn: arn, UserId: self?.id ?? "AROAQQQQQQQQQQQQQQQQ:s", Account: account.id };
  }
  // Keys that the engine has issued may call nothing else here.
  if (self && self.name !== "sallyport") throw denied(account, self.name, action);
  checkPolicies(account, given);
  if (action === "AssumeRole") return assumeRole(account, given, caller, now);
  if ("session" in caller) {
    throw new ServiceError("AccessDenied", `Cannot call ${action} with session credentials`, 403);
  }
  const life = lifeOf(given, 43_200, 900, 129_600);
  if (action === "GetSessionToken") {
    if (given.has("SerialNumber") !== given.has("TokenCode")) {
      throw new ServiceError("ValidationError", "SerialNumber and TokenCode must be given together");
    }
    return { Credentials: credentials(account.addSession(self ? account.userArn(self) : "", "session", now + life)) };
  }
  const arn = `arn:aws:sts::${account.id}:federated-user/${given.text("Name")}`;
  return {
    Credentials: credentials(account.addSession(arn, "federated", now + life)),
    FederatedUser: { FederatedUserId: `${account.id}:${given.text("Name")}`, Arn: arn },
    PackedPolicySize: 1,
  };
}

const denied = (account: Account, user: string, action: string, resource = "*") =>
  new ServiceError(
    "AccessDenied",
    `User: ${account.arn(`user/${user}`)} is not authorized to perform: sts:${action} on resource: ${resource}`,
    403,
  );

function assumeRole(account: Account, given: Parameters, caller: Caller, now: number): Node {
  const arn = given.text("RoleArn");
  const role = account.roles.find((each) => each.arn === arn);
  const life = lifeOf(given, 3_600, 900, 43_200);
  if (!role || (role.externalId !== undefined && role.externalId !== given.text("ExternalId"))) {
    throw denied(account, "sallyport", "AssumeRole", arn);
  }
  // A session that assumes a further role gets an hour at most.
  if (life > Math.min(role.maxSeconds, "session" in caller ? 3_600 : 43_200) * 1000) {
    throw new ServiceError(
      "ValidationError",
      "The requested DurationSeconds exceeds the MaxSessionDuration set for this role.",
    );
  }
  const session = `arn:aws:sts::${account.id}:assumed-role/${arn.split("/").at(-1)}/${given.text("RoleSessionName")}`;
  return {
    AssumedRoleUser: { AssumedRoleId: `AROAQQQQQQQQQQQQQQQQ:${given.text("RoleSessionName")}`, Arn: session },
    Credentials: credentials(account.addSession(session, "role", now + life)),
    PackedPolicySize: 1,
  };
}

function lifeOf(given: Parameters, usual: number, least: number, most: number): number {
  const asked = given.has("DurationSeconds") ? Number(given.text("DurationSeconds")) : usual;
  if (asked >= least && asked <= most) return asked * 1000;
  const rule = asked < least ? `greater than or equal to ${least}` : `less than or equal to ${most}`;
  throw new ServiceError(
    "ValidationError",
    `1 validation error detected: Value '${asked}' at 'durationSeconds' failed to satisfy constraint: Member must have value ${rule}`,
  );
}

function checkPolicies(account: Account, given: Parameters): void {
  const unknown = given.list("PolicyArns", "arn").find((arn) => !account.policies.has(arn));
  if (unknown !== undefined) throw new ServiceError("MalformedPolicyDocument", `The policy ${unknown} does not exist.`);
  if (!given.has("Policy")) return;
  try {
    const { Statement } = JSON.parse(given.text("Policy")) as { Statement?: unknown };
    if (Statement === undefined) throw new Error("no statement");
  } catch {
    throw new ServiceError("MalformedPolicyDocument", "The policy is not in the valid JSON format.");
  }
}

const credentials = ({ accessKeyId, secretAccessKey, sessionToken, expiresAt }: Session): Node => ({
  AccessKeyId: accessKeyId,
  SecretAccessKey: secretAccessKey,
  SessionToken: sessionToken,
  Expiration: new Date(expiresAt).toISOString().replace(/\.\d+Z$/, "Z"),
});
