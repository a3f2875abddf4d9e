import type { SurveyPage } from "../../contracts/kv-store.ts";
import type { RuleDefinition, RuleMatch, RuleMount, RulePlan, RuleView } from "../../contracts/sync-rules.ts";
import type { PlannedObject, SecretRef } from "../../contracts/sync-tasks.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import type { ObjectContext } from "../../platform/durable/object-context.ts";
import { kvStore } from "../../rpc/stubs.ts";
import type { AssociationCheck } from "../associations/association-check.ts";
import { type Associations, associationId } from "../associations/associations.ts";
import { checkTemplate } from "../associations/naming.ts";
import type { Found } from "../configuration/destination-record.ts";
import type { Step } from "../objects/object-plan.ts";
import { mismatch } from "./rule.ts";
import { namingOf, secretIn } from "./rule-naming.ts";
import { matchView, type RuleRow, type RuleStore } from "./rule-store.ts";
import type { RuleWork } from "./rule-work.ts";

const MAX_RULES = 100;
const SHOWN_PROBLEMS = 20;
/** Work on a rule within its request, ms; the alarm does the rest. */
const INLINE_MS = 1_500;
/** Planned objects of a page of a preview. */
const PREVIEWED = 500;
/** Secrets of one call to a mount. */
const SURVEYED = 1_000;

/**
 * The rules of a destination: their definitions, reads and previews. `rule-work.ts` evaluates and applies them. Owned by
 * `SyncDestination`. A rule costs one row, and one for each secret that matches it.
 */
export class Rules {
  readonly #object: ObjectContext;
  readonly #store: RuleStore;
  readonly #work: RuleWork;
  readonly #check: AssociationCheck;
  readonly #associations: Associations;

  constructor(
    object: ObjectContext,
    store: RuleStore,
    work: RuleWork,
    check: AssociationCheck,
    associations: Associations,
  ) {
    this.#object = object;
    this.#store = store;
    this.#work = work;
    this.#check = check;
    this.#associations = associations;
  }

  /** Stores a rule and begins its evaluation. */
  async put(name: string, mount: RuleMount, definition: RuleDefinition): Promise<Result<RuleView>> {
    const checked = this.#mayPut(name, mount, definition);
    if (!checked.ok) return checked;
    this.#object.commit(() => this.#work.begin(name, mount, definition));
    await this.#object.outbox.drain("rules", mount.uuid);
    await this.#work.run(Date.now() + INLINE_MS);
    return this.read(name);
  }

