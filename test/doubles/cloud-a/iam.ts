import { ServiceError } from "../cloud-a-sm/parameters.ts";
import type { Account, User } from "./account.ts";
import type { ActionRules, Node, Parameters, Rule } from "./query.ts";

/** The actions of IAM that the engine uses (API version 2010-05-08), with the parameters of the reference. */

const name = /^[\w+=,.@-]{1,64}$/;
const groupName = /^[\w+=,.@-]{1,128}$/;
const arn = /^arn:[\w:/.@+=,-]{16,2044}$/;
const policyName = /^[\w+=,.@-]{1,128}$/;
const tags: Rule = {
  members: { Key: /^[\p{L}\p{Z}\p{N}_.:/=+\-@]{1,128}$/u, Value: /^[\p{L}\p{Z}\p{N}_.:/=+\-@]{0,256}$/u },
  most: 50,
};
const paging = { Marker: /^.{1,320}$/s, MaxItems: /^([1-9]\d{0,2}|1000)$/ };
const keyId = /^[\w]{16,128}$/;
const path = /^(\/|\/[\x21-\x7e]+\/)$/;
const document = /^[\t\n\r\u0020-\u00ff]{1,131072}$/;

const user = { UserName: name };
const lists = { required: ["UserName"], rules: { ...user, ...paging } };

export const iamActions: Readonly<Record<string, ActionRules>> = {
  CreateUser: {
    required: ["UserName"],
    rules: { ...user, Path: path, PermissionsBoundary: arn, Tags: tags },
  },
  GetUser: { required: [], rules: user },
  DeleteUser: { required: ["UserName"], rules: user },
  ListUsers: { required: [], rules: { PathPrefix: /^\/[\x21-\x7f]*$/, ...paging } },
  TagUser: { required: ["UserName", "Tags.member.1.Key"], rules: { ...user, Tags: tags } },
  AttachUserPolicy: { required: ["UserName", "PolicyArn"], rules: { ...user, PolicyArn: arn } },
  DetachUserPolicy: { required: ["UserName", "PolicyArn"], rules: { ...user, PolicyArn: arn } },
  ListAttachedUserPolicies: { required: ["UserName"], rules: { ...user, ...paging, PathPrefix: /^\/.*$/ } },
  PutUserPolicy: {
    required: ["UserName", "PolicyName", "PolicyDocument"],
    rules: { ...user, PolicyName: policyName, PolicyDocument: document },
  },
  DeleteUserPolicy: { required: ["UserName", "PolicyName"], rules: { ...user, PolicyName: policyName } },
  ListUserPolicies: lists,
  AddUserToGroup: { required: ["UserName", "GroupName"], rules: { ...user, GroupName: groupName } },
  RemoveUserFromGroup: { required: ["UserName", "GroupName"], rules: { ...user, GroupName: groupName } },
  ListGroupsForUser: lists,
  CreateAccessKey: { required: [], rules: user },
  DeleteAccessKey: { required: ["AccessKeyId"], rules: { ...user, AccessKeyId: keyId } },
  ListAccessKeys: { required: [], rules: { ...user, ...paging } },
  ListAttachedGroupPolicies: { required: ["GroupName"], rules: { GroupName: groupName, ...paging } },
  ListGroupPolicies: { required: ["GroupName"], rules: { GroupName: groupName, ...paging } },
  GetGroupPolicy: { required: ["GroupName", "PolicyName"], rules: { GroupName: groupName, PolicyName: policyName } },
  ListMFADevices: lists,
  ListSSHPublicKeys: lists,
  ListSigningCertificates: lists,
  ListServiceSpecificCredentials: { required: ["UserName"], rules: user },
  DeleteLoginProfile: { required: ["UserName"], rules: user },
  DeactivateMFADevice: {
    required: ["UserName", "SerialNumber"],
    rules: { ...user, SerialNumber: /^[\w+=/:,.@-]{9,256}$/ },
  },
  DeleteSSHPublicKey: { required: ["UserName", "SSHPublicKeyId"], rules: { ...user, SSHPublicKeyId: /^\w{20,128}$/ } },
  DeleteSigningCertificate: {
    required: ["UserName", "CertificateId"],
    rules: { ...user, CertificateId: /^\w{24,128}$/ },
  },
  DeleteServiceSpecificCredential: {
    required: ["UserName", "ServiceSpecificCredentialId"],
    rules: { ...user, ServiceSpecificCredentialId: /^\w{20,128}$/ },
  },
};

const missing = (message: string) => new ServiceError("NoSuchEntity", message, 404);
const limit = (message: string) => new ServiceError("LimitExceeded", message, 409);
const conflict = (what: string) => new ServiceError("DeleteConflict", `Cannot delete entity, must ${what} first.`, 409);
const time = (ms: number): string => new Date(ms).toISOString().replace(/\.\d+Z$/, "Z");

