import type { CloudFailure, CloudResult } from "../../../contracts/cloud-calls.ts";
import { sessionOf } from "../../../providers/cloud-a-aws/client.ts";
import type { Credentials } from "../../../providers/cloud-a-aws/connection.ts";
import { queryCall } from "../../../providers/cloud-a-aws/signing.ts";
import { membersOf, textNamed, type XmlElement } from "../../../providers/cloud-a-aws/xml.ts";
import { signed } from "../../../providers/identity-token.ts";
import { failure } from "../../../providers/outcome.ts";
import { type Issued, TokenCache } from "../../../providers/token-cache.ts";
import type { ClientContext } from "../engine-type.ts";
import { failed } from "../http-result.ts";
import type { Addition, Assumed, Cloud, Contents, Session, SessionRequest, UserView } from "./cloud.ts";
import type { CloudAccount } from "./config.ts";
import { queryResult } from "./errors.ts";

/** Parameters of the query protocol. */
type Parameters = Readonly<Record<string, string>>;

/** Life of the session that an identity token opens: a chained role lives no longer. */
const LOGIN_SECONDS = 3_600;
/** Pages of a list, a thousand entries each. */
const MAX_PAGES = 20;
/** Lists whose action has no parameters of pages. */
const WITHOUT_PAGES: ReadonlySet<string> = new Set(["ListServiceSpecificCredentials"]);

interface Login extends Issued {
  readonly credentials: Credentials;
}

/** Sessions of accounts that log in with identity tokens. */
const logins = new TokenCache<Login>();

const forgets: ReadonlySet<string> = new Set(["ExpiredToken", "InvalidClientTokenId", "UnrecognizedClient"]);

const nothing = ({ ok, ...rest }: CloudResult<unknown>): CloudResult<null> =>
  ok ? { ok, value: null } : ({ ok, ...rest } as { ok: false; failure: CloudFailure });

