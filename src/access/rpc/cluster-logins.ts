import type {
  BindingRule,
  BindingRuleBody,
  BindingRuleStub,
  ClusterLogin,
  ClusterLoginsApi,
  OidcRequest,
} from "../../contracts/cluster-acl.ts";
import type { AuthMethod, AuthMethodSettings, AuthMethodStub } from "../../contracts/cluster-auth-method.ts";
import type { AclToken } from "../../contracts/tokens.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import { refuseIfSealed } from "../../platform/crypto/refuse-if-sealed.ts";
import type { BindingRules } from "../cluster-acl/binding-rules.ts";
import type { ClusterAuthMethods } from "../cluster-acl/cluster-auth-methods.ts";
import type { ClusterLoginStates } from "../cluster-acl/cluster-login-states.ts";
import type { ClusterLogins } from "../cluster-acl/cluster-logins.ts";
import type { PublishedChanges } from "../published-changes.ts";

/** RPC methods about auth methods, binding rules and logins of the cluster API. */
export class ClusterLoginMethods implements ClusterLoginsApi {
  readonly #methods: ClusterAuthMethods;
  readonly #rules: BindingRules;
  readonly #logins: ClusterLogins;
  readonly #oidcRequests: ClusterLoginStates;
  readonly #changes: PublishedChanges;

  constructor(
    methods: ClusterAuthMethods,
    rules: BindingRules,
    logins: ClusterLogins,
    oidcRequests: ClusterLoginStates,
    changes: PublishedChanges,
  ) {
    this.#methods = methods;
    this.#rules = rules;
    this.#logins = logins;
    this.#oidcRequests = oidcRequests;
    this.#changes = changes;
  }

  listAuthMethods(): AuthMethodStub[] {
    return this.#methods.list();
  }

  readAuthMethod(name: string): Result<AuthMethod | null> {
    return refuseIfSealed(() => ok(this.#methods.read(name)));
  }

  async putAuthMethod(settings: AuthMethodSettings, replaces: string | null): Promise<Result<AuthMethod>> {
    const put = await this.#changes.publish(() => this.#methods.put(settings, replaces));
    if (!put.ok) return put;
    const written = this.readAuthMethod(settings.Name);
    if (!written.ok) return written;
    return written.value ? ok(written.value) : refuse("missing", "ACL auth-method not found");
  }

  async deleteAuthMethod(name: string): Promise<Result<{ index: number | null }>> {
    const method = this.readAuthMethod(name);
    return method.ok ? this.#methods.delete(name) : method;
  }

  listBindingRules(): BindingRuleStub[] {
    return this.#rules.list();
  }

  readBindingRule(id: string): BindingRule | null {
    return this.#rules.read(id);
  }

  putBindingRule(id: string | null, body: BindingRuleBody): Promise<Result<BindingRule>> {
    return this.#rules.put(id, body);
  }

  deleteBindingRule(id: string): Promise<Result<{ index: number | null }>> {
    return this.#rules.delete(id);
  }

  async clusterLogin(login: ClusterLogin): Promise<Result<AclToken>> {
    const made = await this.#changes.publish(() => this.#logins.login(login));
    return made.ok ? this.#logins.issued(made.value) : made;
  }

  beginOidc(request: OidcRequest): Result<{ state: string; verifier: string }> {
    return refuseIfSealed(() => ok(this.#oidcRequests.begin(request, Date.now())));
  }

  completeOidc(request: OidcRequest, state: string): Result<string> {
    return refuseIfSealed(() => this.#oidcRequests.complete(request, state, Date.now()));
  }
}
