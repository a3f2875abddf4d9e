import { DataKeys } from "../platform/crypto/data-keys.ts";
import { masterKey } from "../platform/crypto/master-key.ts";
import { DeploymentState } from "../platform/durable/deployment-state.ts";
import type { NameChanges } from "../platform/durable/object-context.ts";
import type { Outbox } from "../platform/durable/outbox.ts";
import { EventPublisher, EventSource } from "../publishing/event-publisher.ts";
import { ApproleLogins } from "./auth-methods/approle-logins.ts";
import { ApproleStore } from "./auth-methods/approle-store.ts";
import { Approles } from "./auth-methods/approles.ts";
import { AuthEntries } from "./auth-methods/auth-entries.ts";
import { AuthMethodEntries } from "./auth-methods/auth-method-entries.ts";
import { AuthMethods } from "./auth-methods/auth-methods.ts";
import { AuthMountContent } from "./auth-methods/auth-mount-content.ts";
import { AuthMountTable } from "./auth-methods/auth-mounts.ts";
import { LoginChecks } from "./auth-methods/login-checks.ts";
import { LoginLockouts } from "./auth-methods/login-lockouts.ts";
import { Logins } from "./auth-methods/logins.ts";
import { TokenMethods } from "./auth-methods/token-methods.ts";
import { UsedLoginStates } from "./auth-methods/used-login-states.ts";
import { Authorizer } from "./authorize/authorize.ts";
import { AclIndex } from "./cluster-acl/acl-index.ts";
import { BindingRules } from "./cluster-acl/binding-rules.ts";
import { ClusterAuthMethods } from "./cluster-acl/cluster-auth-methods.ts";
import { ClusterLoginStates } from "./cluster-acl/cluster-login-states.ts";
import { ClusterLogins } from "./cluster-acl/cluster-logins.ts";
import { ClusterRoles } from "./cluster-acl/cluster-roles.ts";
import { ClusterTokens } from "./cluster-acl/cluster-tokens.ts";
import { type AccessPublisher, setIndex } from "./event-publisher.ts";
import { Entities } from "./identity/entities.ts";
import { EntityMerges } from "./identity/entity-merges.ts";
import { IdentityAdmin } from "./identity/identity-admin.ts";
import { IdentityAliases } from "./identity/identity-aliases.ts";
import { DeletedMounts } from "./mounts/deleted-mounts.ts";
import { MountAdmin } from "./mounts/mount-admin.ts";
import { MountViews } from "./mounts/mount-views.ts";
import { MountTable } from "./mounts/mounts.ts";
import { PublishedSecrets } from "./mounts/published-secrets.ts";
import { Remounts } from "./mounts/remounts.ts";
import { ClusterNamespaces } from "./namespaces/cluster-namespaces.ts";
import { NamespaceAdmin } from "./namespaces/namespace-admin.ts";
import { NamespaceDeletions } from "./namespaces/namespace-deletions.ts";
import { NamespacePlaces } from "./namespaces/namespace-places.ts";
import { NamespaceRows } from "./namespaces/namespace-rows.ts";
import { NamespaceTree } from "./namespaces/namespaces.ts";
import { PathEvaluator } from "./paths/path-evaluator.ts";
import { PathResolver } from "./paths/path-resolver.ts";
import { PolicyAdmin } from "./policies/policy-admin.ts";
import { PolicyStore } from "./policies/policy-store.ts";
import { PolicyTrials } from "./policies/policy-trial.ts";
import { PublishedChanges } from "./published-changes.ts";
import { KeyRotation } from "./system/key-rotation.ts";
import { LeaseCountQuotas } from "./system/lease-count-quotas.ts";
import { LeaseCounts } from "./system/lease-counts.ts";
import { RateLimitQuotas } from "./system/rate-limit-quotas.ts";
import { ServiceSettings } from "./system/service-settings.ts";
import { BatchTokens } from "./tokens/batch-tokens.ts";
import { Bootstrap } from "./tokens/bootstrap.ts";
import { Cubbyholes } from "./tokens/cubbyholes.ts";
import { LeaseHolders } from "./tokens/lease-holders.ts";
import { OneTimeTokens } from "./tokens/one-time-tokens.ts";
import { RenewalLimits } from "./tokens/renewal-limits.ts";
import { SecretsTokens } from "./tokens/secrets-tokens.ts";
import { TokenCapabilities } from "./tokens/token-capabilities.ts";
import { TokenHashKey } from "./tokens/token-hash-key.ts";
import { TokenHolders } from "./tokens/token-holders.ts";
import { TokenIssuer } from "./tokens/token-issuer.ts";
import { TokenRoles } from "./tokens/token-roles.ts";
import { TokenRules } from "./tokens/token-rules.ts";
import { TokenSecrets } from "./tokens/token-secrets.ts";
import { TokenStore } from "./tokens/token-store.ts";
import { Wrappings } from "./tokens/wrappings.ts";