/** The client of IAM and STS for one account. Each request is sent once, except reads of lists with several pages. */
export function cloudA(account: CloudAccount, { send, sendTo, assertion }: Omit<ClientContext, "settings">): Cloud {
  const loginKey = [account.sts[0], account.roleArn, assertion?.issuer, assertion?.subject, assertion?.audience];

  /** The credentials that calls are signed with. @param as a role that the account assumes first */
  async function signer(as?: Assumed): Promise<CloudResult<Credentials>> {
    const own = await ownSigner();
    return as && own.ok ? loggedIn(keyOfLogin(as), () => assume(as, own.value)) : own;
  }

  const keyOfLogin = (as: Assumed) => [...loginKey, account.accessKey, account.secretKey, as];

  async function loggedIn(
    key: readonly unknown[],
    open: () => Promise<CloudResult<Login>>,
  ): Promise<CloudResult<Credentials>> {
    const login = await logins.get(key, async () => {
      const opened = await open();
      return opened.ok ? { ok: true, token: opened.value } : { ...opened, outcome: NO_LOGIN };
    });
    return login.ok ? { ok: true, value: login.token.credentials } : { ok: false, failure: login.failure };
  }

  function assume({ roleArn, sessionName, externalId }: Assumed, own: Credentials): Promise<CloudResult<Login>> {
    const parameters = {
      RoleArn: roleArn,
      RoleSessionName: sessionName,
      ...(externalId && { ExternalId: externalId }),
    };
    return login("AssumeRole", parameters, own);
  }

  async function ownSigner(): Promise<CloudResult<Credentials>> {
    const { accessKey, secretKey } = account;
    if (!account.federation) return { ok: true, value: { accessKeyId: accessKey, secretAccessKey: secretKey } };
    return loggedIn(loginKey, assumeWithToken);
  }

  async function assumeWithToken(): Promise<CloudResult<Login>> {
    const token = assertion ? await signed(assertion) : null;
    if (token === null) return unreadable("No identity token could be signed to log in with.");
    const name = `vault-aws-secrets-${Date.now()}000000`;
    const parameters = { RoleArn: account.roleArn, RoleSessionName: name, WebIdentityToken: token };
    return login("AssumeRoleWithWebIdentity", parameters, null);
  }

  async function login(
    action: string,
    parameters: Parameters,
    credentials: Credentials | null,
  ): Promise<CloudResult<Login>> {
    const answer = await sts(action, { ...parameters, DurationSeconds: String(LOGIN_SECONDS) }, credentials);
    if (!answer.ok) return answer;
    const session = sessionOf(answer.value);
    return session ? { ok: true, value: session } : unreadable(`${action} was answered without a session.`);
  }

  /** Calls STS at the first place that answers. Its actions leave nothing that must be found again. */
  async function sts(
    action: string,
    parameters: Parameters,
    credentials: Credentials | null,
  ): Promise<CloudResult<XmlElement>> {
    let last: CloudResult<XmlElement> = unreadable("no endpoint of STS is configured");
    for (const { url, region, named: isNamed } of account.sts) {
      const request = { url, region, service: "sts", action, parameters, credentials } as const;
      const answer = await queryCall(isNamed ? sendTo : send, request);
      last = queryResult(answer, { service: "sts", name: action, reads: true });
      if (answer.ok) break;
    }
    return last;
  }

  function iam(
    action: string,
    parameters: Parameters,
    { reads = false, as }: { readonly reads?: boolean; readonly as?: Assumed | undefined } = {},
  ): Promise<CloudResult<XmlElement>> {
    const { url, region, named: isNamed } = account.iam;
    return withSigner(async (credentials) => {
      const request = { url, region, service: "iam", action, parameters, credentials } as const;
      return queryResult(await queryCall(isNamed ? sendTo : send, request), { service: "iam", name: action, reads });
    }, as);
  }

  /** A login that ended early is opened once more. */
  async function withSigner<T>(
    call: (credentials: Credentials) => Promise<CloudResult<T>>,
    as?: Assumed,
  ): Promise<CloudResult<T>> {
    const first = await signer(as);
    if (!first.ok) return first;
    const answer = await call(first.value);
    const isLogin = account.federation !== undefined || as !== undefined;
    if (answer.ok || !isLogin || !forgets.has(answer.failure.providerCode)) return answer;
    logins.forget(loginKey);
    if (as) logins.forget(keyOfLogin(as));
    const again = await signer(as);
    return again.ok ? call(again.value) : again;
  }

  const change = async (action: string, parameters: Parameters, as?: Assumed): Promise<CloudResult<null>> =>
    nothing(await iam(action, parameters, { as }));

  /** All entries of a list. */
  async function list<T>(
    action: string,
    parameters: Parameters,
    element: string,
    read: (member: XmlElement) => T,
    as?: Assumed,
  ): Promise<CloudResult<T[]>> {
    const found: T[] = [];
    let marker: string | null = null;
    for (let page = 0; page < MAX_PAGES; page++) {
      const at: Parameters = marker === null ? {} : { Marker: marker };
      const paging: Parameters = WITHOUT_PAGES.has(action) ? {} : { MaxItems: "1000", ...at };
      const answer = await iam(action, { ...parameters, ...paging }, { reads: true, as });
      if (!answer.ok) return answer;
      found.push(...membersOf(answer.value, element).map(read));
      marker = textNamed(answer.value, "IsTruncated") === "true" ? textNamed(answer.value, "Marker") : null;
      if (marker === null) return { ok: true, value: found };
    }
    return unreadable(`${action} has more than ${MAX_PAGES} pages.`);
  }

  const textsOf = (action: string, parameters: Parameters, element: string, name: string) =>
    list(action, parameters, element, (member) => (name === "" ? member.text : (textNamed(member, name) ?? "")));

  async function session(action: string, parameters: Parameters): Promise<CloudResult<Session>> {
    const answer = await withSigner((credentials) => sts(action, parameters, credentials));
    if (!answer.ok) return answer;
    const opened = sessionOf(answer.value);
    if (!opened) return unreadable(`${action} was answered without a session.`);
    const { accessKeyId, secretAccessKey, sessionToken = "" } = opened.credentials;
    const arn = action === "AssumeRole" ? textNamed(answer.value, "Arn") : null;
    const key = { accessKey: accessKeyId, secretKey: secretAccessKey, sessionToken };
    return { ok: true, value: { ...key, endsAt: opened.expiresAt, arn } };
  }

  const keysOf = (user: string, as?: Assumed) =>
    list("ListAccessKeys", { UserName: user }, "AccessKeyMetadata", keyView, as);

  async function userBy(parameters: Parameters, as?: Assumed): Promise<CloudResult<UserView>> {
    const answer = await iam("GetUser", parameters, { reads: true, as });
    if (!answer.ok) return answer;
    const tags = membersOf(answer.value, "Tags").map((tag) => [
      textNamed(tag, "Key") ?? "",
      textNamed(tag, "Value") ?? "",
    ]);
    const [name, id] = [textNamed(answer.value, "UserName"), textNamed(answer.value, "UserId")];
    if (!name || !id) return unreadable("GetUser was answered without a user.");
    return { ok: true, value: { name, id, tags: Object.fromEntries(tags) } };
  }

  async function holderBy(parameters: Parameters, as?: Assumed) {
    const user = await userBy(parameters, as);
    if (!user.ok) return user;
    const keys = await keysOf(user.value.name, as);
    return keys.ok ? ({ ok: true, value: { ...user.value, keys: keys.value } } as const) : keys;
  }

  return {
    assumeRole: ({ roleArn, sessionName, ...request }) =>
      session("AssumeRole", { RoleArn: roleArn, RoleSessionName: sessionName, ...sessionParameters(request) }),
    getFederationToken: ({ name, ...request }) =>
      session("GetFederationToken", { Name: name, ...sessionParameters(request) }),
    getSessionToken: (request) => session("GetSessionToken", sessionParameters(request)),

    async groupPolicies(group) {
      const of = { GroupName: group };
      const arns = await textsOf("ListAttachedGroupPolicies", of, "AttachedPolicies", "PolicyArn");
      if (!arns.ok) return arns;
      const names = await textsOf("ListGroupPolicies", of, "PolicyNames", "");
      if (!names.ok) return names;
      const documents: string[] = [];
      for (const name of names.value) {
        const answer = await iam("GetGroupPolicy", { ...of, PolicyName: name }, { reads: true });
        if (!answer.ok) return answer;
        documents.push(decodeURIComponent(textNamed(answer.value, "PolicyDocument") ?? ""));
      }
      return { ok: true, value: { arns: arns.value, documents } };
    },

    identify: async (accessKeyId, secretAccessKey) =>
      nothing(await sts("GetCallerIdentity", {}, { accessKeyId, secretAccessKey })),

    createUser({ name, path, boundary, tags }) {
      const parameters = {
        UserName: name,
        ...(path !== "" && { Path: path }),
        ...(boundary !== "" && { PermissionsBoundary: boundary }),
        ...named("Tags", tags),
      };
      return change("CreateUser", parameters);
    },
    attachPolicy: (user, arn) => change("AttachUserPolicy", { UserName: user, PolicyArn: arn }),
    putPolicy: (user, name, document) =>
      change("PutUserPolicy", { UserName: user, PolicyName: name, PolicyDocument: document }),
    addToGroup: (user, group) => change("AddUserToGroup", { UserName: user, GroupName: group }),
    async createKey(user, as) {
      const answer = await iam("CreateAccessKey", { UserName: user }, { as });
      if (!answer.ok) return answer;
      const [accessKey, secretKey] = [
        textNamed(answer.value, "AccessKeyId"),
        textNamed(answer.value, "SecretAccessKey"),
      ];
      if (!accessKey || !secretKey) return unreadable("CreateAccessKey was answered without a key.", "unknown");
      return { ok: true, value: { accessKey, secretKey } };
    },
    listKeys: keysOf,
    getUser: (user) => userBy({ UserName: user }),
    self: () => holderBy({}),
    keyHolder: (user, as) => holderBy({ UserName: user }, as),

    async contents(user) {
      const of = { UserName: user };
      const [keys, attached, inline, groups] = await Promise.all([
        keysOf(user),
        textsOf("ListAttachedUserPolicies", of, "AttachedPolicies", "PolicyArn"),
        textsOf("ListUserPolicies", of, "PolicyNames", ""),
        textsOf("ListGroupsForUser", of, "Groups", "GroupName"),
      ]);
      if (!keys.ok) return keys;
      if (!attached.ok) return attached;
      if (!inline.ok) return inline;
      if (!groups.ok) return groups;
      const ids = keys.value.map(({ id }) => id);
      const value: Contents = { keys: ids, attached: attached.value, inline: inline.value, groups: groups.value };
      return { ok: true, value };
    },

    async additions(user) {
      const of = { UserName: user };
      // A user without a password has no profile, and its deletion fails, which changes nothing.
      const found: Addition[] = [{ kind: "login", id: user }];
      const lists = [
        ["mfa", "ListMFADevices", "MFADevices", "SerialNumber"],
        ["ssh", "ListSSHPublicKeys", "SSHPublicKeys", "SSHPublicKeyId"],
        ["certificate", "ListSigningCertificates", "Certificates", "CertificateId"],
        ["service", "ListServiceSpecificCredentials", "ServiceSpecificCredentials", "ServiceSpecificCredentialId"],
      ] as const;
      for (const [kind, action, element, name] of lists) {
        const ids = await textsOf(action, of, element, name);
        if (!ids.ok) return ids;
        found.push(...ids.value.map((id) => ({ kind, id })));
      }
      return { ok: true, value: found };
    },
    makeRoom: (user, id, as) => change("DeleteAccessKey", { UserName: user, AccessKeyId: id }, as),
    deleteKey: (user, id, as) => change("DeleteAccessKey", { UserName: user, AccessKeyId: id }, as),
    detachPolicy: (user, arn) => change("DetachUserPolicy", { UserName: user, PolicyArn: arn }),
    deletePolicy: (user, name) => change("DeleteUserPolicy", { UserName: user, PolicyName: name }),
    removeFromGroup: (user, group) => change("RemoveUserFromGroup", { UserName: user, GroupName: group }),
    deleteAddition(user, kind, id) {
      const [action, name] = ADDITIONS[kind];
      return change(action, { UserName: user, ...(name !== null && { [name]: id }) });
    },
    deleteUser: (user) => change("DeleteUser", { UserName: user }),
  };
}