/** Words of an addition: of lists, of the conflict, and of a missing one. */
const additions: Readonly<Record<string, { kind: string; list: string; id: string; missing: string }>> = {
  ListMFADevices: { kind: "mfa", list: "MFADevices", id: "SerialNumber", missing: "MFA Device" },
  ListSSHPublicKeys: { kind: "ssh", list: "SSHPublicKeys", id: "SSHPublicKeyId", missing: "SSH Public Key" },
  ListSigningCertificates: { kind: "certificate", list: "Certificates", id: "CertificateId", missing: "Certificate" },
  ListServiceSpecificCredentials: {
    kind: "service",
    list: "ServiceSpecificCredentials",
    id: "ServiceSpecificCredentialId",
    missing: "Service specific credential",
  },
};
const removals: Readonly<Record<string, [kind: string, parameter: string | null, words: string]>> = {
  DeleteLoginProfile: ["login", null, "Login Profile for User"],
  DeactivateMFADevice: ["mfa", "SerialNumber", "MFA Device"],
  DeleteSSHPublicKey: ["ssh", "SSHPublicKeyId", "Public Key"],
  DeleteSigningCertificate: ["certificate", "CertificateId", "Certificate"],
  DeleteServiceSpecificCredential: ["service", "ServiceSpecificCredentialId", "Service specific credential"],
};

/** Performs an action. @param self name of the calling user @returns its result; null without one */
export function callIam(account: Account, action: string, given: Parameters, self: string, now: number): Node {
  const userName = given.text("UserName") || self;
  if (action === "CreateUser") return createUser(account, given, now);
  if (action === "ListUsers") {
    const prefix = given.text("PathPrefix") || "/";
    const found = [...account.users.values()].filter(({ path: at }) => at.startsWith(prefix));
    return page(given, found, "Users", (each) => userView(account, each));
  }
  if (given.has("GroupName") && action !== "AddUserToGroup" && action !== "RemoveUserFromGroup")
    return groupAction(account, action, given);
  const found = account.users.get(userName);
  if (!found || found.knownFrom > now) throw missing(`The user with name ${userName} cannot be found.`);
  const removal = removals[action];
  if (removal) return removeAddition(found, given, removal);
  const addition = additions[action];
  if (addition) {
    const ids = [...(found.additions.get(addition.kind) ?? [])];
    return page(given, ids, addition.list, (id) => ({ UserName: userName, [addition.id]: id, Status: "Active" }));
  }
  return userAction(account, action, given, found, now);
}

function createUser(account: Account, given: Parameters, now: number): Node {
  const userName = given.text("UserName");
  const boundary = given.text("PermissionsBoundary");
  if (account.users.has(userName)) {
    throw new ServiceError("EntityAlreadyExists", `User with name ${userName} already exists.`, 409);
  }
  if (boundary !== "" && !account.policies.has(boundary))
    throw missing(`Scope ARN: ${boundary} does not exist or is not attachable.`);
  const made = account.addUser({ name: userName, path: given.text("Path") || "/", boundary, tags: given.tags(), now });
  return { User: userView(account, made) };
}

const userView = (
  account: Account,
  { name: userName, id, path: at, createdAt, tags: given, boundary }: User,
): Node => ({
  Path: at,
  UserName: userName,
  UserId: id,
  Arn: account.userArn({ path: at, name: userName }),
  CreateDate: time(createdAt),
  PermissionsBoundary: boundary === "" ? null : { PermissionsBoundaryType: "Policy", PermissionsBoundaryArn: boundary },
  Tags: Object.entries(given).map(([Key, Value]) => ({ Key, Value })),
});

