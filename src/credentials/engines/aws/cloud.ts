import type { CloudResult } from "../../../contracts/cloud-calls.ts";

/** The calls of IAM and STS that the engine makes. A call that only reads may be several requests. */
export interface Cloud {
  // ---- sessions: they end by themselves ----
  assumeRole(
    request: SessionRequest & { readonly roleArn: string; readonly sessionName: string },
  ): Promise<CloudResult<Session>>;
  getFederationToken(request: SessionRequest & { readonly name: string }): Promise<CloudResult<Session>>;
  getSessionToken(request: SessionRequest): Promise<CloudResult<Session>>;
  /** The policies of a group: ARNs of managed ones, documents of inline ones. */
  groupPolicies(
    group: string,
  ): Promise<CloudResult<{ readonly arns: readonly string[]; readonly documents: readonly string[] }>>;
  /** The caller by a key, which no policy can deny. */
  identify(accessKey: string, secretKey: string): Promise<CloudResult<null>>;

  // ---- users ----
  createUser(user: NewUser): Promise<CloudResult<null>>;
  attachPolicy(user: string, arn: string): Promise<CloudResult<null>>;
  putPolicy(user: string, name: string, document: string): Promise<CloudResult<null>>;
  addToGroup(user: string, group: string): Promise<CloudResult<null>>;
  createKey(user: string, as?: Assumed): Promise<CloudResult<NewKey>>;
  listKeys(user: string, as?: Assumed): Promise<CloudResult<readonly KeyView[]>>;
  getUser(user: string): Promise<CloudResult<UserView>>;
  /** The user that the engine calls as, with its keys. */
  self(): Promise<CloudResult<UserView & { readonly keys: readonly KeyView[] }>>;
  /** A user that others have made, with its keys. */
  keyHolder(user: string, as?: Assumed): Promise<CloudResult<UserView & { readonly keys: readonly KeyView[] }>>;
  /** Deletes a key of a user that has two, which is the most. */
  makeRoom(user: string, id: string, as?: Assumed): Promise<CloudResult<null>>;
  /** Keys, policies and groups of a user, which must go before it. */
  contents(user: string): Promise<CloudResult<Contents>>;
  /** Additions by others, which keep a user from deletion. */
  additions(user: string): Promise<CloudResult<readonly Addition[]>>;
  deleteKey(user: string, id: string, as?: Assumed): Promise<CloudResult<null>>;
  detachPolicy(user: string, arn: string): Promise<CloudResult<null>>;
  deletePolicy(user: string, name: string): Promise<CloudResult<null>>;
  removeFromGroup(user: string, group: string): Promise<CloudResult<null>>;
  deleteAddition(user: string, kind: Addition["kind"], id: string): Promise<CloudResult<null>>;
  deleteUser(user: string): Promise<CloudResult<null>>;
}

/** A role, mostly of another account, that calls about its users assume. */
export interface Assumed {
  readonly roleArn: string;
  readonly sessionName: string;
  /** Empty without one. */
  readonly externalId: string;
}

export interface SessionRequest {
  readonly seconds: number;
  readonly policy?: string;
  readonly policyArns?: readonly string[];
  readonly tags?: Readonly<Record<string, string>>;
  readonly externalId?: string;
  readonly mfa?: { readonly serial: string; readonly code: string };
}

export interface Session {
  readonly accessKey: string;
  readonly secretKey: string;
  readonly sessionToken: string;
  /** Ms since 1970. */
  readonly endsAt: number;
  /** Of the assumed role; null for other sessions. */
  readonly arn: string | null;
}

export interface NewUser {
  readonly name: string;
  /** Empty: the provider's default. */
  readonly path: string;
  readonly boundary: string;
  readonly tags: Readonly<Record<string, string>>;
}

export interface UserView {
  readonly name: string;
  /** The provider's own id, which a later user of the same name does not have. */
  readonly id: string;
  readonly tags: Readonly<Record<string, string>>;
}

export interface NewKey {
  readonly accessKey: string;
  readonly secretKey: string;
}

export interface KeyView {
  readonly id: string;
  /** Ms since 1970. */
  readonly createdAt: number;
}

export interface Contents {
  readonly keys: readonly string[];
  readonly attached: readonly string[];
  readonly inline: readonly string[];
  readonly groups: readonly string[];
}

/** Something that others have added to a user. */
export interface Addition {
  readonly kind: "login" | "mfa" | "ssh" | "certificate" | "service";
  readonly id: string;
}