interface AccessHost {
  readonly ctx: DurableObjectState;
  readonly env: Env;
  readonly outbox: Outbox;
  commit<T>(change: () => T, keys?: NameChanges): T;
}

/** The components of `AccessControl`. Rows of its method tables take them by name; a component gets those that it calls. */
export type AccessParts = ReturnType<typeof accessParts>;

/** Builds the components of `AccessControl` over its rows, each from those above it. */
export function accessParts({ ctx, env, outbox, commit }: AccessHost) {
  const { sql } = ctx.storage;
  const keys = new DataKeys(sql, "access-control", () => masterKey(env));
  const hashKey = new TokenHashKey(sql, keys);
  const state = new DeploymentState(sql);
  const aclIndex = new AclIndex(new EventSource(env, "access-control"));
  const publisher: AccessPublisher = new EventPublisher({
    source: aclIndex,
    outbox,
    rows: { setIndex: (backfill, index) => setIndex(sql, backfill, index) },
    commit,
  });
  const changes = new PublishedChanges(publisher, outbox, ctx);

  // ---- places ----
  const tree = new NamespaceTree(sql);
  const mounts = new MountTable(sql);
  const authMounts = new AuthMountTable(sql);
  const tokenMethods = new TokenMethods(sql, tree, commit);
  const paths = new PathResolver(tree, mounts, authMounts);
  const evaluator = new PathEvaluator(paths);
  const rateLimits = new RateLimitQuotas(state, paths, commit);

  // ---- tokens and what ends with them ----
  const store = new TokenStore(sql, hashKey, new BatchTokens(keys, hashKey, tree, authMounts));
  const leaseCounts = new LeaseCounts(env, mounts, store.leaseCounts);
  const leaseQuotas = new LeaseCountQuotas(state, paths, leaseCounts, commit);
  const leaseHolders = new LeaseHolders(sql, store, outbox, commit);
  const cubbyholes = new Cubbyholes(sql, keys, store, commit);
  const wrappings = new Wrappings(sql, keys, store, commit);
  const oneTimeTokens = new OneTimeTokens(sql, keys, store, commit);
  store.addDependents(leaseHolders, cubbyholes, wrappings, oneTimeTokens);

  // ---- policies, entities, and the rights of a token's holder ----
  const policies = new PolicyStore(sql);
  const entities = new Entities(sql);
  const clusterRoles = new ClusterRoles(sql, policies, publisher);
  const authEntries = new AuthEntries(sql, keys);
  const holders = new TokenHolders(store, policies, entities, clusterRoles);
  const rights = new TokenCapabilities(store, evaluator, holders);
  const rules = new TokenRules(store, policies, evaluator, entities, tokenMethods);
  const tokenRoles = new TokenRoles(sql, tree, tokenMethods, commit);
  const renewalLimits = new RenewalLimits(authMounts, authEntries, tokenRoles, tokenMethods);
  const tokens = new SecretsTokens(store, rules, rights, renewalLimits, publisher);
  const issuer = new TokenIssuer(store, rules, tree, tokenRoles, publisher);
  const authorizer = new Authorizer(store, tokens, paths, evaluator, holders);

  // ---- identity, auth methods and logins of the secrets API ----
  const commitIdentity = <T>(change: () => T): T =>
    commit(() => {
      const changed = change();
      publisher.emitEntityChange();
      return changed;
    });
  const aliases = new IdentityAliases(sql, authMounts, tree, commitIdentity);
  const merges = new EntityMerges(sql, entities, aliases, commitIdentity);
  const identities = new IdentityAdmin(sql, entities, aliases, tree, commitIdentity);
  const lockouts = new LoginLockouts();
  const approleStore = new ApproleStore(sql, keys, store);
  const content = new AuthMountContent(authEntries, approleStore, entities, store, lockouts);
  const authMethods = new AuthMethods(authMounts, content, tree, publisher, commit);
  const entries = new AuthMethodEntries(authMounts, authEntries, lockouts, tree, commit);
  const checks = new LoginChecks(authMounts, authEntries, lockouts, new UsedLoginStates(sql), leaseQuotas);
  const logins = new Logins(checks, entities, store, rules, publisher);
  const approles = new Approles(approleStore, entries, commit);
  const approleLogins = new ApproleLogins(approleStore, authMounts, entries, logins);

  // ---- tokens and logins of the cluster API ----
  const tokenSecrets = new TokenSecrets(sql, keys, env);
  const clusterTokens = new ClusterTokens(store, rules, tokenSecrets, publisher, clusterRoles);
  const clusterAuthMethods = new ClusterAuthMethods(sql, keys, publisher);
  const bindingRules = new BindingRules(sql, clusterAuthMethods, publisher);
  const clusterLogins = new ClusterLogins(clusterAuthMethods, bindingRules, clusterRoles, policies, clusterTokens);
  const bootstrap = new Bootstrap(env, state, store, tokenSecrets, commit);

  // ---- mounts, namespaces and keys ----
  const remounts = new Remounts(mounts, authMounts, tree, { sql, outbox, commit });
  const deletedMounts = new DeletedMounts(sql, outbox, remounts, leaseHolders);
  const views = new MountViews(mounts, authMounts, tokenMethods, tree, state);
  const publishedSecrets = new PublishedSecrets(state, mounts, outbox, commit);
  const mountAdmin = new MountAdmin(
    { table: mounts, views, namespaces: tree, deleted: deletedMounts, published: publishedSecrets, outbox },
    commit,
  );
  const keyRotation = new KeyRotation({ sql, outbox, commit }, state, keys, mounts);
  const deletions = new NamespaceDeletions(sql, commit);
  const rows = new NamespaceRows(tree, policies, store, tokenRoles, entities);
  const places = new NamespacePlaces(tree, mounts, authMounts, keyRotation);
  const namespaces = new NamespaceAdmin(env, { tree, places, rows, publisher, deletions });
  const clusterNamespaces = new ClusterNamespaces(env, sql, publisher, deletions);

  /** Drops all copies of rows, after a rollback or when the rows were replaced. */
  const forget = (): void => {
    authorizer.forget(null);
    for (const copy of [tree, mounts, authMounts, tokenMethods, policies, entities, wrappings, leaseQuotas])
      copy.forget();
  };

  /**
   * Initializes a fresh deployment: its identity, its hash key and, in local development, the configured root token.
   * Call inside a transaction.
   */
  const begin = (rootToken: string | undefined): void => {
    if (state.get("cluster_id") === null) {
      state.set("cluster_id", crypto.randomUUID());
      keyRotation.begin(Date.now());
    }
    hashKey.begin();
    if (rootToken !== undefined) bootstrap.local(rootToken);
    tokenSecrets.purge();
  };

  return {
    aclIndex,
    aliases,
    approleLogins,
    approles,
    authEntries: entries,
    authMethods,
    authMounts,
    authorizer,
    begin,
    bindingRules,
    bootstrap,
    changes,
    clusterAuthMethods,
    clusterLogins,
    clusterLoginStates: new ClusterLoginStates(hashKey),
    clusterNamespaces,
    clusterRoles,
    clusterTokens,
    cubbyholes,
    deletedMounts,
    deletions,
    deploymentState: state,
    entities,
    forget,
    hashKey,
    holders,
    identities,
    issuer,
    keyRotation,
    keys,
    leaseHolders,
    leaseQuotas,
    logins,
    merges,
    mountAdmin,
    mounts,
    mountViews: views,
    namespaces,
    namespaceTree: tree,
    oneTimeTokens,
    outbox,
    policies,
    policyAdmin: new PolicyAdmin(policies, tree, publisher),
    policyTrials: new PolicyTrials(policies, holders, rights, evaluator),
    publishedSecrets,
    publisher,
    rateLimits,
    remounts,
    rights,
    serviceSettings: new ServiceSettings(state, commit),
    tokenMethods,
    tokenRoles,
    tokens,
    tokenStore: store,
    wrappings,
  };
}
