import { type EndedMount, REMAINS } from "../access/ended-mounts.ts";
import { accessMigrations } from "../access/schema.ts";
import { streamScope } from "../access/stream-rights.ts";
import { knownPage, type Source } from "../backup/known.ts";
import { Restores, refusedByRestore } from "../backup/restores.ts";
import type { AccessControlApi, Ask, Grant, KeyHolder } from "../contracts/access-control.ts";
import { destinationKeyOf } from "../contracts/destination.ts";
import type { StreamAnswer, StreamQuestion } from "../contracts/stream-rights.ts";
import { clusterRegistry, credentialEngine, eventLog, kvStore, syncControl } from "../contracts/stubs.ts";
import type { Refusal, Result } from "../lib/result.ts";
import { recordBirth } from "../listings/births.ts";
import { dataKeyMigrations } from "../platform/crypto/data-keys.ts";
import { refuseIfSealed } from "../platform/crypto/refuse-if-sealed.ts";
import { isStorageLost } from "../platform/durable/birth.ts";
import { bornWith, type KnownPage, type ObjectName, textOfObject } from "../platform/durable/object-kinds.ts";
import { type Series, series } from "../platform/observability/metrics/series.ts";
import { settings } from "../platform/settings.ts";
import { accessOutboxTopics } from "./access-deliveries.ts";
import { AccessParts } from "./access-parts.ts";
import { StorageRegistry } from "./births.ts";
import { MountSurface } from "./mount-surface.ts";

const EXPIRED_PER_ALARM = 500;

/**
 * Owner of who may do what: tokens, policies, namespaces and the mount table. One for the deployment.
 * The parts decide; this class, and the surfaces that it builds on, turn locked keys into refusals and wait for the event stream.
 */
export class AccessControl extends MountSurface implements AccessControlApi {
  protected readonly parts: AccessParts;
  readonly #restores: Restores;
  readonly #births: StorageRegistry;

  protected override get kind() {
    return "access-control" as const;
  }

