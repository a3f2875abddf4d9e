import type { RuleDefinition, RuleMount, Unmatched } from "../../contracts/sync-rules.ts";
import type { SecretRef } from "../../contracts/sync-tasks.ts";
import { Memo } from "../../platform/durable/memo.ts";
import type { ObjectContext } from "../../platform/durable/object-context.ts";
import { textOf, warn } from "../../platform/observability/log.ts";
import { kvStore } from "../../rpc/stubs.ts";
import { announceAssociation } from "../associations/announcements.ts";
import { type Associations, associationId, secretOf } from "../associations/associations.ts";
import type { DesiredState } from "../associations/desired-state.ts";
import type { DestinationRecord, Found } from "../configuration/destination-record.ts";
import type { AssociationRow } from "../schema.ts";
import type { SecretChanges } from "../secret-changes.ts";
import { mismatch, removalsAllowed } from "./rule.ts";
import { definitionOf, namingOf } from "./rule-naming.ts";
import type { MatchRow, RuleRow, RuleStore } from "./rule-store.ts";

const SCANNED = 500;
const APPLIED = 50;
const REMOVED = 200;
/** Removals are counted by the hour. */
const WINDOW_MS = 3_600_000;
/** Pause of all rules after a mount or the queue has refused, and no other rule has work. */
const RETRY_MS = 10_000;
const RULES = "rules";

/**
 * Evaluates rules and applies them, a page at a time. Owned by `SyncDestination`, driven by its alarm, by puts, and by
 * reports of mounts.
 *
 *     put ──► scanning ──all compared──► active ◄──► (changes of secrets)
 *                 │                        │  too many removals
 *                 │ too many match         ▼
 *                 ▼                 confirmation_required ──confirm──► active
 *           limit_exceeded                  deleting ──all removed──► (none)
 *
 * A secret that stops matching keeps its object until its removal is allowed: an hour's removals beyond `max_removals`
 * wait for a confirmation of exactly their plan. Nothing is removed while secrets are still compared.
 */
export class RuleWork {
  /** Whether some rule has work left. */
  readonly #isPending: Memo<boolean>;
  /** Not before (ms since 1970), after a refusal. */
  #notBefore = 0;
  #running: Promise<void> | null = null;
  /** Matches that a mount has reported since the last page, by rule. A restart applies them in their order. */
  readonly #reported = new Map<string, string[]>();

  constructor(
    private readonly object: ObjectContext,
    private readonly store: RuleStore,
    private readonly record: DestinationRecord,
    private readonly associations: Associations,
    private readonly desiredState: DesiredState,
    private readonly changes: SecretChanges,
  ) {
    this.#isPending = new Memo(() => store.all().some((row) => this.#hasWork(row)));
  }

  /** Drops what is cached of rows after a rollback, or a change of them. */
  forget(): void {
    this.#isPending.forget();
  }

  /** When work on rules is due (ms since 1970); null for none. */
  due(): number | null {
    return this.#isPending.get() ? this.#notBefore : null;
  }

  /** Stores a rule and begins its evaluation of all secrets. Called inside a transaction. */
  begin(name: string, mount: RuleMount, definition: RuleDefinition): void {
    const before = this.store.find(name);
    const was = before && definitionOf(before);
    this.store.put(name, mount, definition);
    const isSame = was && AGAIN.every((field) => JSON.stringify(was[field]) === JSON.stringify(definition[field]));
    if (!isSame) this.store.setAllAgain(name);
    if (before && before.priority !== definition.priority) this.store.setSharedAgain(before);
    this.#announce(mount.uuid);
    this.forget();
  }

  /** Allows the removals that wait. Called inside a transaction. */
  confirm(row: RuleRow, now: number): void {
    const { leaving } = this.store.counts(row);
    this.store.set(row.name, { status: "active", problem: null, window: now, removed: -leaving });
    this.store.confirmed(row.name, leaving);
    this.forget();
  }

