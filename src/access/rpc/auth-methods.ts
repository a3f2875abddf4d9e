import type {
  AuthApi,
  AuthEntryName,
  AuthMount,
  AuthMountBody,
  AuthPlace,
  AuthTuneBody,
  Login,
} from "../../contracts/auth.ts";
import type { Authed } from "../../contracts/tokens.ts";
import { ok, type Result } from "../../lib/result.ts";
import { refuseIfSealed } from "../../platform/crypto/refuse-if-sealed.ts";
import type { AuthMethodEntries } from "../auth-methods/auth-method-entries.ts";
import type { AuthMethods } from "../auth-methods/auth-methods.ts";
import type { Logins } from "../auth-methods/logins.ts";
import type { PublishedChanges } from "../published-changes.ts";
import type { RateLimitQuotas } from "../system/rate-limit-quotas.ts";

/** RPC methods about auth methods of the secrets API, and their logins. */
export class AuthMethodMethods implements AuthApi {
  readonly #methods: AuthMethods;
  readonly #entries: AuthMethodEntries;
  readonly #logins: Logins;
  readonly #rateLimits: RateLimitQuotas;
  readonly #changes: PublishedChanges;

  constructor(
    methods: AuthMethods,
    entries: AuthMethodEntries,
    logins: Logins,
    rateLimits: RateLimitQuotas,
    changes: PublishedChanges,
  ) {
    this.#methods = methods;
    this.#entries = entries;
    this.#logins = logins;
    this.#rateLimits = rateLimits;
    this.#changes = changes;
  }

  listAuthMounts(namespace: string): AuthMount[] {
    return this.#methods.list(namespace);
  }

  readAuthMount(namespace: string, path: string): Result<AuthMount> {
    return this.#methods.read(namespace, path);
  }

  enableAuthMount(namespace: string, path: string, body: AuthMountBody): Result<AuthMount> {
    return this.#methods.enable(namespace, path, body);
  }

  tuneAuthMount(namespace: string, path: string, body: AuthTuneBody): Result<AuthMount> {
    return this.#methods.tune(namespace, path, body);
  }

  disableAuthMount(namespace: string, path: string): Promise<Result<null>> {
    return this.#changes.publish(() => {
      this.#methods.disable(namespace, path);
      return ok(null);
    });
  }

  locateAuth(namespace: string, path: string): AuthPlace | null {
    const place = this.#methods.locate(namespace, path);
    return place && { ...place, counted: this.#rateLimits.exist };
  }

  authEntry(entry: AuthEntryName): Result<string | null> {
    return refuseIfSealed(() => this.#entries.entry(entry));
  }

  putAuthEntry(entry: AuthEntryName, value: string, before?: string | null): Result<null> {
    return refuseIfSealed(() => this.#entries.putEntry(entry, value, before));
  }

  deleteAuthEntry(entry: AuthEntryName): Result<null> {
    return this.#entries.deleteEntry(entry);
  }

  authEntryNames(mount: string, kind: string): string[] {
    return this.#entries.entryNames(mount, kind);
  }

  authAttempt(entry: AuthEntryName, alias: string): Result<string | null> {
    return refuseIfSealed(() => this.#entries.attempt(entry, alias));
  }

  authFailed(mount: string, alias: string, exists: boolean): boolean {
    return this.#entries.failed(mount, alias, exists);
  }

  login(login: Login): Promise<Result<Authed>> {
    return this.#changes.publish(() => this.#logins.login(login));
  }
}
