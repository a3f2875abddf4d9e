import type { Ask, Grant } from "../access/authorize.ts";
import { Bootstrap } from "../access/bootstrap.ts";
import type { AclPolicy, AclToken } from "../access/cluster-acl.ts";
import { type ClusterNamespace, ClusterNamespaces } from "../access/cluster-namespaces.ts";
import { type AclTokenPage, ClusterTokens } from "../access/cluster-tokens.ts";
import { Facts } from "../access/facts.ts";
import { Gatekeeper } from "../access/gatekeeper.ts";
import type { Stamp } from "../access/journal.ts";
import { type KeyHolder, KeyTerms } from "../access/key-terms.ts";
import { LeaseHolders } from "../access/lease-holders.ts";
import { MountAdmin, type Viewer } from "../access/mount-admin.ts";
import { type Mount, type MountRequest, MountTable, type MountType, type TuneRequest } from "../access/mounts.ts";
import { NamespaceAdmin } from "../access/namespace-admin.ts";
import { type Namespace, NamespaceTree } from "../access/namespaces.ts";
import type { Capability } from "../access/path-rules.ts";
import { Policies, type PolicyWritten } from "../access/policies.ts";
import { type Grants, PolicyStore } from "../access/policy-store.ts";
import { accessMigrations } from "../access/schema.ts";
import { type StreamAnswer, type StreamQuestion, streamScope } from "../access/stream-rights.ts";
import { type ClusterTokenRequest, policiesOf, type TokenRequest, type TokenRow } from "../access/token.ts";
import { TokenRules } from "../access/token-rules.ts";
import { TokenStore } from "../access/token-store.ts";
import { type Authed, type TokenName, Tokens } from "../access/tokens.ts";
import type { GoverningRule } from "../access/volume-rules.ts";
import { bornWith, type KnownPage, type ObjectName } from "../backup/kinds.ts";
import { knownPage, type Source } from "../backup/known.ts";
import { Restores, refusedByRestore } from "../backup/restores.ts";
import { settings } from "../env.ts";
import { Journal } from "../events/journal.ts";
import { type Series, series } from "../metrics/series.ts";
import type { OutboxRow } from "../outbox.ts";
import { ok, type Refusal, type Result, refuse } from "../result.ts";
import { DataKeys, dataKeyMigrations } from "../sealing/data-keys.ts";
import { guarded } from "../sealing/guarded.ts";
import { Sealed } from "../sealing/keyring.ts";
import { StoredObject } from "./stored-object.ts";
import {
  clusterRegistry,
  credentialEngine,
  eventLog,
  identityIssuer,
  kvStore,
  nodeSession,
  syncControl,
  syncDestination,
} from "./stubs.ts";

const EXPIRED_PER_ALARM = 500;

/**
 * Owner of who may do what: tokens, policies, namespaces and the mount table. One for the deployment.
 * The parts decide; this class is their surface: it turns locked keys into refusals and waits for the event stream.
 */
export class AccessControl extends StoredObject {
  readonly #keys: DataKeys;
  readonly #facts: Facts;
  readonly #leaseHolders: LeaseHolders;
  readonly #tokenStore: TokenStore;
  readonly #policyStore: PolicyStore;
  readonly #namespaceTree: NamespaceTree;
  readonly #mountTable: MountTable;
  readonly #journal: Journal<Stamp>;
  readonly #bootstrap: Bootstrap;
  readonly #terms: KeyTerms;
  readonly #gatekeeper: Gatekeeper;
  readonly #tokens: Tokens;
  readonly #clusterTokens: ClusterTokens;
  readonly #policies: Policies;
  readonly #namespaces: NamespaceAdmin;
  readonly #clusterNamespaces: ClusterNamespaces;
  readonly #mounts: MountAdmin;
  readonly #restores: Restores;
  #hashKey: Uint8Array | undefined;

