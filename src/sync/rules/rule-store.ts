import { createHash } from "node:crypto";
import type { RuleDefinition, RuleMatch, RuleMount, RuleStatus, Unmatched } from "../../contracts/sync-rules.ts";
import { RESTING } from "../associations/association-view.ts";
import type { AssociationRow } from "../schema.ts";
import type { SyncEvents } from "../sync-events.ts";

export interface RuleRow extends Record<string, SqlStorageValue> {
  name: string;
  mount_uuid: string;
  mount_accessor: string;
  mount_path: string;
  definition: string;
  priority: number;
  /** Grows with each evaluation of all secrets; matches of an older one are to be removed. */
  generation: number;
  status: RuleStatus;
  /** The secret after which the scan goes on. */
  cursor: string;
  problem: string | null;
  /** Start of the hour in which removals are counted (ms since 1970), and their number. */
  window: number;
  removed: number;
  evaluated: number | null;
}

export interface MatchRow extends Record<string, SqlStorageValue> {
  rule: string;
  secret_name: string;
  generation: number;
  /**
   * 0: the association is to be set. 1: it is set. 2: it was set, and refused when it was set again. 3: it was set, and is
   * to be set again. 4: it was refused, and never set.
   */
  applied: number;
  problem: string | null;
}

/** Values of `applied` of matches that have no association of theirs, and of those that were refused. */
const NEVER_SET = "(0, 4)";
const REFUSED = "(2, 4)";

/** The index of a query of matches. SQLite would read all matches of a rule by the primary key. */
const BY_STATE = "INDEXED BY rule_matches_by_state";
const BY_NAME = "";

/** Statuses in which a rule waits for a person. */
const STOPPED: ReadonlySet<RuleStatus> = new Set(["limit_exceeded", "confirmation_required", "error"]);

/**
 * Rows of rules and of the secrets that match them. Owned by `SyncDestination`. Each match costs one row; methods that
 * write are called inside the object's transaction.
 */
export class RuleStore {
  /** Numbers of matches of one generation, by rule; a restart counts them again. */
  readonly #matched = new Map<string, { readonly generation: number; count: number }>();

  constructor(
    private readonly sql: SqlStorage,
    private readonly events: SyncEvents,
  ) {}

  /** Drops the numbers of matches after a rollback. */
  forget(): void {
    this.#matched.clear();
  }

  find(name: string): RuleRow | null {
    return this.sql.exec<RuleRow>("SELECT * FROM rules WHERE name = ?", name).toArray()[0] ?? null;
  }

  all(): RuleRow[] {
    return this.sql.exec<RuleRow>("SELECT * FROM rules ORDER BY name").toArray();
  }

  ofMount(mountUuid: string): RuleRow[] {
    return this.sql
      .exec<RuleRow>("SELECT * FROM rules WHERE mount_uuid = ? ORDER BY priority, name", mountUuid)
      .toArray();
  }

  /** Stores a rule. Unless it is paused its evaluation of all secrets begins. */
  put(name: string, mount: RuleMount, definition: RuleDefinition): void {
    this.events.rule(this.find(name) ? "RuleUpdated" : "RuleCreated", name);
    this.sql.exec(
      `INSERT INTO rules (name, mount_uuid, mount_accessor, mount_path, definition, priority, generation, status, cursor)
       VALUES (?1, ?2, ?3, ?4, ?5, ?6, 1, ?7, '')
       ON CONFLICT (name) DO UPDATE SET mount_path = ?4, definition = ?5, priority = ?6, generation = generation + (?7 = 'scanning'),
         status = ?7, cursor = '', problem = NULL`,
      name,
      mount.uuid,
      mount.accessor,
      mount.path,
      JSON.stringify(definition),
      definition.priority,
      definition.paused ? "paused" : "scanning",
    );
  }

  /** Records that the removals which waited were confirmed. */
  confirmed(name: string, removals: number): void {
    this.events.rule("RuleConfirmed", name, { Removals: removals });
  }

