import { createSecretKey, type KeyObject } from "node:crypto";
import { Journal } from "../contracts/event-publisher.ts";
import type { Mount } from "../contracts/mount.ts";
import { clusterRegistry, eventLog, syncControl } from "../contracts/stubs.ts";
import { ok } from "../lib/result.ts";
import { DataKeys } from "../platform/crypto/data-keys.ts";
import { Sealed } from "../platform/crypto/keyring.ts";
import { DeploymentState } from "../platform/durable/deployment-state.ts";
import type { Outbox } from "../platform/durable/outbox.ts";
import { settings } from "../platform/settings.ts";
import { AclIndex } from "./acl-index.ts";
import { ApproleLogins } from "./approle-logins.ts";
import { ApproleStore } from "./approle-store.ts";
import { Approles } from "./approles.ts";
import { AuthEntries } from "./auth-entries.ts";
import { AuthMethods } from "./auth-methods.ts";
import { AuthMountTable } from "./auth-mounts.ts";
import { Authorizer } from "./authorize.ts";
import { BatchTokens } from "./batch-tokens.ts";
import { BindingRules } from "./binding-rules.ts";
import { Bootstrap } from "./bootstrap.ts";
import { ClusterAuthMethods } from "./cluster-auth-methods.ts";
import { ClusterLogins } from "./cluster-logins.ts";
import { ClusterNamespaces } from "./cluster-namespaces.ts";
import { ClusterRoles } from "./cluster-roles.ts";
import { ClusterTokens } from "./cluster-tokens.ts";
import { Cubbyholes } from "./cubbyholes.ts";
import { DeletedMounts } from "./deleted-mounts.ts";
import { Entities } from "./entities.ts";
import { EntityMerges } from "./entity-merges.ts";
import type { AccessPublisher, IndexBackfill } from "./event-publisher.ts";
import { IdentityAdmin } from "./identity-admin.ts";
import { IdentityAliases } from "./identity-aliases.ts";
import { KeyRotation } from "./key-rotation.ts";
import { LeaseHolders } from "./lease-holders.ts";
import { LoginLockouts } from "./login-lockouts.ts";
import { Logins } from "./logins.ts";
import { MountAdmin, type Viewer } from "./mount-admin.ts";
import { MountTable } from "./mounts.ts";
import { NamespaceAdmin } from "./namespace-admin.ts";
import { NamespaceDeletions } from "./namespace-deletions.ts";
import { NamespaceTree } from "./namespaces.ts";
import { OidcRequests } from "./oidc-requests.ts";
import { OneTimeTokens } from "./one-time-tokens.ts";
import { PathEvaluator } from "./path-evaluator.ts";
import { PolicyAdmin } from "./policy-admin.ts";
import { type Grants, PolicyStore } from "./policy-store.ts";
import { RateLimits } from "./rate-limits.ts";
import { Remounts } from "./remounts.ts";
import { SecretsTokens } from "./secrets-tokens.ts";
import { ServiceSettings } from "./service-settings.ts";
import { policiesOf, type TokenRow } from "./token.ts";
import { TokenRoles } from "./token-roles.ts";
import { TokenRules } from "./token-rules.ts";
import { TokenSecrets } from "./token-secrets.ts";
import { TokenStore } from "./token-store.ts";
import { UsedLoginStates } from "./used-login-states.ts";
import { Wrappings } from "./wrappings.ts";

interface Dependencies {
  readonly env: Env;
  readonly sql: SqlStorage;
  readonly outbox: Outbox;
  commit<T>(change: () => T): T;
}

/** Mounts that every namespace has. */
const SERVICE_MOUNTS = /^(?:sys|identity|cubbyhole|auth\/token)\//;

