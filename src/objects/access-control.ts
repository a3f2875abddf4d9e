import { timingSafeEqual } from "node:crypto";
import type { Ask, Grant } from "../access/authorize.ts";
import {
  type AclPolicy,
  type AclToken,
  aclPolicy,
  aclToken,
  policyDeleted,
  policyUpserted,
  tokenDeleted,
  tokenUpserted,
} from "../access/cluster-acl.ts";
import {
  MOUNT_TYPES,
  type Mount,
  type MountRequest,
  MountTable,
  mountPath,
  type TuneRequest,
} from "../access/mounts.ts";
import { type Namespace, NamespaceTree, namespacePath } from "../access/namespaces.ts";
import { type Capability, capabilitiesFor, mayBelow, ruleFor } from "../access/path-rules.ts";
import { type Grants, type PolicyRow, PolicyStore } from "../access/policy-store.ts";
import { accessMigrations } from "../access/schema.ts";
import { type ClusterTokenRequest, policiesOf, type TokenRequest, type TokenRow } from "../access/token.ts";
import { TokenStore, upperBound } from "../access/token-store.ts";
import { type AuthBlock, Tokens } from "../access/tokens.ts";
import { settings } from "../env.ts";
import type { NewEvent } from "../events/event.ts";
import { withoutUndefined } from "../http/json.ts";
import type { OutboxRow } from "../outbox.ts";
import { ok, type Refusal, type Result, refuse } from "../result.ts";
import { DataKeys, dataKeyMigrations } from "../sealing/data-keys.ts";
import { guarded } from "../sealing/guarded.ts";
import { Sealed } from "../sealing/keyring.ts";
import { StoredObject } from "./stored-object.ts";
import { eventLog, kvStore, syncDestination } from "./stubs.ts";

/** Rows whose indexes the event log fills in once it has taken the event. */
type Stamp = { token: string } | { policy: [namespace: string, name: string] } | { clusterNamespace: string };
type TokenName = { token: string } | { accessor: string };
type Authed = { auth: AuthBlock; warnings: readonly string[] };

export interface ClusterNamespace {
  Name: string;
  Description: string;
  Quota: "";
  Capabilities: null;
  NodePoolConfiguration: null;
  Meta: Record<string, string> | null;
  CreateIndex: number | null;
  ModifyIndex: number | null;
}

const EVENTS_PER_LINE = 100;
const EXPIRED_PER_ALARM = 500;

/** Owner of who may do what: tokens, policies, namespaces and the mount table. One for the deployment. */
export class AccessControl extends StoredObject {
  readonly #keys: DataKeys;
  readonly #tokens: TokenStore;
  readonly #rules: Tokens;
  readonly #policies: PolicyStore;
  readonly #namespaces: NamespaceTree;
  readonly #mounts: MountTable;
  #hashKey: Uint8Array | undefined;

  constructor(ctx: DurableObjectState, env: Env) {
    super(
      ctx,
      env,
      { data_keys: dataKeyMigrations, access: accessMigrations },
      {
        event: (_lane, rows) => this.#deliverEvents(rows),
        unmount: (uuid) => kvStore(this.env, uuid).destroy(),
        rekey: (lane, rows) => this.#deliverRekey(lane, rows),
      },
    );
    this.#keys = new DataKeys(this.sql, "access-control", () => this.env.MASTER_KEY);
    this.#tokens = new TokenStore(this.sql, () => this.#tokenHashKey());
    this.#policies = new PolicyStore(this.sql);
    this.#rules = new Tokens(this.#tokens, this.#policies);
    this.#namespaces = new NamespaceTree(this.sql);
    this.#mounts = new MountTable(this.sql);
    this.#setUp();
  }

  // ---- every request ----