  set(
    name: string,
    changes: Partial<
      Pick<RuleRow, "status" | "cursor" | "problem" | "window" | "removed" | "evaluated" | "generation" | "definition">
    >,
  ): void {
    const { status, problem } = changes;
    if (status !== undefined && STOPPED.has(status) && this.find(name)?.status !== status) {
      this.events.rule("RuleStopped", name, { Status: status, ...(problem && { Reason: problem }) });
    }
    for (const [column, value] of Object.entries(changes)) {
      this.sql.exec(`UPDATE rules SET ${column} = ? WHERE name = ?`, value ?? null, name);
    }
  }

  moved(mountUuid: string, path: string): void {
    this.sql.exec("UPDATE rules SET mount_path = ? WHERE mount_uuid = ?", path, mountUuid);
  }

  drop(name: string): void {
    this.events.rule("RuleDeleted", name);
    this.sql.exec("DELETE FROM rules WHERE name = ?", name);
    this.sql.exec("DELETE FROM rule_matches WHERE rule = ?", name);
    this.#matched.delete(name);
  }

  clear(): void {
    for (const { name } of this.all()) this.drop(name);
  }

  /** Records that a secret matches now. A refused one is tried again. */
  match(rule: RuleRow, secretName: string): void {
    const known = this.#known(rule);
    if (known && !this.#isMatch(rule, secretName)) known.count++;
    this.sql.exec(
      `INSERT INTO rule_matches (rule, secret_name, generation, applied) VALUES (?1, ?2, ?3, 0)
       ON CONFLICT (rule, secret_name) DO UPDATE SET generation = ?3, problem = NULL,
         applied = CASE applied WHEN 2 THEN 3 WHEN 4 THEN 0 ELSE applied END`,
      rule.name,
      secretName,
      rule.generation,
    );
  }

  /** Sets all associations of a rule again, because their names may have changed. */
  setAllAgain(rule: string): void {
    this.sql.exec(
      `UPDATE rule_matches SET applied = CASE applied WHEN 4 THEN 0 ELSE 3 END, problem = NULL
       WHERE rule = ? AND generation > 0 AND applied > 0`,
      rule,
    );
  }

  /** Sets the associations that a rule shares with others again, because another one may come first now. */
  setSharedAgain({ name, mount_uuid }: Pick<RuleRow, "name" | "mount_uuid">): void {
    this.sql.exec(
      `UPDATE rule_matches SET applied = 3 WHERE applied = 1 AND rule IN (SELECT name FROM rules WHERE mount_uuid = ?2 AND name <> ?1)
       AND secret_name IN (SELECT secret_name FROM rule_matches WHERE rule = ?1)`,
      name,
      mount_uuid,
    );
  }

  /** Sets an association that exists again. */
  again(rule: string, secretName: string): void {
    this.sql.exec("UPDATE rule_matches SET applied = 3 WHERE rule = ? AND secret_name = ?", rule, secretName);
  }

  /** Marks a match as one to be removed; one that was never set is forgotten. */
  unmatch(rule: RuleRow, secretName: string): void {
    const known = this.#known(rule);
    if (known && this.#isMatch(rule, secretName)) known.count--;
    this.sql.exec(
      `UPDATE rule_matches SET generation = 0 WHERE rule = ? AND secret_name = ? AND applied NOT IN ${NEVER_SET}`,
      rule.name,
      secretName,
    );
    this.sql.exec(
      `DELETE FROM rule_matches WHERE rule = ? AND secret_name = ? AND applied IN ${NEVER_SET}`,
      rule.name,
      secretName,
    );
  }

  /** Records the outcome of a set, unless the rule has changed meanwhile. */
  setApplied({ name, generation }: RuleRow, secretName: string, problem: string | null): void {
    this.sql.exec(
      `UPDATE rule_matches SET applied = ${problem === null ? 1 : `CASE WHEN applied IN ${NEVER_SET} THEN 4 ELSE 2 END`},
         problem = ? WHERE rule = ? AND secret_name = ? AND generation = ?`,
      problem,
      name,
      secretName,
      generation,
    );
  }

  remove(rule: string, secretName: string): void {
    this.sql.exec("DELETE FROM rule_matches WHERE rule = ? AND secret_name = ?", rule, secretName);
  }

  /** Matches whose association is to be set, those that have none first. */
  unapplied({ name, generation }: RuleRow, limit: number): MatchRow[] {
    return this.#matches(
      "rule = ? AND generation = ? AND applied IN (0, 3) LIMIT ?",
      BY_STATE,
      name,
      generation,
      limit,
    );
  }

  isUnapplied(rule: RuleRow, secretName: string): boolean {
    return this.#isMatch(rule, secretName, "AND applied IN (0, 3)");
  }

  #isMatch({ name, generation }: RuleRow, secretName: string, and = ""): boolean {
    const where = `rule = ? AND secret_name = ? AND generation = ? ${and}`;
    return this.#matches(where, BY_NAME, name, secretName, generation).length > 0;
  }