/** Assembles the parts of `AccessControl` over its rows. */
export class AccessParts {
  readonly keys: DataKeys;
  readonly deploymentState: DeploymentState;
  readonly serviceSettings: ServiceSettings;
  readonly rateLimits: RateLimits;
  readonly leaseHolders: LeaseHolders;
  readonly cubbyholes: Cubbyholes;
  readonly wrappings: Wrappings;
  readonly oneTimeTokens: OneTimeTokens;
  readonly tokenStore: TokenStore;
  readonly tokenSecrets: TokenSecrets;
  readonly policyStore: PolicyStore;
  readonly tokenRoles: TokenRoles;
  readonly namespaceTree: NamespaceTree;
  readonly mountTable: MountTable;
  readonly publisher: AccessPublisher;
  readonly bootstrap: Bootstrap;
  readonly terms: KeyRotation;
  readonly authorizer: Authorizer;
  readonly tokens: SecretsTokens;
  readonly clusterRoles: ClusterRoles;
  readonly clusterTokens: ClusterTokens;
  readonly clusterAuthMethods: ClusterAuthMethods;
  readonly bindingRules: BindingRules;
  readonly clusterLogins: ClusterLogins;
  readonly oidcRequests: OidcRequests;
  readonly aclIndex: AclIndex;
  readonly policies: PolicyAdmin;
  readonly namespaces: NamespaceAdmin;
  readonly clusterNamespaces: ClusterNamespaces;
  readonly deletions: NamespaceDeletions;
  readonly mounts: MountAdmin;
  readonly remounts: Remounts;
  readonly deletedMounts: DeletedMounts;
  readonly authMounts: AuthMountTable;
  readonly entities: Entities;
  readonly identityAliases: IdentityAliases;
  readonly identities: IdentityAdmin;
  readonly entityMerges: EntityMerges;
  readonly authMethods: AuthMethods;
  readonly logins: Logins;
  readonly approles: Approles;
  readonly approleLogins: ApproleLogins;
  readonly #sql: SqlStorage;
  #hashKey: KeyObject | undefined;