  /** Begins the end of a rule. Called inside a transaction. */
  delete(row: RuleRow, onUnmatch: Unmatched | null): void {
    const definition = definitionOf(row);
    const ends = onUnmatch === null ? definition : { ...definition, on_unmatch: onUnmatch };
    this.store.set(row.name, {
      status: "deleting",
      definition: JSON.stringify(ends),
      generation: row.generation + 1,
    });
    this.#announce(row.mount_uuid);
    this.forget();
  }

  /** Ends all rules at once, as the destination is deleted. Called inside a transaction. */
  clear(): void {
    for (const { mount_uuid } of this.store.all()) this.#announce(mount_uuid);
    this.store.clear();
    this.forget();
  }

  /** Whether a rule wants an association that requests no longer want; the rule then sets it again. Called inside a transaction. */
  takesOver(row: AssociationRow): boolean {
    this.forget();
    return this.store.takesOver(row);
  }

  /** Delivers the outbox topic `rules`: tells a mount which of its paths rules here may match. */
  async deliver(mountUuid: string): Promise<void> {
    const { env, name } = this.object;
    const rules = this.store.ofMount(mountUuid).filter(({ status }) => status !== "deleting");
    const prefixes = rules.map((row) => definitionOf(row).path_prefix);
    await kvStore(env, mountUuid).follow(name, [...new Set(prefixes)]);
  }