function userAction(account: Account, action: string, given: Parameters, found: User, now: number): Node {
  const { name: userName } = found;
  const policy = given.text("PolicyArn");
  switch (action) {
    case "GetUser":
      return { User: userView(account, found) };
    case "TagUser":
      Object.assign(found.tags, given.tags());
      return null;
    case "AttachUserPolicy":
      if (!account.policies.has(policy)) throw missing(`Policy ${policy} does not exist or is not attachable.`);
      if (found.attached.size >= 10 && !found.attached.has(policy))
        throw limit("Cannot exceed quota for PoliciesPerUser: 10");
      found.attached.add(policy);
      return null;
    case "DetachUserPolicy":
      if (!found.attached.delete(policy)) throw missing(`Policy ${policy} was not found.`);
      return null;
    case "ListAttachedUserPolicies":
      return page(given, [...found.attached], "AttachedPolicies", attachedView);
    case "PutUserPolicy":
      putPolicy(found, given.text("PolicyName"), given.text("PolicyDocument"));
      return null;
    case "DeleteUserPolicy":
      if (!found.inline.delete(given.text("PolicyName")))
        throw missing(`The user policy with name ${given.text("PolicyName")} cannot be found.`);
      return null;
    case "ListUserPolicies":
      return page(given, [...found.inline.keys()], "PolicyNames", (each) => each);
    case "AddUserToGroup":
      if (!account.groups.has(given.text("GroupName")))
        throw missing(`The group with name ${given.text("GroupName")} cannot be found.`);
      if (found.groups.size >= 10) throw limit("Cannot exceed quota for GroupsPerUser: 10");
      found.groups.add(given.text("GroupName"));
      return null;
    case "RemoveUserFromGroup":
      if (!found.groups.delete(given.text("GroupName")))
        throw missing(`User ${userName} is not a member of the group with name ${given.text("GroupName")}.`);
      return null;
    case "ListGroupsForUser":
      return page(given, [...found.groups], "Groups", (each) => ({
        Path: "/",
        GroupName: each,
        GroupId: "AGPAQQQQQQQQQQQQQQQQ",
        Arn: account.arn(`group/${each}`),
        CreateDate: time(0),
      }));
    case "CreateAccessKey": {
      const key = account.addKey(userName, now);
      return {
        AccessKey: {
          UserName: userName,
          AccessKeyId: key.accessKeyId,
          Status: "Active",
          SecretAccessKey: key.secretAccessKey,
          CreateDate: time(now),
        },
      };
    }
    case "DeleteAccessKey": {
      const id = given.text("AccessKeyId");
      if (account.keys.get(id)?.userName !== userName) throw missing(`The Access Key with id ${id} cannot be found.`);
      account.keys.delete(id);
      return null;
    }
    case "ListAccessKeys":
      return page(given, account.keysOf(userName), "AccessKeyMetadata", (key) => ({
        UserName: userName,
        AccessKeyId: key.accessKeyId,
        Status: "Active",
        CreateDate: time(key.createdAt),
      }));
    case "DeleteUser":
      deleteUser(account, found);
      return null;
    default:
      throw new ServiceError("InvalidAction", `Could not find operation ${action} for version 2010-05-08`);
  }
}

function putPolicy(found: User, policy: string, text: string): void {
  try {
    const parsed = JSON.parse(text) as { Statement?: unknown };
    if (typeof parsed !== "object" || parsed.Statement === undefined) throw new Error("no statement");
  } catch {
    throw new ServiceError("MalformedPolicyDocument", "Syntax errors in policy.");
  }
  const others = [...found.inline].filter(([each]) => each !== policy).map(([, each]) => each);
  const size = [...others, text].join("").replace(/\s/g, "").length;
  if (size > 2048) throw limit("Maximum policy size of 2048 bytes exceeded for user");
  found.inline.set(policy, text);
}

const ADDED: Readonly<Record<string, string>> = {
  login: "delete login profile",
  mfa: "deactivate MFA devices",
  ssh: "delete SSH public keys",
  certificate: "delete signing certificates",
  service: "delete service specific credentials",
};

function deleteUser(account: Account, { name: userName, attached, inline, groups, additions: added }: User): void {
  if (account.keysOf(userName).length > 0) throw conflict("delete access keys");
  if (attached.size > 0) throw conflict("detach all policies");
  if (inline.size > 0) throw conflict("delete policies");
  if (groups.size > 0) throw conflict("remove users from group");
  for (const [kind, ids] of added) if (ids.size > 0) throw conflict(ADDED[kind] ?? "remove it");
  account.users.delete(userName);
}

function removeAddition(
  { name: userName, additions: added }: User,
  given: Parameters,
  [kind, parameter, words]: [string, string | null, string],
): Node {
  const id = parameter === null ? userName : given.text(parameter);
  if (!added.get(kind)?.delete(id)) throw missing(`${words} ${id} cannot be found.`);
  return null;
}

function groupAction(account: Account, action: string, given: Parameters): Node {
  const groupNamed = given.text("GroupName");
  const group = account.groups.get(groupNamed);
  if (!group) throw missing(`The group with name ${groupNamed} cannot be found.`);
  if (action === "ListAttachedGroupPolicies") return page(given, group.attached, "AttachedPolicies", attachedView);
  if (action === "ListGroupPolicies") return page(given, [...group.inline.keys()], "PolicyNames", (each) => each);
  const policy = given.text("PolicyName");
  const text = group.inline.get(policy);
  if (text === undefined) throw missing(`The group policy with name ${policy} cannot be found.`);
  return { GroupName: groupNamed, PolicyName: policy, PolicyDocument: encodeURIComponent(text) };
}

const attachedView = (policy: string): Node => ({ PolicyName: policy.split("/").at(-1) ?? "", PolicyArn: policy });

/** A page of a list: pages of two without `MaxItems`, so that a reader without paging fails. */
function page<T>(given: Parameters, all: readonly T[], element: string, view: (each: T) => Node): Node {
  const from = given.has("Marker") ? Number(given.text("Marker")) : 0;
  const to = from + Math.min(Number(given.text("MaxItems") || 100), 2);
  const isTruncated = to < all.length;
  return {
    [element]: all.slice(from, to).map(view),
    IsTruncated: isTruncated,
    ...(isTruncated && { Marker: String(to) }),
  };
}