  constructor({ env, sql, outbox, commit }: Dependencies) {
    this.#sql = sql;
    this.keys = new DataKeys(sql, "access-control", () => env.MASTER_KEY);
    this.deploymentState = new DeploymentState(sql);
    this.serviceSettings = new ServiceSettings(this.deploymentState);
    this.rateLimits = new RateLimits({
      ...{ state: this.deploymentState, commit },
      placeOf: (path) => this.#placeOf(path),
    });
    this.leaseHolders = new LeaseHolders({
      sql,
      commit,
      enlist: (mount, accessor) => outbox.enlist("leases", mount, accessor),
    });
    this.cubbyholes = new Cubbyholes({ sql, keys: this.keys, commit });
    this.wrappings = new Wrappings({ sql, keys: this.keys, tokens: () => this.tokenStore, commit });
    this.oneTimeTokens = new OneTimeTokens({ sql, keys: this.keys, tokens: () => this.tokenStore, commit });
    this.namespaceTree = new NamespaceTree(sql);
    this.authMounts = new AuthMountTable(sql);
    const hashKey = () => this.tokenHashKey();
    this.tokenStore = new TokenStore(
      sql,
      hashKey,
      new BatchTokens(this.keys, hashKey, this.namespaceTree, this.authMounts),
      (accessor) => {
        this.leaseHolders.ended(accessor);
        this.cubbyholes.ended(accessor);
        this.wrappings.ended(accessor);
        this.oneTimeTokens.ended(accessor);
      },
    );
    this.tokenSecrets = new TokenSecrets(sql, this.keys, () => settings(env).ACL_TOKEN_SECRETS === "on");
    this.aclIndex = new AclIndex(async () => eventLog(env).newest());
    this.policyStore = new PolicyStore(sql);
    this.mountTable = new MountTable(sql);
    this.tokenRoles = new TokenRoles({ sql, namespaces: this.namespaceTree, commit });
    this.publisher = new Journal({
      commit,
      enlist: (entry) => outbox.enlist("event", "log", entry),
      drain: () => outbox.drain("event"),
      append: async (entries) => {
        const indexes = await eventLog(env).append("access-control", entries);
        this.aclIndex.record(indexes);
        return indexes;
      },
      stamp: (stamp, index) => this.#backfillIndex(stamp, index),
      // After the commit, or a read would not find the rows' indexes yet.
      stamped: () => queueMicrotask(() => this.aclIndex.wake()),
    });
    this.clusterRoles = new ClusterRoles(sql, this.policyStore, this.publisher);
    const evaluator = new PathEvaluator(this.namespaceTree, this.mountTable, this.authMounts);
    this.entities = new Entities(sql);
    this.identityAliases = new IdentityAliases({
      ...{ sql, mounts: this.authMounts, namespaces: this.namespaceTree, commit },
    });
    this.entityMerges = new EntityMerges({ sql, aliases: this.identityAliases, commit });
    this.identities = new IdentityAdmin({
      ...{ sql, entities: this.entities, aliases: this.identityAliases, namespaces: this.namespaceTree, commit },
    });
    const rules = new TokenRules(this.tokenStore, this.policyStore, evaluator, this.entities);
    const authEntries = new AuthEntries(sql, this.keys);
    const lockouts = new LoginLockouts();
    const approles = new ApproleStore({ sql, keys: this.keys, hash: (text) => this.tokenStore.hashOf(text) });
    this.authMethods = new AuthMethods({
      ...{ mounts: this.authMounts, entries: authEntries, entities: this.entities, lockouts, commit },
      ...{ namespaces: this.namespaceTree, tokens: this.tokenStore, approles },
    });
    this.logins = new Logins({
      ...{ mounts: this.authMounts, entries: authEntries, entities: this.entities, lockouts, rules },
      ...{ tokens: this.tokenStore, publisher: this.publisher, usedStates: new UsedLoginStates(sql) },
    });
    this.approles = new Approles({ store: approles, methods: this.authMethods, commit });
    this.approleLogins = new ApproleLogins({
      ...{ store: approles, mounts: this.authMounts, methods: this.authMethods, logins: this.logins },
    });
    const grantsOf = (row: TokenRow): Grants => this.grantsOf(row);
    this.bootstrap = new Bootstrap(this.deploymentState, this.tokenStore, this.tokenSecrets);
    const renewal = (row: TokenRow) => this.logins.renewal(row);
    this.tokens = new SecretsTokens(this.tokenStore, rules, this.namespaceTree, this.publisher, evaluator, {
      ...{ grantsOf, renewal, entities: this.entities, roles: this.tokenRoles },
    });
    this.authorizer = new Authorizer(this.tokenStore, this.tokens, this.namespaceTree, this.mountTable, evaluator, {
      grantsOf,
      rolesOf: (row) => this.clusterRoles.of(row),
      isEntityActive: (row) => row.entity_id === "" || this.entities.isActive(row.entity_id),
    });
    const { tokenSecrets, publisher, clusterRoles } = this;
    this.clusterTokens = new ClusterTokens(this.tokenStore, rules, tokenSecrets, publisher, clusterRoles);
    this.clusterAuthMethods = new ClusterAuthMethods(sql, this.keys, publisher);
    this.bindingRules = new BindingRules(sql, this.clusterAuthMethods, publisher);
    this.oidcRequests = new OidcRequests(hashKey);
    this.clusterLogins = new ClusterLogins({
      ...{ methods: this.clusterAuthMethods, rules: this.bindingRules, roles: clusterRoles },
      ...{ policies: this.policyStore, tokens: this.clusterTokens },
    });
    this.policies = new PolicyAdmin(this.policyStore, this.namespaceTree, this.publisher);
    const enlistTerm = (lane: string, body: { term: number }) => outbox.enlistLatest("rekey", lane, body);
    this.terms = new KeyRotation({ sql, commit, enlist: enlistTerm }, this.deploymentState, this.keys, this.mountTable);
    this.deletions = new NamespaceDeletions({
      ...{ sql, commit },
      steps: {
        cluster: {
          close: async (name) => {
            const id = this.clusterNamespaces.identity(name);
            return id.ok ? clusterRegistry(env).endNamespace(id.value, name) : ok(null);
          },
          complete: (name) => this.clusterNamespaces.remove(name),
        },
        secrets: {
          close: async (path) => {
            const id = this.namespaceTree.idOf(path);
            return id === null ? ok(null) : syncControl(env).endNamespace(id, path);
          },
          complete: (path) => this.namespaces.remove(path),
        },
      },
    });
    this.namespaces = new NamespaceAdmin({
      ...{ tree: this.namespaceTree, mounts: this.mountTable, policies: this.policyStore, tokens: this.tokenStore },
      ...{ authMounts: this.authMounts, entities: this.entities, tokenRoles: this.tokenRoles },
      ...{ terms: this.terms, publisher: this.publisher, deletions: this.deletions },
      clear: (path) => syncControl(env).clearNamespace(path),
    });
    this.clusterNamespaces = new ClusterNamespaces(sql, this.publisher, this.deletions);
    this.deletedMounts = new DeletedMounts(sql);
    const tellLater = ({ type, uuid, path }: Mount) =>
      outbox.enlistLatest("moved", `${type} ${uuid}`, (seq: number) => ({ path, seq }));
    this.remounts = new Remounts(this.mountTable, this.authMounts, this.namespaceTree, { sql, commit, tellLater });
    const destroyLater = (mount: Mount) => {
      this.remounts.forget(mount.uuid);
      this.leaseHolders.forget(mount.uuid);
      this.deletedMounts.add(mount, Date.now());
      outbox.enlist("unmount", `${mount.type} ${mount.uuid}`, null);
    };
    const upgradeLater = ({ uuid }: Mount) => outbox.enlistLatest("upgrade", uuid, null);
    const deploymentId = () => this.deploymentState.get("cluster_id") ?? "";
    this.mounts = new MountAdmin(this.mountTable, this.namespaceTree, {
      ...{ commit, destroyLater, upgradeLater, deploymentId },
    });
  }