  /** A mount reports secrets that were made, changed in their metadata, or removed. `""` stands for all. */
  async matching(mountUuid: string, paths: readonly string[]): Promise<void> {
    if (this.store.ofMount(mountUuid).length === 0) return;
    if (paths.includes("")) {
      this.object.commit(() => {
        for (const row of this.store.ofMount(mountUuid)) if (isFollowing(row)) this.#rescan(row);
      });
    } else {
      const found = await kvStore(this.object.env, mountUuid).surveyOf(paths);
      this.object.commit(() => {
        for (const row of this.store.ofMount(mountUuid).filter(isFollowing)) {
          const definition = definitionOf(row);
          const reported = this.#reported.get(row.name) ?? [];
          this.#reported.set(row.name, reported);
          for (const [index, path] of paths.entries()) {
            const candidate = found[index] ?? null;
            if (candidate && mismatch(definition, candidate) === null) {
              this.store.match(row, path);
              reported.push(path);
            } else this.store.unmatch(row, path);
          }
          if (this.#limit(row, definition) || row.status !== "confirmation_required") continue;
          // The removals that wait are others now: they are judged again.
          this.store.set(row.name, { status: "active", problem: null });
        }
        this.forget();
      });
    }
    this.object.waitUntil(this.run(Date.now() + RETRY_MS));
  }

  /** Works until nothing is left, a mount or the queue refuses, or `deadline` (ms since 1970). One run at a time. */
  run(deadline: number): Promise<void> {
    this.#running ??= this.#run(deadline).finally(() => {
      this.#running = null;
    });
    return this.#running;
  }

  /** The removal of the object of a secret that no longer matches. */
  removal({ on_unmatch: given }: RuleDefinition, { row }: Found): Unmatched {
    return given ?? (row.deletion_policy === "retain" ? "retain" : "delete");
  }

  async #run(deadline: number): Promise<void> {
    // Rules whose mount or queue refuses, which keep no other rule waiting.
    const waiting = new Set<string>();
    let worked = true;
    while (worked && Date.now() < deadline) {
      worked = false;
      for (const { name } of this.store.all()) {
        const row = this.store.find(name);
        if (row && !waiting.has(name) && this.#hasWork(row)) {
          if (await this.#tryStep(row)) worked = true;
          else waiting.add(name);
        }
        // Other calls of the object have their turn between pages.
        await scheduler.wait(0);
      }
    }
    if (waiting.size > 0 && !worked) this.#notBefore = Date.now() + RETRY_MS;
  }

  async #tryStep(row: RuleRow): Promise<boolean> {
    try {
      return await this.#step(row);
    } catch (failure) {
      warn("rule-failed", { destination: this.object.name, because: textOf(failure) });
      return false;
    }
  }

  #hasWork(row: RuleRow): boolean {
    if (row.status === "scanning" || row.status === "deleting") return true;
    if (row.status !== "active") return false;
    return this.store.unapplied(row, 1).length > 0 || this.store.leaving(row, 1).length > 0;
  }

  /** One page of work. @returns whether more may follow at once */
  async #step(row: RuleRow): Promise<boolean> {
    if (row.status === "scanning") return this.#scan(row);
    if (this.store.leaving(row, 1).length > 0) return this.#removeSome(row);
    if (row.status === "deleting") {
      this.#commit(() => this.store.drop(row.name));
      return true;
    }
    return this.#applySome(row);
  }

  async #scan(row: RuleRow): Promise<boolean> {
    const { outbox, env } = this.object;
    // Changes must be reported before they can be missed.
    if (outbox.holds(RULES, row.mount_uuid)) {
      await outbox.drain(RULES, row.mount_uuid);
      if (outbox.holds(RULES, row.mount_uuid)) return false;
    }
    if (row.cursor === "" && this.#resumeSome(row)) return true;
    const definition = definitionOf(row);
    const page = await kvStore(env, row.mount_uuid).survey(definition.path_prefix, row.cursor, SCANNED);
    this.#commit(() => {
      const current = this.store.find(row.name);
      if (current?.generation !== row.generation || current.cursor !== row.cursor || current.status !== row.status)
        return;
      if (page.gone) {
        this.store.set(row.name, { status: "error", problem: "the mount was deleted" });
        return;
      }
      for (const candidate of page.candidates) {
        if (mismatch(definition, candidate) === null) this.store.match(current, candidate.path);
      }
      if (this.#limit(current, definition)) return;
      if (page.next !== null) this.store.set(row.name, { cursor: page.next });
      else {
        this.store.forgetUnset(current);
        this.store.set(row.name, { status: "active", cursor: "", evaluated: Date.now(), problem: null });
      }
    });
    return true;
  }

  /** Queues pushes that have waited while the rule was paused. @returns whether there were some */
  #resumeSome(row: RuleRow): boolean {
    const resting = this.store.resting(row, SCANNED);
    if (resting.length === 0) return false;
    this.#commit(() => {
      for (const association of resting) this.associations.resume(association, Date.now());
    });
    this.changes.wake();
    return true;
  }

  /** Ends the growth of a rule with too many matches, or begins it again. @returns whether there are too many */
  #limit(row: RuleRow, { max_secrets: most }: RuleDefinition): boolean {
    if (this.store.matched(row) <= most) {
      if (row.status === "limit_exceeded") this.#rescan(row);
      return false;
    }
    const problem = `more than ${most} secrets match: raise max_secrets, or match fewer`;
    this.store.set(row.name, { status: "limit_exceeded", problem });
    return true;
  }

  #rescan(row: RuleRow): void {
    this.store.set(row.name, { status: "scanning", cursor: "", generation: row.generation + 1, problem: null });
    this.forget();
  }

  #removeSome(row: RuleRow): boolean {
    const now = Date.now();
    const found = this.record.find();
    if (!found) return false;
    return this.#commit(() => {
      const definition = definitionOf(row);
      const isNew = now - row.window >= WINDOW_MS;
      const removed = isNew ? 0 : row.removed;
      if (row.status !== "deleting" && this.#stopRemovals(row, definition, removed)) return true;
      const page = this.store.leaving(row, REMOVED);
      for (const match of page) this.#release(row, match, this.removal(definition, found), now);
      this.store.set(row.name, { removed: removed + page.length, ...(isNew && { window: now }) });
      return true;
    });
  }

  /** Has too many removals wait for a confirmation. @param removed within the hour @returns whether they are too many */
  #stopRemovals(row: RuleRow, definition: RuleDefinition, removed: number): boolean {
    const { applied, leaving } = this.store.counts(row);
    if (removed + leaving <= removalsAllowed(definition, applied)) return false;
    const problem = `${leaving} secrets no longer match; confirm their removal`;
    this.store.set(row.name, { status: "confirmation_required", problem });
    return true;
  }

  /** Ends a match. The association stays while another origin wants it. */
  #release(row: RuleRow, { secret_name }: MatchRow, removal: Unmatched, now: number): void {
    this.store.remove(row.name, secret_name);
    const id = associationId({ mountAccessor: row.mount_accessor, secretName: secret_name });
    const association = this.associations.find(id);
    if (!association || association.manual === 1) return;
    const [next] = this.store.origins(row.mount_uuid, secret_name);
    if (next) this.store.again(next.name, secret_name);
    else if (removal === "delete") this.associations.setDesired(association, "absent", now, "many");
    else if (removal === "hold") this.associations.hold(association, now);
    else {
      this.associations.release(association, now);
      announceAssociation(this.object.outbox, secretOf(association));
    }
  }

  /** Sets associations of matches, unless a request has set them, or a rule that comes first. */
  async #applySome(row: RuleRow): Promise<boolean> {
    const found = this.record.find();
    if (!found) return false;
    const { outbox } = this.object;
    const names = this.#nextUnapplied(row);
    const page = await this.desiredState.setPage({
      secrets: names.map((secret_name) => secretOf({ ...row, secret_name })),
      naming: namingOf(found, definitionOf(row)),
      manual: false,
      prepare: (secret) => this.#prepare(row, secret),
      settle: ({ secretName }, problem) => {
        this.store.setApplied(row, secretName, problem);
        this.forget();
      },
    });
    this.changes.wake();
    // Before the next page: a change is reported only once the mount knows of the watch.
    await outbox.drain("watch");
    this.object.waitUntil(outbox.drain("associations"));
    if (page.ok && page.value) return true;
    // The rule was changed meanwhile, or there is no room.
    return this.store.find(row.name)?.generation !== row.generation;
  }

  /** The next matches to be set: those of secrets that were reported just now come first. */
  #nextUnapplied(row: RuleRow): string[] {
    const reported = (this.#reported.get(row.name) ?? []).filter((name) => this.store.isUnapplied(row, name));
    this.#reported.delete(row.name);
    const next = this.store.unapplied(row, APPLIED).map(({ secret_name }) => secret_name);
    return [...new Set([...reported, ...next])].slice(0, Math.max(APPLIED, reported.length));
  }

  #prepare(row: RuleRow, secret: SecretRef): "set" | "settled" | "stop" {
    const current = this.store.find(row.name);
    if (current?.generation !== row.generation || current.status !== row.status) return "stop";
    // It may have stopped matching since the page was chosen.
    if (!this.store.isUnapplied(row, secret.secretName)) return "settled";
    const association = this.associations.find(associationId(secret));
    const [first] = this.store.origins(secret.mountUuid, secret.secretName);
    const isOthers = association?.manual === 1 || (first !== undefined && first.name !== row.name);
    if (association?.wish !== "present" || !isOthers) return "set";
    // The rule that comes first may be paused.
    this.associations.resume(association, Date.now());
    return "settled";
  }

  #commit<T>(change: () => T): T {
    return this.object.commit(() => {
      const result = change();
      this.forget();
      return result;
    });
  }

  #announce(mountUuid: string): void {
    this.object.outbox.enlistLatest(RULES, mountUuid, null);
  }
}

/** Fields whose change sets all associations of a rule again. */
const AGAIN = [
  "name_template",
  "granularity",
  "key_glob",
  "exclude_key_glob",
  "value_template",
  "priority",
] as const satisfies (keyof RuleDefinition)[];

/** Whether a rule follows changes of secrets. */
const isFollowing = ({ status }: RuleRow): boolean => status !== "paused" && status !== "deleting";