  #mayPut(name: string, mount: RuleMount, definition: RuleDefinition): Result<Found> {
    const found = this.#check.mayChange();
    if (!found.ok) return found;
    const before = this.#store.find(name);
    if (before?.status === "deleting") return refuse("conflict", "the rule is being deleted");
    if (before && before.mount_uuid !== mount.uuid) return refuse("invalid", 'field "mount" cannot be updated');
    if (!before && this.#store.all().length >= MAX_RULES) {
      return refuse("invalid", `a destination has at most ${MAX_RULES} rules`);
    }
    const { granularity, template } = namingOf(found.value, definition);
    const { type } = found.value;
    const parsed = checkTemplate(template || type.defaults.template[granularity], granularity);
    if (!parsed.ok) return refuse("invalid", `name_template: ${parsed.message}`);
    if (parsed.warning !== null) return refuse("invalid", `name_template: ${parsed.warning}`);
    return found;
  }

  read(name: string): Result<RuleView> {
    const row = this.#store.find(name);
    return row ? ok(this.#view(row)) : refuse("missing");
  }

  names(): string[] {
    return this.#store.all().map(({ name }) => name);
  }

  matches(name: string, after: string, limit: number): Result<{ matches: RuleMatch[]; next: string | null }> {
    const row = this.#store.find(name);
    if (!row) return refuse("missing");
    const page = this.#store.page(name, after, limit);
    const next = page.length < limit ? null : (page.at(-1)?.secret_name ?? null);
    return ok({ matches: page.map((match) => matchView(row, match)), next });
  }

  /** Executes the removals of exactly this plan. */
  async confirm(name: string, plan: string): Promise<Result<RuleView>> {
    const row = this.#store.find(name);
    if (!row) return refuse("missing");
    if (row.status !== "confirmation_required" || this.#store.planId(row) !== plan) {
      return refuse("conflict", "plan is out of date");
    }
    this.#object.commit(() => this.#work.confirm(row, Date.now()));
    await this.#work.run(Date.now() + INLINE_MS);
    return this.read(name);
  }

  /** Deletes a rule. Its associations end unless another origin wants them. */
  async delete(name: string, onUnmatch: "delete" | "retain" | null): Promise<Result<null>> {
    const row = this.#store.find(name);
    if (!row) return ok(null);
    this.#object.commit(() => this.#work.delete(row, onUnmatch));
    await this.#object.outbox.drain("rules", row.mount_uuid);
    await this.#work.run(Date.now() + INLINE_MS);
    return ok(null);
  }

  /** The effect of a put: counts of all secrets, and one page of the objects that change. */
  async preview(name: string, mount: RuleMount, definition: RuleDefinition, after: string): Promise<Result<RulePlan>> {
    const checked = this.#mayPut(name, mount, definition);
    if (!checked.ok) return checked;
    const matched = await this.#matched(mount, definition);
    if (!matched.ok) return matched;
    const naming = namingOf(checked.value, definition);
    const summary = { matched: matched.value.size, create: 0, keep: 0, delete: 0, retain: 0, refused: 0 };
    const planned: { readonly secret: string; readonly entry: PlannedObject }[] = [];
    const add = (secretName: string, kind: keyof typeof summary, names: readonly string[], reason?: string): void => {
      summary[kind]++;
      const association = associationId({ mountAccessor: mount.accessor, secretName });
      const action = kind === "refused" ? "refuse" : (kind as PlannedObject["action"]);
      for (const external_name of kind === "keep" ? [] : names) {
        planned.push({ secret: secretName, entry: { association, external_name, action, ...(reason && { reason }) } });
      }
    };
    for (const secretName of matched.value) {
      const secret: SecretRef = { ...secretIn(mount), secretName };
      const plan = this.#check.check(secret, [], undefined, naming);
      const isSet = this.#associations.find(associationId(secret))?.wish === "present";
      if (!plan.ok) add(secretName, "refused", [""], plan.message);
      else add(secretName, isSet ? "keep" : "create", plan.steps.flatMap(nameOf));
    }
    const removal = this.#work.removal(definition, checked.value);
    for (const secretName of this.#leaving(name, matched.value)) {
      if (this.#hasOtherOrigin(mount.uuid, secretName, name)) continue;
      const id = associationId({ mountAccessor: mount.accessor, secretName });
      add(secretName, removal, this.#associations.externalNames(id), "the rule no longer matches the secret");
    }
    planned.sort((one, other) => (one.secret < other.secret ? -1 : 1));
    const rest = planned.filter(({ secret }) => secret > after);
    const page = rest.slice(0, PREVIEWED).map(({ entry }) => entry);
    return ok({ summary, planned: page, next: rest.length > PREVIEWED ? (rest[PREVIEWED - 1]?.secret ?? null) : null });
  }

  /** The names of all secrets that a definition matches today. */
  async #matched({ uuid }: RuleMount, definition: RuleDefinition): Promise<Result<ReadonlySet<string>>> {
    const found = new Set<string>();
    for (let from: string | null = ""; from !== null; ) {
      const page: SurveyPage = await kvStore(this.#object.env, uuid).survey(definition.path_prefix, from, SURVEYED);
      if (page.gone) return refuse("missing", "the mount was deleted");
      for (const secret of page.candidates) if (mismatch(definition, secret) === null) found.add(secret.path);
      from = page.next;
    }
    return ok(found);
  }

  /** The matches of a rule that are not among these. */
  *#leaving(name: string, matched: ReadonlySet<string>): Generator<string> {
    for (let after = ""; ; ) {
      const page = this.#store.page(name, after, SURVEYED);
      for (const { secret_name } of page) if (!matched.has(secret_name)) yield secret_name;
      if (page.length < SURVEYED) return;
      after = page.at(-1)?.secret_name ?? "";
    }
  }

  #hasOtherOrigin(mountUuid: string, secretName: string, name: string): boolean {
    const row = this.#associations.ofSecret(mountUuid, secretName)[0];
    return row?.manual === 1 || this.#store.origins(mountUuid, secretName).some((rule) => rule.name !== name);
  }

  #view(row: RuleRow): RuleView {
    const { matched, applied, leaving } = this.#store.counts(row);
    return {
      name: row.name,
      mount: row.mount_path,
      definition: JSON.parse(row.definition),
      status: row.status,
      generation: row.generation,
      progress: { matched, applied, pending_removals: leaving },
      sync_operation_counters: this.#store.statuses(row),
      problems: [...(row.problem === null ? [] : [row.problem]), ...this.#store.problems(row.name, SHOWN_PROBLEMS)],
      ...(row.status === "confirmation_required" && { plan_id: this.#store.planId(row) }),
      ...(row.evaluated !== null && { evaluated_at: new Date(row.evaluated).toISOString() }),
    };
  }
}

const nameOf = (step: Step): string[] => ("copy" in step ? [step.copy.name] : []);
