import { AccessParts } from "../access/access-parts.ts";
import type { ClusterNamespaces } from "../access/cluster-namespaces.ts";
import { DeletedMountSweep } from "../access/deleted-mount-sweep.ts";
import { INVENTORY } from "../access/inventory.ts";
import type { MountRequest, TuneRequest } from "../access/mounts.ts";
import { accessOutboxTopics } from "../access/outbox-topics.ts";
import type { PolicyAdmin } from "../access/policy-admin.ts";
import { resultantAcl, visibleNamespaces } from "../access/resultant-acl.ts";
import { accessMigrations } from "../access/schema.ts";
import type { SecretsTokens } from "../access/secrets-tokens.ts";
import { StorageRegistry } from "../access/storage-registry.ts";
import { streamAnswers } from "../access/stream-rights.ts";
import type { ClusterTokenRequest } from "../access/token.ts";
import { Restores, refusedByRestore } from "../backup/restores.ts";
import type {
  AccessControlApi,
  AuthorizeRequest,
  ClusterNamespace,
  CorsSettings,
  Grant,
  KeyHolder,
  Located,
  Namespace,
  Remount,
  ResultantAcl,
  ServiceStatus,
} from "../contracts/access-control.ts";
import type {
  Approle,
  ApproleLogin,
  ApproleName,
  IssuedSecretId,
  LockedNames,
  SecretIdName,
  SecretIdRecord,
  SecretIdRequest,
} from "../contracts/approle.ts";
import type { AuthEntryName, AuthMount, AuthMountBody, AuthPlace, AuthTuneBody, Login } from "../contracts/auth.ts";
import type {
  AclRole,
  AclRoleBody,
  BindingRule,
  BindingRuleBody,
  BindingRuleStub,
  ClusterLogin,
  OidcRequest,
  OneTimeToken,
} from "../contracts/cluster-acl.ts";
import type { AuthMethod, AuthMethodSettings, AuthMethodStub } from "../contracts/cluster-auth-method.ts";
import type { CubbyholeOwner, CubbyholeRights } from "../contracts/cubbyhole.ts";
import { destinationKeyOf } from "../contracts/destination.ts";
import type {
  AliasChange,
  AliasRecord,
  EntityChange,
  EntityMerge,
  EntityRecord,
  GroupChange,
  GroupRecord,
  IdentityKey,
  IdentityKind,
  IdentityQuery,
  IdentityWritten,
} from "../contracts/identity.ts";
import type { ListedMount, Mount, MountType } from "../contracts/mount.ts";
import type { AclPolicy, GoverningRule, PolicyWritten } from "../contracts/policies.ts";
import type { CountedRequest, QuotaBody, QuotasConfig, RateLimitQuota } from "../contracts/quotas.ts";
import type { StreamAnswer, StreamQuestion } from "../contracts/stream-rights.ts";
import type {
  AclToken,
  AclTokenPage,
  Authed,
  RightsCheck,
  TokenName,
  TokenRole,
  TokenRoleBody,
} from "../contracts/tokens.ts";
import type { Unwrapped, WrapInfo, WrapLookup, WrapRequest } from "../contracts/wrapping.ts";
import type { RateLimit } from "../lib/rate-limit.ts";
import { ok, type Refusal, type Result, refuse } from "../lib/result.ts";
import { recordBirth } from "../listings/births.ts";
import { dataKeyMigrations } from "../platform/crypto/data-keys.ts";
import { refuseIfSealed } from "../platform/crypto/refuse-if-sealed.ts";
import { knownPage } from "../platform/durable/object-inventory.ts";
import { bornWith, type KnownPage, type ObjectName, textOfObject } from "../platform/durable/object-kinds.ts";
import { StoredObject } from "../platform/durable/stored-object.ts";
import { type Series, series } from "../platform/observability/metrics/series.ts";
import { settings } from "../platform/settings.ts";

const EXPIRED_PER_ALARM = 500;

/**
 * Owns authentication and authorization: tokens, policies, namespaces and the mount table. One instance per deployment;
 * every request reads it once, cached in the Worker where allowed. Components in `src/access` decide; this class
 * converts sealed keys into refusals and waits for the event stream.
 */