  /** The place of a path from the root, for a quota. */
  #placeOf(path: string): "namespace" | "mount" | "inside" | null {
    const folder = path.replace(/\/?$/, "/");
    if (this.namespaceTree.has(folder)) return "namespace";
    const at = this.namespaceTree.split("", folder);
    const auth = this.authMounts.resolve(at.namespace, at.path);
    if (auth) return auth.path === "" ? "mount" : "inside";
    const mount = this.mountTable.resolve(at.namespace, at.path)?.path ?? SERVICE_MOUNTS.exec(at.path)?.[0];
    if (mount === undefined) return null;
    return mount === at.path ? "mount" : "inside";
  }

  /** Rights of a token's holder. */
  grantsOf(row: TokenRow): Grants {
    const identityPolicies = row.entity_id === "" ? [] : this.entities.policiesOf(row.entity_id, row.namespace);
    const rolePolicies = this.clusterRoles.of(row).policies;
    const names = [...policiesOf(row), ...identityPolicies, ...rolePolicies];
    const subject = () => this.entities.templateSubject(row.entity_id, row.namespace);
    return this.policyStore.grants(row.namespace, names, subject);
  }

  /** The viewer of mount listings; null when the token is gone. */
  viewer(accessor: string): Viewer | null {
    const row = this.tokenStore.byAccessor(accessor, Date.now(), true);
    return row && { grants: this.grantsOf(row), namespace: row.namespace };
  }

  /**
   * Initializes a fresh deployment: its identity, its hash key and, in local development, the configured root token.
   * Call inside a transaction.
   */
  begin(rootToken: string | undefined): void {
    if (this.deploymentState.get("cluster_id") === null) {
      this.deploymentState.set("cluster_id", crypto.randomUUID());
      this.terms.begin(Date.now());
    }
    if (!this.#sealedHashKey()) {
      const key = crypto.getRandomValues(new Uint8Array(32));
      this.#sql.exec("INSERT INTO sealed VALUES ('token-hash-key', ?)", this.keys.seal(key, "token-hash-key"));
    }
    if (rootToken !== undefined) this.bootstrap.local(rootToken);
    this.tokenSecrets.purge();
  }

  /** @throws Sealed */
  tokenHashKey(): KeyObject {
    if (!this.#hashKey) {
      const sealed = this.#sealedHashKey();
      if (!sealed) throw new Sealed(this.keys.sealedBecause() ?? "sealed: the key of the token hashes is missing");
      this.#hashKey = createSecretKey(this.keys.open(sealed, "token-hash-key"));
    }
    return this.#hashKey;
  }

  #sealedHashKey(): ArrayBuffer | undefined {
    return this.#sql.exec<{ value: ArrayBuffer }>("SELECT value FROM sealed WHERE name = 'token-hash-key'").toArray()[0]
      ?.value;
  }

  #backfillIndex(stamp: IndexBackfill, index: number): void {
    if ("token" in stamp) this.tokenStore.backfillIndex(stamp.token, index);
    else if ("policy" in stamp) this.policyStore.backfillIndex(...stamp.policy, index);
    else if ("clusterAuthMethod" in stamp) this.clusterAuthMethods.backfillIndex(stamp.clusterAuthMethod, index);
    else if ("bindingRule" in stamp) this.bindingRules.backfillIndex(stamp.bindingRule, index);
    else if ("clusterRole" in stamp) this.clusterRoles.backfillIndex(stamp.clusterRole, index);
    else this.clusterNamespaces.backfillIndex(stamp.clusterNamespace, index);
  }
}
