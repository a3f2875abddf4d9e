import type {
  Approle,
  ApproleApi,
  ApproleLogin,
  ApproleName,
  IssuedSecretId,
  LockedNames,
  SecretIdName,
  SecretIdRecord,
  SecretIdRequest,
} from "../../contracts/approle.ts";
import type { Authed } from "../../contracts/tokens.ts";
import type { Result } from "../../lib/result.ts";
import { refuseIfSealed } from "../../platform/crypto/refuse-if-sealed.ts";
import type { ApproleLogins } from "../auth-methods/approle-logins.ts";
import type { Approles } from "../auth-methods/approles.ts";
import type { AuthMethodEntries } from "../auth-methods/auth-method-entries.ts";
import type { PublishedChanges } from "../published-changes.ts";

/** RPC methods about roles and secret ids of the auth method `approle`, and about names locked after failed logins. */
export class ApproleMethods implements ApproleApi {
  readonly #approles: Approles;
  readonly #logins: ApproleLogins;
  readonly #entries: AuthMethodEntries;
  readonly #changes: PublishedChanges;

  constructor(approles: Approles, logins: ApproleLogins, entries: AuthMethodEntries, changes: PublishedChanges) {
    this.#approles = approles;
    this.#logins = logins;
    this.#entries = entries;
    this.#changes = changes;
  }

  readApprole(name: ApproleName): Result<string | null> {
    return refuseIfSealed(() => this.#approles.read(name));
  }

  putApprole(name: ApproleName, role: Approle, before: string | null): Result<null> {
    return refuseIfSealed(() => this.#approles.put(name, role, before));
  }

  deleteApprole(name: ApproleName): Result<null> {
    return this.#approles.delete(name);
  }

  issueSecretId(name: ApproleName, request: SecretIdRequest): Result<IssuedSecretId> {
    return refuseIfSealed(() => this.#approles.issue(name, request, Date.now()));
  }

  secretIdAccessors(name: ApproleName): Result<string[]> {
    return refuseIfSealed(() => this.#approles.accessors(name, Date.now()));
  }

  lookupSecretId(name: ApproleName, secretId: SecretIdName): Result<SecretIdRecord | null> {
    return refuseIfSealed(() => this.#approles.lookup(name, secretId, Date.now()));
  }

  destroySecretId(name: ApproleName, secretId: SecretIdName): Result<boolean> {
    return refuseIfSealed(() => this.#approles.destroy(name, secretId, Date.now()));
  }

  tidySecretIds(mount: string): void {
    this.#approles.tidy(mount, Date.now());
  }

  approleLogin(login: ApproleLogin): Promise<Result<Authed>> {
    return this.#changes.publish(() => this.#logins.login(login, Date.now()));
  }

  lockedNames(namespace: string): LockedNames[] {
    return this.#entries.locked(namespace, Date.now());
  }

  unlockName(namespace: string, accessor: string, name: string): Result<null> {
    return this.#entries.unlock(namespace, accessor, name);
  }
}