  /** Who calls, what the request may do, and which mount it is about. Counts a use of a token that has only so many. */
  authorize(ask: Ask): Grant | Refusal {
    return guarded(() => {
      const now = Date.now();
      const row = ask.token === null ? null : this.#tokens.find(ask.token, now);
      if (!row) return refuse("denied", ask.token === null ? "permission denied" : "permission denied: invalid token");
      if (row.uses > 0) this.#spend(row);
      const asked = namespacePath(ask.namespace);
      if (!asked.ok) return asked;
      const at = this.#namespaces.split(asked.value, ask.path ?? "");
      if (!this.#namespaces.has(asked.value))
        return refuse("missing", `namespace not found: ${JSON.stringify(asked.value)}`);
      if (!at.namespace.startsWith(row.namespace)) return refuse("denied", "permission denied");
      const grants = this.#grantsOf(row);
      const full = at.namespace + at.path;
      const options = { list: ask.list === true };
      const rule = grants.root ? undefined : ruleFor(grants.paths, full, options);
      const { allowedParameters, deniedParameters, requiredParameters } = rule ?? {};
      return {
        ok: true,
        identity: {
          accessor: row.accessor,
          name: row.name,
          policies: policiesOf(row),
          namespace: row.namespace,
          root: grants.root,
        },
        namespace: at.namespace,
        path: at.path,
        capabilities: grants.root ? ["root"] : capabilitiesFor(grants.paths, full, options),
        constraints: allowedParameters || deniedParameters || requiredParameters ? { ...rule } : null,
        mount: ask.path === null ? null : this.#mounts.resolve(at.namespace, at.path),
        cluster: grants.cluster,
        cacheable: row.uses === 0,
      };
    });
  }

  /** Whether the service can work, and its identity. Never refuses. */
  status(): { sealedBecause: string | null; clusterId: string; bootstrapped: boolean; tokens: number } {
    return {
      sealedBecause: this.#keys.sealedBecause(),
      clusterId: this.#fact("cluster_id") ?? "",
      bootstrapped: this.#fact("bootstrapped") !== null,
      tokens: this.#tokens.count(),
    };
  }

  /** What a token may do on each path; the caller's own when `target` is its accessor. */
  capabilities(
    target: TokenName,
    namespace: string,
    paths: readonly string[],
  ): Result<Record<string, (Capability | "root")[]>> {
    return guarded(() => {
      const row = this.#named(target);
      if (!row.ok) return row;
      const grants = this.#grantsOf(row.value);
      const entries = paths.map((path): [string, (Capability | "root")[]] => {
        if (grants.root) return [path, ["root"]];
        return [path, capabilitiesFor(grants.paths, namespace + path, { list: path.endsWith("/") })];
      });
      return ok(Object.fromEntries(entries));
    });
  }

  // ---- tokens ----

  async createToken(
    caller: string,
    namespace: string,
    path: string,
    request: TokenRequest,
    orphan: boolean,
  ): Promise<Result<Authed>> {
    const result = guarded((): Result<Authed> => {
      const now = Date.now();
      const parent = this.#tokens.byAccessor(caller, now);
      if (!parent) return refuse("denied", "permission denied");
      const draft = this.#rules.draft(parent, namespace, path, request, orphan, now);
      if (!draft.ok) return draft;
      const { secret, token, warnings } = draft.value;
      const row = this.commit(() => {
        const inserted = this.#tokens.insert(secret, token);
        this.#emit([tokenUpserted(inserted)], [{ token: inserted.accessor }]);
        return inserted;
      });
      return ok({ auth: this.#rules.authBlock(row, secret, now), warnings });
    });
    await this.outbox.drain("event");
    return result;
  }

  lookupToken(target: TokenName): Result<Record<string, unknown>> {
    return guarded(() => {
      const row = this.#named(target);
      return row.ok ? ok(this.#rules.view(row.value, "token" in target ? target.token : "", Date.now())) : row;
    });
  }

  async renewToken(target: TokenName, increment: number): Promise<Result<Authed>> {
    const result = guarded((): Result<Authed> => {
      const now = Date.now();
      const row = this.#named(target);
      if (!row.ok) return "token" in target ? refuse("invalid", "token not found") : row;
      const renewed = this.#rules.renew(row.value, increment, now);
      if (!renewed.ok) return renewed;
      this.commit(() => {
        this.#tokens.update(renewed.value.row);
        this.#emit([tokenUpserted(renewed.value.row)], [{ token: renewed.value.row.accessor }]);
      });
      const secret = "token" in target ? target.token : "";
      return ok({ auth: this.#rules.authBlock(renewed.value.row, secret, now), warnings: renewed.value.warnings });
    });
    await this.outbox.drain("event");
    return result;
  }

  /** Ends a token at once, with all its descendants, or alone (`keepChildren`). An unknown token counts as revoked. */
  async revokeToken(target: TokenName, keepChildren = false): Promise<Result<null>> {
    const result = guarded((): Result<null> => {
      const row = this.#named(target);
      if (!row.ok) return "token" in target ? ok(null) : row;
      this.commit(() => this.#revoke(row.value, keepChildren));
      return ok(null);
    });
    await this.outbox.drain("event");
    return result;
  }

  accessors(after: string, limit: number): string[] {
    return this.#tokens.page(Date.now(), { after, limit }).map((row) => row.accessor);
  }

  // ---- tokens as areas C and D show them ----

  async bootstrap(secret: string | null): Promise<Result<AclToken>> {
    const wanted = settings(this.env).BOOTSTRAP_SECRET;
    return guarded((): Result<AclToken> => {
      const done = this.#fact("bootstrapped");
      if (done !== null) return refuse("invalid", `ACL bootstrap already done (reset index: ${done})`);
      if (wanted === undefined)
        return refuse("denied", "ACL bootstrap needs the setting BOOTSTRAP_SECRET on the service");
      if (secret === null || !sameText(secret, wanted)) {
        return refuse("denied", "BootstrapSecret: does not match the setting BOOTSTRAP_SECRET");
      }
      const token = crypto.randomUUID();
      const row = this.commit(() => this.#insertRoot(token, "Bootstrap Token", "cluster", "v1/acl/bootstrap"));
      return ok(aclToken(row, token));
    });
  }

  async createClusterToken(request: ClusterTokenRequest): Promise<Result<AclToken>> {
    const secret = crypto.randomUUID();
    const accessor = guarded((): Result<string> => {
      const draft = this.#rules.draftCluster(request, "v1/acl/token", Date.now());
      if (!draft.ok) return draft;
      return ok(
        this.commit(() => {
          const row = this.#tokens.insert(secret, draft.value);
          this.#emit([tokenUpserted(row)], [{ token: row.accessor }]);
          return row.accessor;
        }),
      );
    });
    if (!accessor.ok) return accessor;
    await this.outbox.drain("event");
    return this.readClusterToken(accessor.value, secret);
  }

  async updateClusterToken(accessor: string, request: ClusterTokenRequest): Promise<Result<AclToken>> {
    const written = guarded((): Result<null> => {
      const row = this.#tokens.byAccessor(accessor, Date.now());
      if (!row) return refuse("invalid", `cannot find token ${accessor}`);
      const policies = this.#rules.clusterPolicies(request);
      if (!policies.ok) return policies;
      const next = {
        ...row,
        name: request.Name,
        policies: JSON.stringify(policies.value),
        global: request.Global ? 1 : 0,
      };
      this.commit(() => {
        this.#tokens.update(next);
        this.#emit([tokenUpserted(next)], [{ token: accessor }]);
      });
      return ok(null);
    });
    if (!written.ok) return written;
    await this.outbox.drain("event");
    return this.readClusterToken(accessor);
  }

  readClusterToken(accessor: string, secret = ""): Result<AclToken> {
    const row = this.#tokens.byAccessor(accessor, Date.now());
    return row ? ok(aclToken(row, secret)) : refuse("missing", "ACL token not found");
  }

  /** One page of tokens by accessor; `next` names where the following page starts. */
  listClusterTokens(prefix: string, after: string, limit: number): { tokens: AclToken[]; next: string | null } {
    const rows = this.#tokens.page(Date.now(), { after, prefix, limit: limit + 1 });
    const next = rows.length > limit ? (rows[limit - 1]?.accessor ?? null) : null;
    return { tokens: rows.slice(0, limit).map((row) => aclToken(row)), next };
  }

  async deleteClusterToken(accessor: string): Promise<Result<null>> {
    if (!this.#tokens.byAccessor(accessor, Date.now())) {
      return refuse("invalid", `Cannot delete nonexistent tokens: ${accessor}`);
    }
    return this.revokeToken({ accessor });
  }

  // ---- policies ----

  async putPolicy(namespace: string, name: string, text: string, description = ""): Promise<Result<null>> {
    const result = guarded((): Result<null> => {
      const checked = this.#policies.check(name, text);
      if (!checked.ok) return checked;
      this.commit(() => {
        this.#policies.put(namespace, name, text, checked.value, description);
        const row = this.#policies.find(namespace, name) as PolicyRow;
        this.#emit([policyUpserted(row)], [{ policy: [namespace, name] }]);
      });
      return ok(null);
    });
    await this.outbox.drain("event");
    return result;
  }

  /** The policy's text, or "missing". */
  readPolicy(namespace: string, name: string): Result<{ name: string; text: string }> {
    if (name === "root" && namespace === "") return ok({ name, text: "" });
    const row = this.#policies.find(namespace, name);
    return row ? ok({ name, text: row.text }) : refuse("missing");
  }

  policyNames(namespace: string): string[] {
    return this.#policies.names(namespace);
  }

  /** The policies of areas C and D: those of the root namespace, by name. */
  clusterPolicies(names: readonly string[] | null, prefix: string): AclPolicy[] {
    return (names ?? this.#policies.names(""))
      .filter((name) => name.startsWith(prefix) && name !== "root")
      .flatMap((name) => this.#policies.find("", name) ?? [])
      .map(aclPolicy);
  }

  async deletePolicy(namespace: string, name: string): Promise<Result<{ existed: boolean }>> {
    if (name === "root" || name === "default") return refuse("invalid", `cannot delete "${name}" policy`);
    const row = this.#policies.find(namespace, name);
    if (row) {
      this.commit(() => {
        this.#policies.delete(namespace, name);
        this.#emit([policyDeleted(row)], []);
      });
      await this.outbox.drain("event");
    }
    return ok({ existed: row !== null });
  }

  // ---- namespaces ----

  listNamespaces(parent: string): Namespace[] {
    return this.#namespaces.children(parent);
  }

  readNamespace(path: string): Result<Namespace> {
    const namespace = this.#namespaces.get(path);
    return namespace ? ok(namespace) : refuse("missing");
  }

  putNamespace(parent: string, name: string, customMetadata: Record<string, string>): Result<Namespace> {
    const path = this.#namespaces.check(parent, name);
    if (!path.ok) return path;
    const inTheWay = this.#mounts.resolve(parent, path.value.slice(parent.length));
    if (inTheWay) return refuse("invalid", `namespace: path is already in use at ${inTheWay.path}`);
    return ok(this.commit(() => this.#namespaces.put(path.value, customMetadata, Date.now())));
  }

  /** Deletes an empty namespace with its policies and tokens. One that is gone already counts as deleted. */
  async deleteNamespace(path: string): Promise<Result<null>> {
    if (!this.#namespaces.get(path)) return ok(null);
    if (this.#namespaces.children(path).length > 0) {
      return refuse("invalid", `child namespaces exist under path ${JSON.stringify(path)}, cannot remove`);
    }
    const mounts = this.#mounts.list(path);
    if (mounts.length > 0) {
      return refuse(
        "in-use",
        `mounts exist in namespace ${JSON.stringify(path)}, cannot remove: ${mounts.map((mount) => mount.path).join(", ")}`,
      );
    }
    this.commit(() => {
      const tokens = this.#tokens.ofNamespace(path);
      this.#tokens.delete(tokens);
      this.#emit(tokens.map(tokenDeleted), []);
      for (const name of this.#policies.names(path)) this.#policies.delete(path, name);
      this.#namespaces.delete(path);
    });
    await this.outbox.drain("event");
    return ok(null);
  }

  listClusterNamespaces(prefix: string): ClusterNamespace[] {
    return this.sql
      .exec<ClusterNamespaceRow>(
        "SELECT * FROM cluster_namespaces WHERE name >= ? AND name < ? ORDER BY name",
        prefix,
        upperBound(prefix),
      )
      .toArray()
      .map(clusterNamespace);
  }

  async putClusterNamespace(
    name: string,
    description: string,
    meta: Record<string, string> | null,
  ): Promise<Result<null>> {
    if (!/^[a-zA-Z0-9-]{1,128}$/.test(name)) {
      return refuse(
        "invalid",
        `invalid name ${JSON.stringify(name.slice(0, 130))}. Must match regex ^[a-zA-Z0-9-]{1,128}$`,
      );
    }
    if (description.length > 256) return refuse("invalid", "description longer than 256");
    this.commit(() => {
      this.sql.exec(
        `INSERT INTO cluster_namespaces (name, description, meta) VALUES (?, ?, ?)
         ON CONFLICT (name) DO UPDATE SET description = excluded.description, meta = excluded.meta, modify_index = NULL`,
        name,
        description,
        meta === null ? null : JSON.stringify(meta),
      );
      this.#emit([], [{ clusterNamespace: name }]);
    });
    await this.outbox.drain("event");
    return ok(null);
  }

  deleteClusterNamespace(name: string): Result<null> {
    if (name === "default") return refuse("invalid", `namespace "default" can not be deleted`);
    if (this.sql.exec("SELECT 1 FROM cluster_namespaces WHERE name = ?", name).toArray().length === 0) {
      return refuse("missing", `namespace ${JSON.stringify(name)} not found`);
    }
    this.commit(() => this.sql.exec("DELETE FROM cluster_namespaces WHERE name = ?", name));
    return ok(null);
  }

  // ---- mounts ----

  listMounts(namespace: string): Mount[] {
    return this.#mounts.list(namespace);
  }

  /** The mounts on which a token may do anything at all. */
  visibleMounts(accessor: string, namespace: string): Mount[] {
    const row = this.#tokens.byAccessor(accessor, Date.now());
    if (!row) return [];
    const grants = this.#grantsOf(row);
    return this.#mounts
      .list(namespace)
      .filter((mount) => grants.root || mayBelow(grants.paths, namespace + mount.path));
  }

  readMount(namespace: string, path: string): Result<Mount> {
    const named = mountPath(path);
    const mount = named.ok ? this.#mounts.get(namespace, named.value) : null;
    return mount ? ok(mount) : refuse("invalid", `No secret engine mount at ${path.replace(/\/*$/, "/")}`);
  }

  /** The mount of a namespace that a path falls under. */
  findMount(namespace: string, path: string): Mount | null {
    return this.#mounts.resolve(namespace, path);
  }

  enableMount(namespace: string, path: string, request: MountRequest): Result<Mount> {
    const named = mountPath(path);
    if (!named.ok) return named;
    const type = request.type === "kv-v2" ? "kv" : request.type;
    const known = MOUNT_TYPES.find((name) => name === type);
    if (!known) return refuse("invalid", `plugin not found in the catalog: ${type.slice(0, 64)}`);
    const version = request.options?.["version"] ?? (request.type === "kv-v2" ? "2" : undefined);
    if (version !== "2") {
      return refuse(
        "invalid",
        'options.version: only version 2 of the kv engine is offered; mount it with {"version": "2"}',
      );
    }
    const free = this.#mounts.conflict(namespace, named.value, (prefix) => this.#namespaces.has(prefix));
    if (!free.ok) return free;
    const options = { ...request.options, version };
    return ok(
      this.commit(() => this.#mounts.insert(namespace, named.value, known, { ...request, options }, Date.now())),
    );
  }

  tuneMount(namespace: string, path: string, request: TuneRequest): Result<Mount> {
    const mount = this.readMount(namespace, path);
    if (!mount.ok) return mount;
    const { description, options, ...config } = request;
    const version = options?.["version"];
    if (version !== undefined && version !== "2") return refuse("invalid", "options.version: cannot be changed from 2");
    const changed: Mount = {
      ...mount.value,
      description: description ?? mount.value.description,
      options: { ...mount.value.options, ...options },
      config: { ...mount.value.config, ...withoutUndefined(config) },
    };
    this.commit(() => this.#mounts.update(changed));
    return ok(changed);
  }

  /** Takes a mount out of the table at once and has its data destroyed. One that is gone already counts as disabled. */
  async disableMount(namespace: string, path: string): Promise<Result<null>> {
    const mount = this.readMount(namespace, path);
    if (!mount.ok) return ok(null);
    this.commit(() => {
      this.#mounts.delete(mount.value.uuid);
      this.outbox.enlist("unmount", mount.value.uuid, null);
    });
    await this.outbox.drain("unmount");
    return ok(null);
  }

  // ---- keys ----

  keyStatus(): { term: number; installed: number; pending: number } {
    const pending = this.sql.exec<{ n: number }>("SELECT count(*) AS n FROM outbox WHERE topic = 'rekey'").one().n;
    return { term: this.#term(), installed: Number(this.#fact("term_installed")), pending };
  }

  /**
   * Starts a new key term: values written from now on are sealed under fresh data keys, and the older data keys are wrapped
   * anew under the newest master key, everywhere. Reads and writes go on meanwhile.
   */
  async rotateKeys(): Promise<Result<null>> {
    const rotated = guarded((): Result<null> => {
      const term = this.#term() + 1;
      const now = Date.now();
      this.commit(() => {
        this.#keys.rotate(term, now);
        this.#setFact("term", String(term));
        this.#setFact("term_installed", String(now));
        for (const mount of this.#mounts.every()) this.outbox.enlistLatest("rekey", `kv ${mount.uuid}`, { term });
        for (const { kind, name } of this.sql.exec<{ kind: string; name: string }>(
          "SELECT kind, name FROM key_holders",
        )) {
          this.outbox.enlistLatest("rekey", `${kind} ${name}`, { term });
        }
      });
      return ok(null);
    });
    if (rotated.ok) await this.outbox.drain("rekey");
    return rotated;
  }

  /** Registers an object beside the mounts that holds data keys. @returns the current term */
  holdsKeys(kind: "sync-destination", name: string): number {
    this.commit(() => this.sql.exec("INSERT OR IGNORE INTO key_holders (kind, name) VALUES (?, ?)", kind, name));
    return this.#term();
  }

  // ---- inside ----

  protected override ownDeadline(): number | null {
    return this.#tokens.nextExpiry();
  }

  protected override async onAlarm(now: number): Promise<void> {
    const expired = this.#tokens.expired(now, EXPIRED_PER_ALARM);
    if (expired.length === 0) return;
    this.commit(() => {
      for (const row of expired) this.#revoke(row, false);
    });
    await this.outbox.drain("event");
  }

  /** Makes a fresh deployment usable: its identity, its hash key and, locally, the root token that the developer chose. */
  #setUp(): void {
    if (this.#keys.sealedBecause() !== null) return;
    const root = settings(this.env).DEV_ROOT_TOKEN;
    this.commit(() => {
      if (this.#fact("cluster_id") === null) {
        this.#setFact("cluster_id", crypto.randomUUID());
        this.#setFact("term", "1");
        this.#setFact("term_installed", String(Date.now()));
      }
      if (this.sql.exec("SELECT 1 FROM sealed WHERE name = 'token-hash-key'").toArray().length === 0) {
        const key = crypto.getRandomValues(new Uint8Array(32));
        this.sql.exec("INSERT INTO sealed VALUES ('token-hash-key', ?)", this.#keys.seal(key, "token-hash-key"));
      }
      if (root !== undefined && this.#fact("bootstrapped") === null)
        this.#insertRoot(root, "root", "secrets", "auth/token/root");
    });
  }

  #insertRoot(secret: string, name: string, family: "secrets" | "cluster", path: string): TokenRow {
    const row = this.#tokens.insert(secret, {
      parent: null,
      namespace: "",
      policies: '["root"]',
      name,
      meta: null,
      path,
      family,
      global: 1,
      created: Date.now(),
      expires: null,
      renewed: null,
      ttl: 0,
      explicit_max_ttl: 0,
      period: 0,
      uses: 0,
      orphan: 1,
      renewable: 0,
    });
    // Upstream sends no event for a bootstrap, so these indexes are set by hand.
    this.#tokens.stamp(row.accessor, 1);
    this.#setFact("bootstrapped", "1");
    return { ...row, create_index: 1, modify_index: 1 };
  }

  #spend(row: TokenRow): void {
    this.commit(() => (row.uses === 1 ? this.#revoke(row, false) : this.#tokens.spend(row)));
  }

  #revoke(row: TokenRow, keepChildren: boolean): void {
    const gone = keepChildren ? [row] : this.#tokens.family(row.hash);
    if (keepChildren) this.#tokens.orphanChildren(row.hash);
    this.#tokens.delete(gone);
    this.#emit(gone.map(tokenDeleted), []);
  }

  #named(target: TokenName): Result<TokenRow> {
    const now = Date.now();
    if ("token" in target) {
      const row = this.#tokens.find(target.token, now);
      return row ? ok(row) : refuse("denied", "bad token");
    }
    const row = this.#tokens.byAccessor(target.accessor, now);
    return row ? ok(row) : refuse("invalid", "invalid accessor");
  }

  #grantsOf(row: TokenRow): Grants {
    return this.#policies.grants(row.namespace, policiesOf(row));
  }

  #emit(events: readonly NewEvent[], stamps: readonly Stamp[]): void {
    // A revocation may take thousands of tokens along; no line of the stream grows with them.
    const lines = Math.max(1, Math.ceil(events.length / EVENTS_PER_LINE));
    for (let line = 0; line < lines; line++) {
      const some = events.slice(line * EVENTS_PER_LINE, (line + 1) * EVENTS_PER_LINE);
      if (some.length > 0 || stamps.length > 0) this.outbox.enlist("event", "log", { events: some, stamps });
    }
  }

  async #deliverEvents(rows: OutboxRow[]): Promise<() => void> {
    const bodies = rows.map((row) => JSON.parse(row.body) as { events: NewEvent[]; stamps: Stamp[] });
    const indexes = await eventLog(this.env).append(
      "access-control",
      rows.map((row, position) => ({ seq: row.seq, events: bodies[position]?.events ?? [] })),
    );
    return () => {
      bodies.forEach(({ stamps }, position) => {
        for (const stamp of stamps) this.#stamp(stamp, indexes[position] ?? 0);
      });
    };
  }

  #stamp(stamp: Stamp, index: number): void {
    if ("token" in stamp) this.#tokens.stamp(stamp.token, index);
    else if ("policy" in stamp) this.#policies.stamp(stamp.policy[0], stamp.policy[1], index);
    else {
      this.sql.exec(
        "UPDATE cluster_namespaces SET create_index = ifnull(create_index, ?), modify_index = ? WHERE name = ?",
        index,
        index,
        stamp.clusterNamespace,
      );
    }
  }

  async #deliverRekey(lane: string, rows: OutboxRow[]): Promise<void> {
    const [kind = "", name = ""] = lane.split(/ (.*)/s);
    const { term } = JSON.parse(rows.at(-1)?.body ?? "{}") as { term: number };
    const holder = kind === "kv" ? kvStore(this.env, name) : syncDestination(this.env, name);
    await holder.rekey(term);
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

  #term(): number {
    return Number(this.#fact("term") ?? 1);
  }

  #fact(name: string): string | null {
    return this.sql.exec<{ value: string }>("SELECT value FROM facts WHERE name = ?", name).toArray()[0]?.value ?? null;
  }

  #setFact(name: string, value: string): void {
    this.sql.exec(
      "INSERT INTO facts VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
      name,
      value,
    );
  }
}

interface ClusterNamespaceRow extends Record<string, SqlStorageValue> {
  name: string;
  description: string;
  meta: string | null;
  create_index: number | null;
  modify_index: number | null;
}

const clusterNamespace = (row: ClusterNamespaceRow): ClusterNamespace => ({
  Name: row.name,
  Description: row.description,
  Quota: "",
  Capabilities: null,
  NodePoolConfiguration: null,
  Meta: row.meta === null ? null : (JSON.parse(row.meta) as Record<string, string>),
  CreateIndex: row.create_index,
  ModifyIndex: row.modify_index,
});

const sameText = (a: string, b: string): boolean =>
  Buffer.byteLength(a) === Buffer.byteLength(b) && timingSafeEqual(Buffer.from(a), Buffer.from(b));