  constructor(ctx: DurableObjectState, env: Env) {
    super(
      ctx,
      env,
      { data_keys: dataKeyMigrations, access: accessMigrations },
      {
        event: (_lane, rows) => this.#journal.deliver(rows),
        unmount: (lane) => this.#deliverUnmount(lane),
        leases: (mount, rows) => this.#deliverTokensEnded(mount, rows),
        rekey: (lane, rows) => this.#deliverRekey(lane, rows),
      },
    );
    const commit = <T>(change: () => T): T => this.commit(change);
    this.#keys = new DataKeys(this.sql, "access-control", () => this.env.MASTER_KEY);
    this.#facts = new Facts(this.sql);
    this.#leaseHolders = new LeaseHolders({
      sql: this.sql,
      commit,
      enlist: (mount, accessor) => this.outbox.enlist("leases", mount, accessor),
    });
    this.#tokenStore = new TokenStore(
      this.sql,
      () => this.#tokenHashKey(),
      (accessor) => this.#leaseHolders.ended(accessor),
    );
    this.#policyStore = new PolicyStore(this.sql);
    this.#namespaceTree = new NamespaceTree(this.sql);
    this.#mountTable = new MountTable(this.sql);
    this.#journal = new Journal({
      commit,
      enlist: (entry) => this.outbox.enlist("event", "log", entry),
      drain: () => this.outbox.drain("event"),
      append: (entries) => eventLog(this.env).append("access-control", entries),
      stamp: (stamp, index) => this.#stamp(stamp, index),
    });
    const rules = new TokenRules(this.#tokenStore, this.#policyStore);
    this.#bootstrap = new Bootstrap(this.#facts, this.#tokenStore);
    const grantsOf = (row: TokenRow): Grants => this.#grantsOf(row);
    this.#tokens = new Tokens(this.#tokenStore, rules, this.#namespaceTree, this.#journal, grantsOf);
    this.#gatekeeper = new Gatekeeper(this.#tokenStore, this.#tokens, this.#namespaceTree, this.#mountTable, grantsOf);
    this.#clusterTokens = new ClusterTokens(this.#tokenStore, rules, this.#journal);
    this.#policies = new Policies(this.#policyStore, this.#namespaceTree, this.#journal);
    const rekeying = {
      sql: this.sql,
      commit,
      enlist: (lane: string, body: { term: number }) => this.outbox.enlistLatest("rekey", lane, body),
    };
    this.#terms = new KeyTerms(rekeying, this.#facts, this.#keys, this.#mountTable);
    this.#namespaces = new NamespaceAdmin(
      this.#namespaceTree,
      this.#mountTable,
      this.#policyStore,
      this.#tokenStore,
      this.#terms,
      this.#journal,
    );
    this.#clusterNamespaces = new ClusterNamespaces(this.sql, this.#journal);
    this.#mounts = new MountAdmin(this.#mountTable, this.#namespaceTree, {
      commit,
      destroyLater: ({ type, uuid }) => {
        this.#leaseHolders.forget(uuid);
        this.sql.exec("INSERT INTO ended_mounts (uuid, type) VALUES (?, ?)", uuid, type);
        this.outbox.enlist("unmount", `${type} ${uuid}`, null);
      },
    });
    this.#restores = new Restores({
      env,
      storage: ctx.storage,
      hold: (restore) => this.holdForRestore(restore, bornWith("access-control")),
      swap: (restore) => this.swap(restore),
      release: (restore) => this.release(restore),
      restart: () => this.restart(),
    });
    this.onceThawed(() => this.#setUp());
  }

  // ---- every request ----

  /** Where a path leads that is asked for without a token. */
  locate(namespace: string, path: string): Result<{ namespace: string; path: string }> {
    return this.#gatekeeper.locate(namespace, path);
  }

  /** Who calls, what the request may do, and which mount it is about. Counts a use of a token that has only so many. */
  authorize(ask: Ask): Grant | Refusal {
    if (this.isBeingRestored && ask.path !== "sys/snapshot") return refusedByRestore();
    return guarded(() => {
      // While sealed nobody is known, which must not look like a bad token.
      this.#tokenHashKey();
      return this.#gatekeeper.authorize(ask);
    });
  }

  /** Whether the service can work, and its identity. Never refuses. */
  status(): { sealedBecause: string | null; clusterId: string; bootstrapped: boolean } {
    return {
      sealedBecause: this.#keys.sealedBecause(),
      clusterId: this.#facts.get("cluster_id") ?? "",
      bootstrapped: this.#bootstrap.done,
    };
  }

  /** What a token may do on each path of a namespace. */
  capabilities(
    name: TokenName,
    namespace: string,
    paths: readonly string[],
  ): Result<Record<string, (Capability | "root")[]>> {
    return guarded(() => this.#tokens.capabilities(name, namespace, paths));
  }

  /** Who may stream what; any number of questions, answered in order. */
  mayStream(questions: readonly StreamQuestion[]): StreamAnswer[] {
    const now = Date.now();
    let names: readonly string[] | undefined;
    return questions.map((question) => {
      const row = this.#tokenStore.byAccessor(question.accessor, now, true);
      const rights = row && this.#grantsOf(row).cluster;
      const existing = () => {
        names ??= this.#clusterNamespaces.names();
        return names;
      };
      const scope = rights && streamScope(rights, question, existing);
      return scope ? { allowed: true, scope, expires: row.expires } : { allowed: false };
    });
  }

  // ---- tokens ----

  createToken(
    caller: string,
    namespace: string,
    path: string,
    request: TokenRequest,
    orphan: boolean,
  ): Promise<Result<Authed>> {
    return this.#published(() => this.#tokens.create(caller, namespace, path, request, orphan));
  }

  lookupToken(name: TokenName): Result<Record<string, unknown>> {
    return guarded(() => this.#tokens.lookup(name));
  }

  renewToken(name: TokenName, increment: number): Promise<Result<Authed>> {
    return this.#published(() => this.#tokens.renew(name, increment));
  }

  /** Ends a token at once, with all its descendants, or alone (`keepChildren`). An unknown token counts as revoked. */
  revokeToken(name: TokenName, keepChildren = false): Promise<Result<null>> {
    return this.#published(() => this.#tokens.revoke(name, keepChildren));
  }

  accessors(within: string, from: string, limit: number): { keys: string[]; next: string | null } {
    return this.#tokens.accessors(within, from, limit);
  }

  // ---- tokens as areas C and D show them ----

  bootstrap(secret: string | null): Result<AclToken> {
    const wanted = settings(this.env).BOOTSTRAP_SECRET;
    return guarded(() => this.commit(() => this.#bootstrap.claim(secret, wanted)));
  }

  async createClusterToken(request: ClusterTokenRequest): Promise<Result<AclToken>> {
    const made = await this.#published(() => this.#clusterTokens.create(request));
    return made.ok ? this.#clusterTokens.read(made.value.accessor, made.value.secret) : made;
  }

  updateClusterToken(accessor: string, request: ClusterTokenRequest): Promise<Result<AclToken>> {
    return this.#clusterTokens.update(accessor, request);
  }

  readClusterToken(accessor: string): Result<AclToken> {
    return this.#clusterTokens.read(accessor);
  }

  listClusterTokens(prefix: string, from: string, limit: number, onlyGlobal: boolean): AclTokenPage {
    return this.#clusterTokens.list(prefix, from, limit, onlyGlobal);
  }

  async deleteClusterToken(accessor: string): Promise<Result<null>> {
    const revoked = await this.revokeToken({ accessor, within: "" });
    return revoked.ok ? revoked : refuse("invalid", `Cannot delete nonexistent tokens: ${accessor}`);
  }

  // ---- policies ----

  putPolicy(namespace: string, name: string, text: string, description = ""): Promise<Result<PolicyWritten>> {
    return this.#policies.put(namespace, name, text, description);
  }

  readPolicy(namespace: string, name: string): Result<{ name: string; text: string }> {
    return this.#policies.read(namespace, name);
  }

  policyNames(namespace: string): string[] {
    return this.#policyStore.names(namespace);
  }

  /** The policies of areas C and D: those of the root namespace, all or by name. */
  clusterPolicies(names: readonly string[] | null, prefix: string): AclPolicy[] {
    return this.#policies.cluster(names, prefix);
  }

  /** The volume rules of all policies, which govern everyone. */
  volumeRules(): GoverningRule[] {
    return this.#policyStore.volumeRules();
  }

  deletePolicy(namespace: string, name: string): Promise<Result<PolicyWritten & { existed: boolean }>> {
    return this.#policies.delete(namespace, name);
  }

  // ---- namespaces ----

  listNamespaces(parent: string): Namespace[] {
    return this.#namespaceTree.children(parent);
  }

  readNamespace(path: string): Result<Namespace> {
    const namespace = this.#namespaceTree.get(path);
    return namespace ? ok(namespace) : refuse("missing");
  }

  putNamespace(parent: string, name: string, customMetadata: Record<string, string>): Result<Namespace> {
    return this.#namespaces.put(parent, name, customMetadata);
  }

  patchNamespace(path: string, changes: Record<string, string | null>): Result<Namespace> {
    return this.#namespaces.patch(path, changes);
  }

  /** Deletes an empty namespace with its policies and tokens. One that is gone already counts as deleted. */
  deleteNamespace(path: string): Promise<Result<null>> {
    return this.#namespaces.delete(path);
  }

  listClusterNamespaces(prefix: string): ClusterNamespace[] {
    return this.#clusterNamespaces.list(prefix);
  }

  readClusterNamespace(name: string): Result<ClusterNamespace> {
    return this.#clusterNamespaces.read(name);
  }

  putClusterNamespace(
    name: string,
    description: string,
    meta: Record<string, string> | null,
  ): Promise<Result<ClusterNamespace>> {
    return this.#clusterNamespaces.put(name, description, meta);
  }

  deleteClusterNamespace(name: string): Result<null> {
    return this.#clusterNamespaces.delete(name);
  }

  // ---- mounts ----

  listMounts(namespace: string): Mount[] {
    return this.#mountTable.list(namespace);
  }

  /** The mounts that a caller sees in a namespace; without a caller, those listed for everyone. */
  visibleMounts(accessor: string | null, namespace: string): Mount[] {
    return this.#mounts.visible(accessor === null ? null : this.#viewer(accessor), namespace);
  }

  /** The mount that a path falls under, if the caller may do anything on it. */
  visibleMount(accessor: string, namespace: string, path: string): Mount | null {
    const viewer = this.#viewer(accessor);
    return viewer && this.#mounts.visibleAt(viewer, namespace, path);
  }

  readMount(namespace: string, path: string): Result<Mount> {
    return this.#mounts.read(namespace, path);
  }

  /** The mount of a namespace that a path falls under. */
  findMount(namespace: string, path: string): Mount | null {
    return this.#mountTable.resolve(namespace, path);
  }

  /** Mounts of all namespaces by type: how many there are, and the first of them, each by its whole path. */
  everyMount(limit: number): Record<MountType, { total: number; some: { name: string; uuid: string }[] }> {
    const every = this.#mountTable.every();
    const of = (type: MountType) => {
      const mounts = every.filter((mount) => mount.type === type);
      const some = mounts.map(({ namespace, path, uuid }) => ({ name: namespace + path, uuid }));
      return { total: mounts.length, some: some.sort((a, b) => (a.name < b.name ? -1 : 1)).slice(0, limit) };
    };
    return { kv: of("kv"), "cloud-b": of("cloud-b") };
  }

  enableMount(namespace: string, path: string, request: MountRequest): Result<Mount> {
    return this.#mounts.enable(namespace, path, request);
  }

  tuneMount(namespace: string, path: string, request: TuneRequest): Result<Mount> {
    return this.#mounts.tune(namespace, path, request);
  }

  /** Takes a mount out of the table at once and has its data destroyed. One that is gone already counts as disabled. */
  async disableMount(namespace: string, path: string): Promise<Result<null>> {
    if (this.#mounts.disable(namespace, path)) await this.outbox.drain("unmount");
    return ok(null);
  }

  // ---- leases ----

  /**
   * A mount is about to give a lease to a token, and hears of its end from now on. Idempotent.
   * @returns a refusal when that has come already
   */
  holdsLeases(accessor: string, mount: string): Result<null> {
    return this.#leaseHolders.hold(this.#tokenStore, accessor, mount, Date.now());
  }

  // ---- snapshots and restores ----

  /** Objects of mounts, also of those that are gone, and those beside the mounts that hold keys. */
  override known(after: string): KnownPage {
    return knownPage(this.sql, KNOWN, after);
  }

  /** See `Restores`. */
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

  // ---- keys ----

  keyStatus(): { term: number; installed: number; pending: number } {
    return this.#terms.status();
  }

  /**
   * Starts a new key term: values written from now on are sealed under fresh data keys, and the older data keys are wrapped
   * anew under the newest master key, everywhere. Reads and writes go on meanwhile.
   */
  async rotateKeys(): Promise<Result<null>> {
    const rotated = guarded(() => this.#terms.rotate(Date.now()));
    if (rotated.ok) await this.outbox.drain("rekey");
    return rotated;
  }

  /** Registers an object beside the mounts that holds data keys, or that no longer does. @returns the current term */
  holdsKeys(kind: KeyHolder, name: string, holds: boolean): number {
    return this.#terms.register(kind, name, holds);
  }

  // ---- inside ----

  protected override measured(): Series[] {
    return [series("sallyport_sealed", this.#keys.sealedBecause() === null ? 0 : 1)];
  }

  protected override frozenDeadline(): number | null {
    return this.#restores.nextDue(Date.now());
  }

  protected override async onFrozenAlarm(): Promise<void> {
    await this.#restores.step();
  }

  protected override ownDeadline(): number | null {
    return this.#tokenStore.nextExpiry();
  }

  protected override async onAlarm(now: number): Promise<void> {
    this.#tokens.expire(now, EXPIRED_PER_ALARM);
    await this.#journal.published();
  }

  /** Makes a fresh deployment usable: its identity, its hash key and, locally, the root token that the developer chose. */
  #setUp(): void {
    if (this.#keys.sealedBecause() !== null) return;
    const root = settings(this.env).DEV_ROOT_TOKEN;
    this.commit(() => {
      if (this.#facts.get("cluster_id") === null) {
        this.#facts.set("cluster_id", crypto.randomUUID());
        this.#terms.begin(Date.now());
      }
      if (this.sql.exec("SELECT 1 FROM sealed WHERE name = 'token-hash-key'").toArray().length === 0) {
        const key = crypto.getRandomValues(new Uint8Array(32));
        this.sql.exec("INSERT INTO sealed VALUES ('token-hash-key', ?)", this.#keys.seal(key, "token-hash-key"));
      }
      if (root !== undefined) this.#bootstrap.local(root);
    });
  }

  /** Answers when the events of a change have had their chance to be on the stream. */
  async #published<T>(change: () => Result<T>): Promise<Result<T>> {
    const result = guarded(change);
    if (!result.ok) return result;
    // Behind the answer: leases of tokens that have ended.
    this.ctx.waitUntil(this.outbox.drain("leases"));
    await this.#journal.published();
    return result;
  }

  #grantsOf(row: TokenRow): Grants {
    return this.#policyStore.grants(row.namespace, policiesOf(row));
  }

  #viewer(accessor: string): Viewer | null {
    const row = this.#tokenStore.byAccessor(accessor, Date.now(), true);
    return row && { grants: this.#grantsOf(row), namespace: row.namespace };
  }

  #stamp(stamp: Stamp, index: number): void {
    if ("token" in stamp) this.#tokenStore.stamp(stamp.token, index);
    else if ("policy" in stamp) this.#policyStore.stamp(...stamp.policy, index);
    else this.#clusterNamespaces.stamp(stamp.clusterNamespace, index);
  }

  async #deliverRekey(lane: string, rows: OutboxRow[]): Promise<void> {
    const [kind = "", name = ""] = lane.split(/ (.*)/s);
    const { term } = JSON.parse(rows.at(-1)?.body ?? "{}") as { term: number };
    await this.#keyHolder(kind as KeyHolder | MountType, name).rekey(term);
  }

  async #deliverUnmount(lane: string): Promise<void> {
    const [type, uuid = ""] = lane.split(" ");
    await (type === "cloud-b" ? credentialEngine(this.env, uuid) : kvStore(this.env, uuid)).destroy();
  }

  async #deliverTokensEnded(mount: string, rows: OutboxRow[]): Promise<void> {
    await credentialEngine(this.env, mount).tokensEnded(rows.map(({ body }) => JSON.parse(body) as string));
  }

  #keyHolder(kind: KeyHolder | MountType, name: string): { rekey(term: number): Promise<void> } {
    if (kind === "kv") return kvStore(this.env, name);
    if (kind === "cloud-b") return credentialEngine(this.env, name);
    if (kind === "identity-issuer") return identityIssuer(this.env);
    if (kind === "node-session") return nodeSession(this.env, name);
    if (kind === "cluster-registry") return clusterRegistry(this.env);
    return kind === "sync-control" ? syncControl(this.env) : syncDestination(this.env, name);
  }

  #tokenHashKey(): Uint8Array {
    if (!this.#hashKey) {
      const [row] = this.sql
        .exec<{ value: ArrayBuffer }>("SELECT value FROM sealed WHERE name = 'token-hash-key'")
        .toArray();
      if (!row) throw new Sealed(this.#keys.sealedBecause() ?? "sealed: the key of the token hashes is missing");
      this.#hashKey = this.#keys.open(row.value, "token-hash-key");
    }
    return this.#hashKey;
  }
}

const KNOWN: readonly Source[] = [
  { kind: "kv-store", from: "SELECT uuid AS name FROM mounts WHERE type = 'kv'" },
  { kind: "kv-store", from: "SELECT uuid AS name FROM ended_mounts WHERE type = 'kv'" },
  { kind: "credential-engine", from: "SELECT uuid AS name FROM mounts WHERE type = 'cloud-b'" },
  { kind: "credential-engine", from: "SELECT uuid AS name FROM ended_mounts WHERE type = 'cloud-b'" },
  { kind: "sync-destination", from: "SELECT name FROM key_holders WHERE kind = 'sync-destination'" },
  { kind: "node-session", from: "SELECT name FROM key_holders WHERE kind = 'node-session'" },
];
