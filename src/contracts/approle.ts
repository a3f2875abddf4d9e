import type { Result } from "../lib/result.ts";
import type * as schemas from "../wire/auth.ts";
import type { Wire } from "../wire/infer.ts";
import type { TokenSettings } from "./auth.ts";
import type { Authed } from "./tokens.ts";

/** The kind of the entries that hold roles. */
export const APPROLE = "approle";

/** A role of the auth method `approle`. Durations in seconds. */
export interface Approle extends TokenSettings {
  /** Unique in the auth mount. */
  readonly role_id: string;
  readonly bind_secret_id: boolean;
  /** Stored and shown; this service has one cluster. */
  readonly local_secret_ids: boolean;
  readonly secret_id_bound_cidrs: readonly string[];
  /** Logins with one secret id; 0 = any number. */
  readonly secret_id_num_uses: number;
  /** Lifetime of secret ids; 0 = without an end. */
  readonly secret_id_ttl: number;
}

/** A role by its auth mount and its name in lower case. */
export interface ApproleName {
  /** The uuid of the auth mount. */
  readonly mount: string;
  readonly role: string;
}

/** A request for a secret id. Fields that are absent take the role's values. */
export interface SecretIdRequest {
  /** A secret id of the caller's choice; null = a random one. */
  readonly secretId: string | null;
  readonly metadata: Readonly<Record<string, string>>;
  readonly cidrList: readonly string[];
  readonly tokenBoundCidrs: readonly string[];
  readonly numUses?: number | undefined;
  /** Seconds. */
  readonly ttl?: number | undefined;
}

export type IssuedSecretId = Wire<typeof schemas.IssuedSecretId>;
export type SecretIdRecord = Wire<typeof schemas.SecretIdRecord>;

/** A secret id, by its text or by its accessor. */
export type SecretIdName = { readonly secretId: string } | { readonly accessor: string };

/** A login as it was sent. */
export interface ApproleLogin {
  /** The uuid of the auth mount. */
  readonly mount: string;
  readonly roleId: string;
  readonly secretId: string;
  /** The client's address; null when the platform does not provide it. */
  readonly address: string | null;
}

/** Names of a mount that are locked after repeated failures. */
export interface LockedNames {
  readonly namespace: string;
  readonly namespaceId: string;
  /** The accessor of the auth mount. */
  readonly accessor: string;
  readonly names: readonly string[];
}

/** The methods of `AccessControl` about the auth method `approle`, and about locked logins. */
export interface ApproleApi {
  /** The JSON text of a role; null when there is none. */
  readApprole(name: ApproleName): Result<string | null>;
  /**
   * Writes a role.
   * @param before the text that was read; null for a new role
   * @returns a refusal with the reason `conflict` when the role has changed since
   */
  putApprole(name: ApproleName, role: Approle, before: string | null): Result<null>;
  /** Deletes a role with its secret ids. Idempotent. */
  deleteApprole(name: ApproleName): Result<null>;
  issueSecretId(name: ApproleName, request: SecretIdRequest): Result<IssuedSecretId>;
  /** Accessors of the secret ids of a role. */
  secretIdAccessors(name: ApproleName): Result<string[]>;
  /** Null when the role has no such secret id. */
  lookupSecretId(name: ApproleName, secretId: SecretIdName): Result<SecretIdRecord | null>;
  /** @returns whether there was such a secret id */
  destroySecretId(name: ApproleName, secretId: SecretIdName): Result<boolean>;
  /** Deletes the expired secret ids of a mount. */
  tidySecretIds(mount: string): void;
  /** Verifies a login and issues its token. The use of the secret id and the token are one transaction. */
  approleLogin(login: ApproleLogin): Promise<Result<Authed>>;
  /** Locked names of a namespace and its descendants. */
  lockedNames(namespace: string): LockedNames[];
  /** Unlocks a name. Refused when the namespace has no such auth mount. Idempotent. */
  unlockName(namespace: string, accessor: string, name: string): Result<null>;
}
