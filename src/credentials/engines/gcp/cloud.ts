import type { CloudResult } from "../../../contracts/cloud-calls.ts";
import type { Federation } from "../../../contracts/federation.ts";
import type { ServiceAccountKey } from "../../../providers/cloud-c-gcp/key.ts";

/** The identity that the engine uses at Google: a service account with its key, or with identity tokens. */
export interface CloudAccount {
  readonly email: string;
  readonly credentials?: ServiceAccountKey;
  readonly federation?: Federation;
}

export interface ServiceAccount {
  readonly email: string;
  readonly project: string;
}

/** A service account to create; its e-mail address follows from its id. */
export interface NewAccount {
  readonly project: string;
  readonly accountId: string;
  readonly displayName: string;
  readonly description: string;
}

/** A key of a service account. Times in ms since 1970 by Google's clock. */
export interface AccountKey {
  readonly id: string;
  readonly validAfter: number;
}

export interface NewKey extends AccountKey {
  readonly validBefore: number;
  /** The key file, base64. */
  readonly privateKeyData: string;
}

export interface KeyOptions {
  readonly algorithm: string;
  readonly type: string;
}

export interface AccessToken {
  readonly token: string;
  /** ms since 1970. */
  readonly expiresAt: number;
}

/** The calls of the engine at Google: IAM, service account credentials, and policies of resources. */
export interface Cloud {
  getServiceAccount(email: string): Promise<CloudResult<ServiceAccount>>;
  createServiceAccount(account: NewAccount): Promise<CloudResult<ServiceAccount>>;
  deleteServiceAccount(email: string): Promise<CloudResult<null>>;
  createKey(email: string, options: KeyOptions): Promise<CloudResult<NewKey>>;
  getKey(email: string, id: string): Promise<CloudResult<null>>;
  /** The keys that users manage. `at`: time of the answer by Google's clock. */
  listKeys(email: string): Promise<CloudResult<{ readonly at: number; readonly keys: readonly AccountKey[] }>>;
  deleteKey(email: string, id: string): Promise<CloudResult<null>>;
  disableKey(email: string, id: string): Promise<CloudResult<null>>;
  /**
   * Adds members to and removes members from the unconditional bindings of a resource, by etag. A repeat changes
   * nothing. @param add each a role, a space, and a member
   */
  changePolicy(resource: string, add: readonly string[], remove: readonly string[]): Promise<CloudResult<null>>;
  generateAccessToken(email: string, scopes: readonly string[], seconds: number): Promise<CloudResult<AccessToken>>;
  /** Obtains an access token with a key file. */
  login(privateKeyData: string): Promise<CloudResult<null>>;
}