  /** Whether a version was written after the rules that want the association had compared all secrets. */
  isLate(row: AssociationRow, written: number): boolean {
    if (row.manual === 1 || !this.any()) return false;
    return this.origins(row.mount_uuid, row.secret_name).some(
      ({ evaluated }) => evaluated !== null && written > evaluated,
    );
  }

  /** Matches to be removed. */
  leaving({ name, generation }: RuleRow, limit: number): MatchRow[] {
    const where = `rule = ? AND generation < ? AND applied NOT IN ${NEVER_SET} LIMIT ?`;
    return this.#matches(where, BY_STATE, name, generation, limit);
  }

  /** Forgets matches of older evaluations that were never set. */
  forgetUnset({ name, generation }: RuleRow): void {
    const where = `rule = ? AND generation < ? AND applied IN ${NEVER_SET}`;
    this.sql.exec(`DELETE FROM rule_matches WHERE ${where}`, name, generation);
  }

  page(rule: string, after: string, limit: number): MatchRow[] {
    return this.#matches("rule = ? AND secret_name > ? ORDER BY secret_name LIMIT ?", BY_NAME, rule, after, limit);
  }

  /** How many secrets match. */
  matched(rule: RuleRow): number {
    const known = this.#known(rule);
    if (known) return known.count;
    const { name, generation } = rule;
    const { count } = this.sql
      .exec<{ count: number }>(
        "SELECT count(*) AS count FROM rule_matches WHERE rule = ? AND generation = ?",
        name,
        generation,
      )
      .one();
    this.#matched.set(name, { generation, count });
    return count;
  }