export class AccessControl extends StoredObject implements AccessControlApi {
  readonly #parts: AccessParts;
  readonly #restores: Restores;
  readonly #storage: StorageRegistry;
  readonly #sweep: DeletedMountSweep;

  protected override get kind() {
    return "access-control" as const;
  }

  constructor(ctx: DurableObjectState, env: Env) {
    super(
      ctx,
      env,
      { data_keys: dataKeyMigrations, access: accessMigrations },
      { event: (_lane, rows) => this.#parts.publisher.deliver(rows), ...accessOutboxTopics(env) },
    );
    this.#parts = new AccessParts({ env, sql: this.sql, outbox: this.outbox, commit: (change) => this.commit(change) });
    this.#restores = new Restores({
      env,
      storage: ctx.storage,
      hold: (restore) => this.holdForRestore(restore, bornWith("access-control")),
      swap: (restore) => this.swap(restore),
      release: (restore) => this.release(restore),
      restart: () => this.restart(),
    });
    this.#storage = new StorageRegistry(this.sql);
    this.#sweep = new DeletedMountSweep(env, this.#parts.deletedMounts, this.#storage, this.outbox, (change) =>
      this.commit(change),
    );
    this.whenResumed(() => this.#setUp());
  }

  // ---- every request ----

  /** Resolves a path of an unauthenticated request. */
  locate(namespace: string, path: string): Result<{ namespace: string; path: string }> {
    return this.#parts.authorizer.locate(namespace, path);
  }

  authorize(ask: AuthorizeRequest): Grant | Refusal {
    if (this.isBeingRestored && ask.path !== "sys/snapshot") return refusedByRestore();
    return refuseIfSealed(() => {
      // While sealed, no token can be verified, which must not look like an invalid token.
      this.#parts.tokenHashKey();
      const answer = this.#parts.authorizer.authorize(ask);
      return answer.ok && ask.path !== null && this.#parts.rateLimits.exist ? this.#counted(answer, ask) : answer;
    });
  }

  /** Counts a request with a token. It cannot be answered from a cache, so that every one is counted. */
  #counted(grant: Grant, { address = null }: AuthorizeRequest): Grant | Refusal {
    const taken = this.#parts.rateLimits.take({ ...grant, address }, Date.now());
    if (!taken.ok) return taken;
    return taken.value === null ? grant : { ...grant, rate: taken.value, cacheable: false };
  }

  // ---- quotas ----

  rateLimitQuotas(): RateLimitQuota[] {
    return this.#parts.rateLimits.list();
  }

  rateLimitQuota(name: string): Result<RateLimitQuota> {
    return this.#parts.rateLimits.read(name);
  }

  putRateLimitQuota(name: string, body: QuotaBody): Result<null> {
    return this.#parts.rateLimits.put(name, body);
  }

  deleteRateLimitQuota(name: string): void {
    this.#parts.rateLimits.delete(name);
  }

  quotasConfig(): QuotasConfig {
    return this.#parts.rateLimits.config();
  }

  setQuotasConfig(changes: Partial<QuotasConfig>): void {
    this.#parts.rateLimits.setConfig(changes);
  }

  countRequest(request: CountedRequest): Result<RateLimit | null> {
    return this.#parts.rateLimits.take(request, Date.now());
  }

  status(): ServiceStatus {
    return {
      lost: this.#storage.lost(),
      sealedBecause: this.#parts.keys.sealedBecause(),
      clusterId: this.#parts.deploymentState.get("cluster_id") ?? "",
      bootstrapped: this.#parts.bootstrap.done,
    };
  }

  /** Stream permissions for any number of questions, answered in order. */
  mayStream(questions: readonly StreamQuestion[]): StreamAnswer[] {
    return streamAnswers(questions, this.#parts, Date.now());
  }

  // ---- mounts ----

  listMounts(namespace: string): ListedMount[] {
    return this.#parts.mounts.list(namespace);
  }

  visibleMounts(accessor: string | null, namespace: string): ListedMount[] {
    return this.#parts.mounts.visible(accessor === null ? null : this.#parts.viewer(accessor), namespace);
  }

  visibleMount(accessor: string, namespace: string, path: string): ListedMount | null {
    const viewer = this.#parts.viewer(accessor);
    return viewer && this.#parts.mounts.visibleAt(viewer, namespace, path);
  }

  readMount(namespace: string, path: string): Result<ListedMount> {
    return this.#parts.mounts.readListed(namespace, path);
  }

  findMount(namespace: string, path: string): Mount | null {
    return this.#parts.mountTable.resolve(namespace, path);
  }

  everyMount(limit: number): Record<MountType, { total: number; some: { name: string; uuid: string }[] }> {
    return this.#parts.mounts.every(limit);
  }

  async enableMount(namespace: string, path: string, request: MountRequest): Promise<Result<Mount>> {
    await this.#vacated(namespace, path);
    return this.#parts.mounts.enable(namespace, path, request);
  }

  async tuneMount(namespace: string, path: string, request: TuneRequest): Promise<Result<Mount>> {
    const tuned = this.#parts.mounts.tune(namespace, path, request);
    await this.outbox.drain("upgrade");
    return tuned;
  }

  async remount(from: Located, to: Located): Promise<Result<string>> {
    await this.#vacated(to.namespace, to.path);
    const moved = this.#parts.remounts.move(from, to);
    if (moved.ok) await this.outbox.drain("moved");
    return moved;
  }

  remountStatus(namespace: string, id: string): Remount | null {
    return this.#parts.remounts.status(namespace, id);
  }

  mountsOfLease(namespace: string, id: string): { mount: Mount; id: string }[] {
    return this.#parts.remounts.ofLease(namespace, id);
  }

  async disableMount(namespace: string, path: string): Promise<Result<null>> {
    const disabled = this.#parts.mounts.disable(namespace, path);
    if (!disabled.ok) return disabled;
    if (disabled.value) await this.outbox.drain("unmount");
    return ok(null);
  }

  // ---- auth methods ----

  listAuthMounts(namespace: string): AuthMount[] {
    return this.#parts.authMethods.list(namespace);
  }

  readAuthMount(namespace: string, path: string): Result<AuthMount> {
    return this.#parts.authMethods.read(namespace, path);
  }

  enableAuthMount(namespace: string, path: string, body: AuthMountBody): Result<AuthMount> {
    return this.#parts.authMethods.enable(namespace, path, body);
  }

  tuneAuthMount(namespace: string, path: string, body: AuthTuneBody): Result<AuthMount> {
    return this.#parts.authMethods.tune(namespace, path, body);
  }

  async disableAuthMount(namespace: string, path: string): Promise<Result<null>> {
    this.#parts.authMethods.disable(namespace, path);
    return ok(null);
  }

  locateAuth(namespace: string, path: string): AuthPlace | null {
    const place = this.#parts.authMethods.locate(namespace, path);
    return place && { ...place, counted: this.#parts.rateLimits.exist };
  }

  authEntry(entry: AuthEntryName): Result<string | null> {
    return refuseIfSealed(() => this.#parts.authMethods.entry(entry));
  }

  putAuthEntry(entry: AuthEntryName, value: string, before?: string | null): Result<null> {
    return refuseIfSealed(() => this.#parts.authMethods.putEntry(entry, value, before));
  }

  deleteAuthEntry(entry: AuthEntryName): Result<null> {
    return this.#parts.authMethods.deleteEntry(entry);
  }

  authEntryNames(mount: string, kind: string): string[] {
    return this.#parts.authMethods.entryNames(mount, kind);
  }

  authAttempt(entry: AuthEntryName, alias: string): Result<string | null> {
    return refuseIfSealed(() => this.#parts.authMethods.attempt(entry, alias));
  }

  authFailed(mount: string, alias: string, exists: boolean): boolean {
    return this.#parts.authMethods.failed(mount, alias, exists);
  }

  login(login: Login): Promise<Result<Authed>> {
    return this.#published(() => this.#parts.logins.login(login));
  }

  lockedNames(namespace: string): LockedNames[] {
    return this.#parts.authMethods.locked(namespace, Date.now());
  }

  unlockName(namespace: string, accessor: string, name: string): Result<null> {
    return this.#parts.authMethods.unlock(namespace, accessor, name);
  }

  // ---- roles and secret ids ----

  readApprole(name: ApproleName): Result<string | null> {
    return refuseIfSealed(() => this.#parts.approles.read(name));
  }

  putApprole(name: ApproleName, role: Approle, before: string | null): Result<null> {
    return refuseIfSealed(() => this.#parts.approles.put(name, role, before));
  }

  deleteApprole(name: ApproleName): Result<null> {
    return this.#parts.approles.delete(name);
  }

  issueSecretId(name: ApproleName, request: SecretIdRequest): Result<IssuedSecretId> {
    return refuseIfSealed(() => this.#parts.approles.issue(name, request, Date.now()));
  }

  secretIdAccessors(name: ApproleName): Result<string[]> {
    return refuseIfSealed(() => this.#parts.approles.accessors(name, Date.now()));
  }

  lookupSecretId(name: ApproleName, secretId: SecretIdName): Result<SecretIdRecord | null> {
    return refuseIfSealed(() => this.#parts.approles.lookup(name, secretId, Date.now()));
  }

  destroySecretId(name: ApproleName, secretId: SecretIdName): Result<boolean> {
    return refuseIfSealed(() => this.#parts.approles.destroy(name, secretId, Date.now()));
  }

  tidySecretIds(mount: string): void {
    this.#parts.approles.tidy(mount, Date.now());
  }

  approleLogin(login: ApproleLogin): Promise<Result<Authed>> {
    return this.#published(() => this.#parts.approleLogins.login(login, Date.now()));
  }

  // ---- identity ----

  writeEntity(namespace: string, key: IdentityKey | null, change: EntityChange): Result<IdentityWritten> {
    return this.#parts.identities.writeEntity(namespace, key, change);
  }

  writeGroup(namespace: string, key: IdentityKey | null, change: GroupChange): Result<IdentityWritten> {
    return this.#parts.identities.writeGroup(namespace, key, change);
  }

  readEntity(namespace: string, query: IdentityQuery): EntityRecord | null {
    return this.#parts.identities.readEntity(namespace, query);
  }

  readGroup(namespace: string, query: IdentityQuery): GroupRecord | null {
    return this.#parts.identities.readGroup(namespace, query);
  }

  listIdentities(namespace: string, kind: IdentityKind): { id: string; name: string }[] {
    return this.#parts.identities.list(namespace, kind);
  }

  deleteIdentity(namespace: string, kind: IdentityKind, key: IdentityKey): Result<null> {
    this.#parts.identities.delete(namespace, kind, key);
    return ok(null);
  }

  deleteEntities(namespace: string, ids: readonly string[]): Result<null> {
    this.#parts.identities.deleteEntities(namespace, ids);
    return ok(null);
  }

  mergeEntities(namespace: string, merge: EntityMerge): Result<null> {
    return this.#parts.entityMerges.merge(namespace, merge);
  }

  writeIdentityAlias(namespace: string, kind: IdentityKind, change: AliasChange): Result<AliasRecord> {
    return this.#parts.identities.writeAlias(namespace, kind, change);
  }

  readIdentityAlias(namespace: string, kind: IdentityKind, id: string): AliasRecord | null {
    return this.#parts.identityAliases.read(namespace, kind, id);
  }

  listIdentityAliases(namespace: string, kind: IdentityKind): AliasRecord[] {
    return this.#parts.identityAliases.list(namespace, kind);
  }

  deleteIdentityAlias(namespace: string, kind: IdentityKind, id: string): Result<null> {
    this.#parts.identityAliases.delete(namespace, kind, id);
    return ok(null);
  }

  // ---- namespaces ----

  listNamespaces(parent: string): Namespace[] {
    return this.#parts.namespaceTree.children(parent);
  }

  readNamespace(path: string): Result<Namespace> {
    const namespace = this.#parts.namespaceTree.get(path);
    return namespace ? ok(namespace) : refuse("missing");
  }

  putNamespace(parent: string, name: string, customMetadata: Record<string, string>): Promise<Result<Namespace>> {
    return this.#parts.namespaces.put(parent, name, customMetadata);
  }

  patchNamespace(path: string, changes: Record<string, string | null>): Result<Namespace> {
    return this.#parts.namespaces.patch(path, changes);
  }

  deleteNamespace(path: string): Promise<Result<null>> {
    return this.#parts.namespaces.delete(path);
  }

  // ---- flat namespaces of the cluster routes ----

  listClusterNamespaces(prefix: string): ClusterNamespace[] {
    return this.#parts.clusterNamespaces.list(prefix);
  }

  readClusterNamespace(name: string): Result<ClusterNamespace> {
    return this.#parts.clusterNamespaces.read(name);
  }

  putClusterNamespace(...given: Parameters<ClusterNamespaces["put"]>): Promise<Result<ClusterNamespace>> {
    return this.#parts.clusterNamespaces.put(...given);
  }

  clusterNamespaceId(name: string): Result<string> {
    return this.#parts.clusterNamespaces.identity(name);
  }

  deleteClusterNamespace(name: string): Promise<Result<null>> {
    return this.#parts.clusterNamespaces.delete(name);
  }

  // ---- policies ----

  putPolicy(...given: Parameters<PolicyAdmin["put"]>): Promise<Result<PolicyWritten>> {
    return this.#parts.policies.put(...given);
  }

  readPolicy(namespace: string, name: string): Result<{ name: string; text: string }> {
    return this.#parts.policies.read(namespace, name);
  }

  policyNames(namespace: string): string[] {
    return this.#parts.policyStore.names(namespace);
  }

  clusterPolicies(names: readonly string[] | null, prefix: string): AclPolicy[] {
    return this.#parts.policies.cluster(names, prefix);
  }

  volumeRules(): GoverningRule[] {
    return this.#parts.policyStore.volumeRules();
  }

  deletePolicy(namespace: string, name: string): Promise<Result<PolicyWritten & { existed: boolean }>> {
    return this.#parts.policies.delete(namespace, name);
  }

  // ---- tokens ----

  createToken(...given: Parameters<SecretsTokens["create"]>): Promise<Result<Authed>> {
    return this.#published(() => this.#parts.tokens.create(...given));
  }

  resultantAcl(accessor: string): ResultantAcl | null {
    const viewer = this.#parts.viewer(accessor);
    return viewer && resultantAcl(viewer.grants);
  }

  visibleNamespaces(accessor: string, parent: string): string[] {
    const viewer = this.#parts.viewer(accessor);
    return viewer ? visibleNamespaces(viewer, this.#parts.namespaceTree.children(parent)) : [];
  }

  cors(): CorsSettings | null {
    return this.#parts.serviceSettings.cors();
  }

  setCors(settings: CorsSettings | null): void {
    this.commit(() => this.#parts.serviceSettings.setCors(settings));
  }

  countTokens(): number {
    return this.#parts.tokenStore.count();
  }

  countEntities(): number {
    return this.#parts.entities.count();
  }

  tokenRoleNames(namespace: string): string[] {
    return this.#parts.tokenRoles.names(namespace);
  }

  readTokenRole(namespace: string, name: string): TokenRole | null {
    return this.#parts.tokenRoles.get(namespace, name);
  }

  putTokenRole(namespace: string, name: string, body: TokenRoleBody): Result<string[]> {
    return this.#parts.tokenRoles.put(namespace, name, body);
  }

  deleteTokenRole(namespace: string, name: string): void {
    this.#parts.tokenRoles.delete(namespace, name);
  }

  lookupToken(name: TokenName): Result<Record<string, unknown>> {
    return refuseIfSealed(() => this.#parts.tokens.lookup(name));
  }

  renewToken(name: TokenName, increment: number): Promise<Result<Authed>> {
    return this.#published(() => this.#parts.tokens.renew(name, increment));
  }

  revokeToken(name: TokenName, keepChildren = false): Promise<Result<null>> {
    return this.#published(() => this.#parts.tokens.revoke(name, keepChildren));
  }

  accessors(within: string, from: string, limit: number): { keys: string[]; next: string | null } {
    return this.#parts.tokens.accessors(within, from, limit);
  }

  capabilities(...given: Parameters<SecretsTokens["capabilities"]>): ReturnType<SecretsTokens["capabilities"]> {
    return refuseIfSealed(() => this.#parts.tokens.capabilities(...given));
  }

  mayAlso(check: RightsCheck): Result<null> {
    return this.#parts.tokens.mayAlso(check);
  }

  holdsLeases(accessor: string, mount: string): Result<null> {
    return this.#parts.leaseHolders.hold(this.#parts.tokenStore, accessor, mount, Date.now());
  }

  // ---- private storage of tokens ----

  /** A wrapping token reads its answer at `response`, once. */
  readCubbyhole(owner: CubbyholeOwner, path: string): Result<string> {
    const { cubbyholes, wrappings } = this.#parts;
    return refuseIfSealed(() => {
      const unwrapped = path === "response" ? wrappings.unwrapByAccessor(owner.accessor, Date.now()) : null;
      return unwrapped ? ok(JSON.stringify({ response: unwrapped.body })) : cubbyholes.read(owner, path);
    });
  }

  writeCubbyhole(owner: CubbyholeOwner, path: string, text: string, rights: CubbyholeRights): Result<null> {
    const { cubbyholes, tokenStore } = this.#parts;
    return refuseIfSealed(() => cubbyholes.write(tokenStore, owner, path, text, rights, Date.now()));
  }

  deleteCubbyhole(owner: CubbyholeOwner, path: string): void {
    this.#parts.cubbyholes.delete(owner, path);
  }

  listCubbyhole(owner: CubbyholeOwner, folder: string): string[] {
    return this.#parts.cubbyholes.list(owner, folder);
  }

  // ---- wrapped answers ----

  wrap(request: WrapRequest): Result<WrapInfo> {
    return refuseIfSealed(() => this.#parts.wrappings.wrap(request, Date.now()));
  }

  lookupWrapping(token: string): Result<WrapLookup> {
    return refuseIfSealed(() => this.#parts.wrappings.lookup(token, Date.now()));
  }

  unwrap(token: string): Result<Unwrapped> {
    return refuseIfSealed(() => this.#parts.wrappings.unwrap(token, Date.now()));
  }

  rewrap(token: string): Result<WrapInfo> {
    return refuseIfSealed(() => this.#parts.wrappings.rewrap(token, Date.now()));
  }

  // ---- tokens, as cluster routes show them ----

  bootstrap(secret: string | null): Result<AclToken> {
    const wanted = settings(this.env).BOOTSTRAP_SECRET;
    return refuseIfSealed(() => this.commit(() => this.#parts.bootstrap.claim(secret, wanted)));
  }

  async createClusterToken(request: ClusterTokenRequest): Promise<Result<AclToken>> {
    return this.#issued(() => this.#parts.clusterTokens.create(request));
  }

  /** Resolves with a new token and its secret. */
  async #issued(create: () => Result<{ accessor: string; secret: string }>): Promise<Result<AclToken>> {
    const made = await this.#published(create);
    if (!made.ok) return made;
    const token = this.#parts.clusterTokens.read(made.value.accessor);
    return token.ok ? ok({ ...token.value, SecretID: made.value.secret }) : token;
  }

  async updateClusterToken(accessor: string, request: ClusterTokenRequest, reveal = false): Promise<Result<AclToken>> {
    const updated = await this.#parts.clusterTokens.update(accessor, request);
    return updated.ok && reveal ? this.readClusterToken(accessor, true) : updated;
  }

  readClusterToken(accessor: string, reveal = false): Result<AclToken> {
    return refuseIfSealed(() => this.#parts.clusterTokens.read(accessor, reveal));
  }

  listClusterTokens(prefix: string, from: string, limit: number, onlyGlobal: boolean): AclTokenPage {
    return this.#parts.clusterTokens.list(prefix, from, limit, onlyGlobal);
  }

  async deleteClusterToken(accessor: string): Promise<Result<null>> {
    const revoked = await this.revokeToken({ accessor, within: "" });
    return revoked.ok ? revoked : refuse("invalid", `Cannot delete nonexistent tokens: ${accessor}`);
  }

  // ---- roles and logins of the cluster routes ----

  listClusterRoles(prefix: string): AclRole[] {
    return this.#parts.clusterRoles.list(prefix);
  }

  readClusterRole(key: { readonly id: string } | { readonly name: string }): AclRole | null {
    return this.#parts.clusterRoles.read(key);
  }

  putClusterRole(id: string | null, body: AclRoleBody): Promise<Result<AclRole>> {
    return this.#parts.clusterRoles.put(id, body);
  }

  deleteClusterRole(id: string): Promise<Result<{ index: number | null }>> {
    return this.#parts.clusterRoles.delete(id);
  }

  listAuthMethods(): AuthMethodStub[] {
    return this.#parts.clusterAuthMethods.list();
  }

  readAuthMethod(name: string): Result<AuthMethod | null> {
    return refuseIfSealed(() => ok(this.#parts.clusterAuthMethods.read(name)));
  }

  async putAuthMethod(settings: AuthMethodSettings, replaces: string | null): Promise<Result<AuthMethod>> {
    const { clusterAuthMethods } = this.#parts;
    const put = await this.#published(() => clusterAuthMethods.put(settings, replaces));
    if (!put.ok) return put;
    const written = this.readAuthMethod(settings.Name);
    if (!written.ok) return written;
    return written.value ? ok(written.value) : refuse("missing", "ACL auth-method not found");
  }

  async deleteAuthMethod(name: string): Promise<Result<{ index: number | null }>> {
    const method = this.readAuthMethod(name);
    if (!method.ok) return method;
    return this.#parts.clusterAuthMethods.delete(name);
  }

  listBindingRules(): BindingRuleStub[] {
    return this.#parts.bindingRules.list();
  }

  readBindingRule(id: string): BindingRule | null {
    return this.#parts.bindingRules.read(id);
  }

  putBindingRule(id: string | null, body: BindingRuleBody): Promise<Result<BindingRule>> {
    return this.#parts.bindingRules.put(id, body);
  }

  deleteBindingRule(id: string): Promise<Result<{ index: number | null }>> {
    return this.#parts.bindingRules.delete(id);
  }

  clusterLogin(login: ClusterLogin): Promise<Result<AclToken>> {
    return this.#issued(() => this.#parts.clusterLogins.login(login));
  }

  beginOidc(request: OidcRequest): Result<{ state: string; verifier: string }> {
    return refuseIfSealed(() => ok(this.#parts.oidcRequests.begin(request, Date.now())));
  }

  completeOidc(request: OidcRequest, state: string): Result<string> {
    return refuseIfSealed(() => this.#parts.oidcRequests.complete(request, state, Date.now()));
  }

  createOneTimeToken(token: string): Result<OneTimeToken> {
    return refuseIfSealed(() => this.#parts.oneTimeTokens.create(token, Date.now()));
  }

  exchangeOneTimeToken(secret: string): Result<AclToken> {
    return refuseIfSealed(() => {
      const exchanged = this.#parts.oneTimeTokens.exchange(secret, Date.now());
      if (!exchanged.ok) return exchanged;
      const token = this.#parts.clusterTokens.read(exchanged.value.accessor);
      return token.ok ? ok({ ...token.value, SecretID: exchanged.value.secret }) : token;
    });
  }

  // ---- snapshots and restores ----

  /** Objects of mounts, including deleted ones, and other objects that hold data keys. */
  override known(after: string): KnownPage {
    return knownPage(this.sql, INVENTORY, after);
  }

  override swap(restore: string): Result<null> {
    const swapped = super.swap(restore);
    this.#parts.authorizer.forget();
    this.#parts.rateLimits.forget();
    return swapped;
  }

  beginRestore(restore: string): Promise<Result<null>> {
    return this.#restores.begin(restore);
  }

  joinRestore(restore: string, object: ObjectName): Result<null> {
    return this.#restores.join(restore, object);
  }

  completeRestore(restore: string): Result<null> {
    return this.#restores.complete(restore);
  }

  undoRestore(restore: string | null): Promise<Result<null>> {
    return this.#restores.undo(restore);
  }

  stepRestore(): Promise<boolean> {
    return this.#restores.step();
  }

  // ---- births ----

  /** Records the storage of an object on first use. @returns the id on record: see `StorageIdentity` */
  begins(object: ObjectName, id: string, fresh: boolean): string {
    return this.#storage.register(object, id, fresh);
  }

  /** Clears a lost object after its storage was restored. */
  isFound(object: ObjectName): void {
    this.#storage.found(object);
  }

  /** D1 records whether an `AccessControl` existed before: no other store is always available. */
  protected override register(object: ObjectName, id: string, fresh: boolean): Promise<string> {
    return recordBirth(this.env.LISTINGS, textOfObject(object), id, fresh);
  }

  // ---- keys ----

  keyStatus(): { term: number; installed: number; pending: number } {
    return this.#parts.terms.status();
  }

  /**
   * Starts a new key term: new values are sealed under new data keys, and older data keys are re-wrapped under the
   * newest master key, in every object. Reads and writes continue meanwhile.
   */
  async rotateKeys(): Promise<Result<null>> {
    const rotated = refuseIfSealed(() => this.#parts.terms.rotate(Date.now()));
    if (rotated.ok) await this.outbox.drain("rekey");
    return rotated;
  }

  /** Registers or unregisters an object outside the mounts that holds data keys. @returns the current term */
  holdsKeys(kind: KeyHolder, name: string, holds: boolean): number {
    return this.#parts.terms.register(kind, name, holds);
  }

  /** Registers a destination before its creation. Refused when its namespace was deleted. Idempotent. */
  admitDestination(name: string): Result<null> {
    const admitted = this.#parts.namespaceTree.admit(destinationKeyOf(name).namespace);
    if (admitted.ok) this.#parts.terms.register("sync-destination", name, true);
    return admitted;
  }

  // ---- inside ----

  /** Every commit invalidates cached callers: authorization depends on rows only. */
  protected override commit<T>(change: () => T): T {
    try {
      return super.commit(change);
    } finally {
      this.#parts.authorizer.forget();
    }
  }

  protected override onRollback(): void {
    this.#parts.wrappings.forget();
  }

  protected override measured(): Series[] {
    return [series("sallyport_sealed", this.#parts.keys.sealedBecause() === null ? 0 : 1)];
  }

  protected override frozenDeadline(): number | null {
    return this.#restores.nextDue(Date.now());
  }

  protected override async onFrozenAlarm(): Promise<void> {
    await this.#restores.step();
  }

  protected override ownDeadline(): number | null {
    const { tokenStore, oneTimeTokens, approles, deletedMounts, deletions } = this.#parts;
    const due = [
      tokenStore.nextExpiry(),
      oneTimeTokens.nextExpiry(),
      approles.nextExpiry(),
      deletedMounts.nextCheck(),
      deletions.nextDue(),
    ].filter((at) => at !== null);
    return due.length === 0 ? null : Math.min(...due);
  }

  protected override async onAlarm(now: number): Promise<void> {
    this.#parts.tokens.expire(now, EXPIRED_PER_ALARM);
    this.#parts.oneTimeTokens.expire(now);
    this.#parts.approles.expire(now, EXPIRED_PER_ALARM);
    await Promise.all([this.#parts.publisher.published(), this.#sweep.run(now), this.#parts.deletions.resume(now)]);
  }

  /** Resolves once no isolate uses a cached grant for a mount that left this path. */
  async #vacated(namespace: string, path: string): Promise<void> {
    const until = this.#parts.remounts.vacatedUntil(namespace, path);
    if (until > 0) await scheduler.wait(until - Date.now());
  }

  /** Resolves after one attempt to deliver the events of a change. */
  async #published<T>(change: () => Result<T>): Promise<Result<T>> {
    const result = refuseIfSealed(change);
    if (!result.ok) return result;
    // In the background: leases of ended tokens.
    this.ctx.waitUntil(this.outbox.drain("leases"));
    await this.#parts.publisher.published();
    return result;
  }

  #setUp(): void {
    if (this.#parts.keys.sealedBecause() !== null) return;
    this.commit(() => this.#parts.begin(settings(this.env).DEV_ROOT_TOKEN));
  }
}