const keyView = (member: XmlElement) => ({
  id: textNamed(member, "AccessKeyId") ?? "",
  createdAt: Date.parse(textNamed(member, "CreateDate") ?? "") || 0,
});

/** The action that removes an addition, and the parameter with its id. */
const ADDITIONS: Readonly<Record<Addition["kind"], readonly [action: string, parameter: string | null]>> = {
  login: ["DeleteLoginProfile", null],
  mfa: ["DeactivateMFADevice", "SerialNumber"],
  ssh: ["DeleteSSHPublicKey", "SSHPublicKeyId"],
  certificate: ["DeleteSigningCertificate", "CertificateId"],
  service: ["DeleteServiceSpecificCredential", "ServiceSpecificCredentialId"],
};

function sessionParameters({ seconds, policy, policyArns, tags, externalId, mfa }: SessionRequest): Parameters {
  return {
    DurationSeconds: String(seconds),
    ...(policy && { Policy: policy }),
    ...listed("PolicyArns", policyArns ?? [], "arn"),
    ...named("Tags", tags ?? {}),
    ...(externalId && { ExternalId: externalId }),
    ...(mfa && { SerialNumber: mfa.serial, TokenCode: mfa.code }),
  };
}

const NO_LOGIN = failure("external", "provider_unavailable", "The login with an identity token failed.");

/** The failure of an answer that is not the action's. */
const unreadable = (message: string, outcome: CloudFailure["outcome"] = "external") =>
  failed(outcome, "unreadable_answer", message);

/** A list: `Name.member.1`, or `Name.member.1.field`. */
const listed = (name: string, values: readonly string[], field: string): Parameters =>
  Object.fromEntries(values.map((value, at) => [`${name}.member.${at + 1}.${field}`, value]));

/** A list of tags: `Name.member.1.Key` and `.Value`. */
const named = (name: string, tags: Readonly<Record<string, string>>): Parameters =>
  Object.fromEntries(
    Object.entries(tags).flatMap(([key, value], at) => [
      [`${name}.member.${at + 1}.Key`, key],
      [`${name}.member.${at + 1}.Value`, value],
    ]),
  );