  #known({ name, generation }: RuleRow): { count: number } | null {
    const known = this.#matched.get(name);
    return known?.generation === generation ? known : null;
  }

  /** Reads all matches of the rule. */
  counts({ name, generation }: RuleRow): { matched: number; applied: number; leaving: number } {
    return this.sql
      .exec<{ matched: number; applied: number; leaving: number }>(
        `SELECT count(*) FILTER (WHERE generation = ?2) AS matched, count(*) FILTER (WHERE applied IN (1, 3)) AS applied,
           count(*) FILTER (WHERE generation < ?2 AND applied NOT IN ${NEVER_SET}) AS leaving FROM rule_matches WHERE rule = ?1`,
        name,
        generation,
      )
      .one();
  }

  /**
   * The rules of a secret of a mount that want its association, the one that decides about its name first. A match that is
   * not set yet counts while its rule may set it: not of one that is paused, or stopped by a limit.
   */
  origins(mountUuid: string, secretName: string): RuleRow[] {
    return this.sql
      .exec<RuleRow>(
        `SELECT rules.* FROM rule_matches JOIN rules ON rules.name = rule_matches.rule
         WHERE rule_matches.secret_name = ? AND rules.mount_uuid = ? AND rule_matches.applied NOT IN ${REFUSED}
           AND (rule_matches.applied <> 0 OR (rules.status IN ('active', 'scanning') AND rule_matches.generation = rules.generation))
         ORDER BY priority, name`,
        secretName,
        mountUuid,
      )
      .toArray();
  }

  /** The rules that want an association which no request wants. */
  #onlyOrigins(row: AssociationRow): RuleRow[] {
    if (row.manual === 1 || row.wish !== "present" || !this.any()) return [];
    return this.origins(row.mount_uuid, row.secret_name);
  }

  /** Whether an association is not pushed now, because all rules that want it are paused. */
  isResting(row: AssociationRow): boolean {
    const rules = this.#onlyOrigins(row);
    return rules.length > 0 && rules.every(({ status }) => status === "paused");
  }

  /**
   * Whether only rules want an association, and all of them leave the object of a secret that no longer matches.
   * @param byDefault the removal of rules that state none
   */
  leavesObject(row: AssociationRow, byDefault: Unmatched): boolean {
    const rules = this.#onlyOrigins(row);
    const removals = rules.map(({ definition }) => (JSON.parse(definition) as RuleDefinition).on_unmatch ?? byDefault);
    return rules.length > 0 && !removals.includes("delete");
  }

  /** Associations that a rule has set, and whose pushes have waited for a paused rule. */
  resting({ name, mount_uuid }: RuleRow, limit: number): AssociationRow[] {
    return this.sql
      .exec<AssociationRow>(
        `SELECT associations.* FROM associations JOIN rule_matches ON rule_matches.secret_name = associations.secret_name
         WHERE associations.mount_uuid = ? AND associations.error_code = ? AND rule_matches.rule = ? AND applied IN (1, 3) LIMIT ?`,
        mount_uuid,
        RESTING,
        name,
        limit,
      )
      .toArray();
  }

  /** Has the first rule that wants an association set it again. @returns whether there is one */
  takesOver({ mount_uuid, secret_name }: AssociationRow): boolean {
    const [first] = this.origins(mount_uuid, secret_name);
    if (first) this.again(first.name, secret_name);
    return first !== undefined;
  }

  /** The names of the rules that want an association. */
  originNames({ mount_uuid, secret_name }: AssociationRow): string[] {
    return this.any() ? this.origins(mount_uuid, secret_name).map(({ name }) => name) : [];
  }

  any(): boolean {
    return this.sql.exec("SELECT 1 FROM rules LIMIT 1").toArray().length > 0;
  }

  problems(rule: string, limit: number): string[] {
    const where = `rule = ? AND applied IN ${REFUSED} ORDER BY secret_name LIMIT ?`;
    return this.#matches(where, BY_NAME, rule, limit).map(({ secret_name, problem }) => `${secret_name}: ${problem}`);
  }

  /** Identifies the removals that wait: the generation, and every secret. */
  planId(rule: RuleRow): string {
    const hash = createHash("sha256").update(`${rule.name}\n${rule.generation}\n`);
    const waiting = this.sql.exec<{ secret_name: string }>(
      `SELECT secret_name FROM rule_matches WHERE rule = ? AND generation < ? AND applied NOT IN ${NEVER_SET}
       ORDER BY secret_name`,
      rule.name,
      rule.generation,
    );
    for (const { secret_name } of waiting) hash.update(`${secret_name}\n`);
    return `pl_${hash.digest("hex").slice(0, 16)}`;
  }

  /** Counts of the sync status of a rule's associations. */
  statuses({ name, mount_uuid }: RuleRow): Record<string, number> {
    const rows = this.sql
      .exec<{ status: string; n: number }>(
        `SELECT status, count(*) AS n FROM rule_matches JOIN associations
           ON associations.mount_uuid = ? AND associations.secret_name = rule_matches.secret_name
         WHERE rule_matches.rule = ? AND applied = 1 GROUP BY status`,
        mount_uuid,
        name,
      )
      .toArray();
    return Object.fromEntries(rows.map(({ status, n }) => [status, n]));
  }

  #matches(where: string, index: string, ...values: SqlStorageValue[]): MatchRow[] {
    return this.sql.exec<MatchRow>(`SELECT * FROM rule_matches ${index} WHERE ${where}`, ...values).toArray();
  }
}

/** The state of a match as reads show it. */
export const matchView = (rule: RuleRow, { secret_name, generation, applied, problem }: MatchRow): RuleMatch => {
  if (generation < rule.generation) return { secret_name, state: "removing" };
  if (applied === 2 || applied === 4) return { secret_name, state: "refused", reason: problem ?? "" };
  return { secret_name, state: applied === 1 ? "set" : "waiting" };
};