  constructor(ctx: DurableObjectState, env: Env) {
    super(
      ctx,
      env,
      { data_keys: dataKeyMigrations, access: accessMigrations },
      { event: (_lane, rows) => this.parts.journal.deliver(rows), ...accessOutboxTopics(env) },
    );
    this.parts = new AccessParts({
      sql: this.sql,
      outbox: this.outbox,
      commit: (change) => this.commit(change),
      masterKey: () => this.env.MASTER_KEY,
      keepsTokenSecrets: () => settings(this.env).ACL_TOKEN_SECRETS === "on",
      append: (entries) => eventLog(this.env).append("access-control", entries),
      content: {
        endCluster: (id, name) => clusterRegistry(this.env).endNamespace(id, name),
        endSecrets: (id, path) => syncControl(this.env).endNamespace(id, path),
        clearSecrets: (path) => syncControl(this.env).clearNamespace(path),
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
    this.#births = new StorageRegistry(this.sql);
    this.whenResumed(() => this.#setUp());
  }

  // ---- every request ----

  /** Where a path leads that is asked for without a token. */
  locate(namespace: string, path: string): Result<{ namespace: string; path: string }> {
    return this.parts.gatekeeper.locate(namespace, path);
  }

  /** Who calls, what the request may do, and which mount it is about. Counts a use of a token that has only so many. */
  authorize(ask: Ask): Grant | Refusal {
    if (this.isBeingRestored && ask.path !== "sys/snapshot") return refusedByRestore();
    return refuseIfSealed(() => {
      // While sealed nobody is known, which must not look like a bad token.
      this.parts.tokenHashKey();
      return this.parts.gatekeeper.authorize(ask);
    });
  }

  /** Whether the service can work, and its identity. Never refuses. */
  status(): {
    sealedBecause: string | null;
    clusterId: string;
    bootstrapped: boolean;
    /** Objects whose storage was found empty, though it held data before. */
    lost: ObjectName[];
  } {
    return {
      lost: this.#births.lost(),
      sealedBecause: this.parts.keys.sealedBecause(),
      clusterId: this.parts.deploymentState.get("cluster_id") ?? "",
      bootstrapped: this.parts.bootstrap.done,
    };
  }

  /** Who may stream what; any number of questions, answered in order. */
  mayStream(questions: readonly StreamQuestion[]): StreamAnswer[] {
    const now = Date.now();
    let names: readonly string[] | undefined;
    return questions.map((question) => {
      const row = this.parts.tokenStore.byAccessor(question.accessor, now, true);
      const rights = row && this.parts.grantsOf(row).cluster;
      const { clusterNamespaces } = this.parts;
      const existing = () => {
        names ??= clusterNamespaces.names();
        return names;
      };
      const since = clusterNamespaces.since(question.namespace);
      const scope = rights && streamScope(rights, question, existing, since);
      return scope ? { allowed: true, scope, expires: row.expires } : { allowed: false };
    });
  }

  // ---- snapshots and restores ----

  /** Objects of mounts, also of those that are gone, and those beside the mounts that hold keys. */
  override known(after: string): KnownPage {
    return knownPage(this.sql, KNOWN, after);
  }

  override swap(restore: string): Result<null> {
    const swapped = super.swap(restore);
    this.parts.gatekeeper.forget();
    return swapped;
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

  // ---- births ----

  /** Records the storage of an object that begins. @returns the id on record: see `Birth` */
  begins(object: ObjectName, id: string, fresh: boolean): string {
    return this.#births.register(object, id, fresh);
  }

  /** An object that was lost has its storage again. */
  isFound(object: ObjectName): void {
    this.#births.found(object);
  }

  /** Whether there has been an `AccessControl` before is on record in D1: nobody else is always there. */
  protected override register(object: ObjectName, id: string, fresh: boolean): Promise<string> {
    return recordBirth(this.env.LISTINGS, textOfObject(object), id, fresh);
  }

  // ---- keys ----

  keyStatus(): { term: number; installed: number; pending: number } {
    return this.parts.terms.status();
  }

  /**
   * Starts a new key term: values written from now on are sealed under fresh data keys, and the older data keys are wrapped
   * anew under the newest master key, everywhere. Reads and writes go on meanwhile.
   */
  async rotateKeys(): Promise<Result<null>> {
    const rotated = refuseIfSealed(() => this.parts.terms.rotate(Date.now()));
    if (rotated.ok) await this.outbox.drain("rekey");
    return rotated;
  }

  /** Registers an object beside the mounts that holds data keys, or that no longer does. @returns the current term */
  holdsKeys(kind: KeyHolder, name: string, holds: boolean): number {
    return this.parts.terms.register(kind, name, holds);
  }

  /** Registers a destination that is about to be created. Refused when its namespace admits none. Idempotent. */
  admitDestination(name: string): Result<null> {
    const admitted = this.parts.namespaceTree.admit(destinationKeyOf(name).namespace);
    if (admitted.ok) this.parts.terms.register("sync-destination", name, true);
    return admitted;
  }

  // ---- inside ----

  /** Whatever changes here, who is known is asked for anew: by rows alone it is decided who may do what. */
  protected override commit<T>(change: () => T): T {
    try {
      return super.commit(change);
    } finally {
      this.parts.gatekeeper.forget();
    }
  }

  protected override measured(): Series[] {
    return [series("sallyport_sealed", this.parts.keys.sealedBecause() === null ? 0 : 1)];
  }

  protected override frozenDeadline(): number | null {
    return this.#restores.nextDue(Date.now());
  }

  protected override async onFrozenAlarm(): Promise<void> {
    await this.#restores.step();
  }

  protected override ownDeadline(): number | null {
    const { tokenStore, endedMounts, endings } = this.parts;
    const due = [tokenStore.nextExpiry(), endedMounts.nextLook(), endings.nextDue()].filter((at) => at !== null);
    return due.length === 0 ? null : Math.min(...due);
  }

  protected override async onAlarm(now: number): Promise<void> {
    this.parts.tokens.expire(now, EXPIRED_PER_ALARM);
    await Promise.all([this.parts.journal.published(), this.#lookAtEndedMounts(now), this.parts.endings.resume(now)]);
  }

  async #lookAtEndedMounts(now: number): Promise<void> {
    const { endedMounts } = this.parts;
    const look = async ({ type, uuid }: EndedMount) => {
      if (this.outbox.holds("unmount", `${type} ${uuid}`)) return;
      const object = type === "cloud-b" ? credentialEngine(this.env, uuid) : kvStore(this.env, uuid);
      const isOver = await object.holdsOnly(REMAINS[type]).catch((failure: unknown) => {
        if (isStorageLost(failure)) return true;
        throw failure;
      });
      if (!isOver) return;
      this.commit(() => endedMounts.forget(uuid));
      this.#births.forget({ kind: type === "cloud-b" ? "credential-engine" : "kv-store", name: uuid });
    };
    // One that cannot be asked now is looked at again.
    await Promise.allSettled(this.commit(() => endedMounts.takeDue(now)).map(look));
  }

  #setUp(): void {
    if (this.parts.keys.sealedBecause() !== null) return;
    this.commit(() => this.parts.begin(settings(this.env).DEV_ROOT_TOKEN));
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
