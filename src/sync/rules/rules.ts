import type { SurveyPage } from "../../contracts/kv-store.ts";
import type {
  RuleDefinition,
  RuleMatch,
  RuleMount,
  RulePlan,
  RuleView,
  Unmatched,
} from "../../contracts/sync-rules.ts";
import type { PlannedObject, SecretRef } from "../../contracts/sync-tasks.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import type { ObjectContext } from "../../platform/durable/object-context.ts";
import { kvStore } from "../../rpc/stubs.ts";
import type { AssociationCheck } from "../associations/association-check.ts";
import { type Associations, associationId, type SetNaming } from "../associations/associations.ts";
import { checkTemplate } from "../associations/naming.ts";
import type { Found } from "../configuration/destination-record.ts";
import { desiredSteps } from "../objects/object-plan.ts";
import { mismatch } from "./rule.ts";
import { definitionOf, granularityOf, namingOf, secretIn } from "./rule-naming.ts";
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
  constructor(
    private readonly object: ObjectContext,
    private readonly store: RuleStore,
    private readonly work: RuleWork,
    private readonly check: AssociationCheck,
    private readonly associations: Associations,
  ) {}

  /** Stores a rule and begins its evaluation. */
  async put(name: string, mount: RuleMount, definition: RuleDefinition): Promise<Result<RuleView>> {
    const checked = this.#mayPut(name, mount, definition);
    if (!checked.ok) return checked;
    this.object.commit(() => this.work.begin(name, mount, definition));
    await this.object.outbox.drain("rules", mount.uuid);
    await this.#work();
    return this.read(name);
  }

  #mayPut(name: string, mount: RuleMount, definition: RuleDefinition): Result<Found> {
    const found = this.check.mayChange();
    if (!found.ok) return found;
    const before = this.store.find(name);
    if (before?.status === "deleting") return refuse("conflict", "the rule is being deleted");
    if (before && before.mount_uuid !== mount.uuid) return refuse("invalid", 'field "mount" cannot be updated');
    if (!before && this.store.all().length >= MAX_RULES) {
      return refuse("invalid", `a destination has at most ${MAX_RULES} rules`);
    }
    if (definition.value_template !== "" && granularityOf(found.value.row, definition) !== "secret-path") {
      return refuse("invalid", "value_template: is for granularity secret-path, where a secret is one object");
    }
    const { granularity, template } = namingOf(found.value, definition);
    const { type } = found.value;
    const parsed = checkTemplate(template || type.defaults.template[granularity], granularity);
    if (!parsed.ok) return refuse("invalid", `name_template: ${parsed.message}`);
    if (parsed.warning !== null) return refuse("invalid", `name_template: ${parsed.warning}`);
    return found;
  }

  read(name: string): Result<RuleView> {
    const row = this.store.find(name);
    return row ? ok(this.#view(row)) : refuse("missing");
  }

  names(): string[] {
    return this.store.all().map(({ name }) => name);
  }

  matches(name: string, after: string, limit: number): Result<{ matches: RuleMatch[]; next: string | null }> {
    const row = this.store.find(name);
    if (!row) return refuse("missing");
    const page = this.store.page(name, after, limit);
    const next = page.length < limit ? null : (page.at(-1)?.secret_name ?? null);
    return ok({ matches: page.map((match) => matchView(row, match)), next });
  }

  /** Executes the removals of exactly this plan. */
  async confirm(name: string, plan: string): Promise<Result<RuleView>> {
    const row = this.store.find(name);
    if (!row) return refuse("missing");
    if (row.status !== "confirmation_required" || this.store.planId(row) !== plan) {
      return refuse("conflict", "plan is out of date");
    }
    this.object.commit(() => this.work.confirm(row, Date.now()));
    await this.#work();
    return this.read(name);
  }

  /** Deletes a rule. Its associations end unless another origin wants them. */
  async delete(name: string, onUnmatch: Unmatched | null): Promise<Result<null>> {
    const row = this.store.find(name);
    if (!row) return ok(null);
    this.object.commit(() => this.work.delete(row, onUnmatch));
    await this.object.outbox.drain("rules", row.mount_uuid);
    await this.#work();
    return ok(null);
  }

  /** Works on rules for `INLINE_MS`; a run that an alarm has begun may take longer, and is not waited for. */
  async #work(): Promise<void> {
    const run = this.work.run(Date.now() + INLINE_MS);
    this.object.waitUntil(run);
    await Promise.race([run, scheduler.wait(INLINE_MS)]);
  }

  /** The effect of a put: counts of all secrets, and one page of the objects that change. Holds a page in memory. */
  async preview(name: string, mount: RuleMount, definition: RuleDefinition, after: string): Promise<Result<RulePlan>> {
    const checked = this.#mayPut(name, mount, definition);
    if (!checked.ok) return checked;
    const naming = namingOf(checked.value, definition);
    const removal = this.work.removal(definition, checked.value);
    const summary = { matched: 0, create: 0, keep: 0, delete: 0, retain: 0, hold: 0, refused: 0 };
    const planned: PlannedSecret[] = [];
    for (let from: string | null = ""; from !== null; ) {
      const page: SurveyPage = await kvStore(this.object.env, mount.uuid).survey(
        definition.path_prefix,
        from,
        SURVEYED,
      );
      if (page.gone) return refuse("missing", "the mount was deleted");
      const paths = page.candidates.filter((one) => mismatch(definition, one) === null).map(({ path }) => path);
      const matched = new Set(paths);
      const found = [
        ...paths.map((path) => this.#plannedMatch(mount, path, naming)),
        ...this.#leaving(name, from, page.next, matched).flatMap((path) =>
          this.#plannedEnd(mount, path, name, removal),
        ),
      ].sort((one, other) => (one.secret < other.secret ? -1 : 1));
      summary.matched += matched.size;
      for (const one of found) {
        summary[one.kind]++;
        if (one.kind !== "keep" && one.secret > after && planned.length <= PREVIEWED) planned.push(one);
      }
      from = page.next;
    }
    const shown = planned.slice(0, PREVIEWED);
    const next = planned.length > PREVIEWED ? (shown.at(-1)?.secret ?? null) : null;
    return ok({ summary, planned: shown.flatMap(({ objects }) => objects), next });
  }

  #plannedMatch(mount: RuleMount, secretName: string, naming: SetNaming): PlannedSecret {
    const secret: SecretRef = { ...secretIn(mount), secretName };
    const association = associationId(secret);
    const plan = this.check.check(secret, [], undefined, naming);
    if (!plan.ok) {
      const entry = { association, external_name: "", action: "refuse", reason: plan.message } as const;
      return { secret: secretName, kind: "refused", objects: [entry] };
    }
    const isSet = this.associations.find(association)?.wish === "present";
    const objects = desiredSteps(plan.steps).map(
      ({ copy }) => ({ association, external_name: copy.name, action: "create" }) as const,
    );
    return { secret: secretName, kind: isSet ? "keep" : "create", objects };
  }

  /** The end of a match; none while another origin wants the association. */
  #plannedEnd(mount: RuleMount, secretName: string, name: string, removal: Unmatched): PlannedSecret[] {
    if (this.#hasOtherOrigin(mount.uuid, secretName, name)) return [];
    const association = associationId({ mountAccessor: mount.accessor, secretName });
    const reason = "the rule no longer matches the secret";
    const objects = this.associations
      .externalNames(association)
      .map((external_name) => ({ association, external_name, action: removal, reason }));
    return [{ secret: secretName, kind: removal, objects }];
  }

  /** The matches of a rule after one path up to another that are not among these. @param until null: to the end */
  #leaving(name: string, from: string, until: string | null, matched: ReadonlySet<string>): string[] {
    const found: string[] = [];
    for (let after = from; ; ) {
      const page = this.store.page(name, after, SURVEYED);
      for (const { secret_name } of page) {
        if (until !== null && secret_name > until) return found;
        if (!matched.has(secret_name)) found.push(secret_name);
      }
      if (page.length < SURVEYED) return found;
      after = page.at(-1)?.secret_name ?? "";
    }
  }

  #hasOtherOrigin(mountUuid: string, secretName: string, name: string): boolean {
    const row = this.associations.ofSecret(mountUuid, secretName)[0];
    return row?.manual === 1 || this.store.origins(mountUuid, secretName).some((rule) => rule.name !== name);
  }

  #view(row: RuleRow): RuleView {
    const { matched, applied, leaving } = this.store.counts(row);
    return {
      name: row.name,
      mount: row.mount_path,
      definition: definitionOf(row),
      status: row.status,
      generation: row.generation,
      progress: { matched, applied, pending_removals: leaving },
      sync_operation_counters: this.store.statuses(row),
      problems: [...(row.problem === null ? [] : [row.problem]), ...this.store.problems(row.name, SHOWN_PROBLEMS)],
      ...(row.status === "confirmation_required" && { plan_id: this.store.planId(row) }),
      ...(row.evaluated !== null && { evaluated_at: new Date(row.evaluated).toISOString() }),
    };
  }
}

/** The effect of a rule on one secret. */
interface PlannedSecret {
  readonly secret: string;
  readonly kind: "create" | "keep" | "refused" | Unmatched;
  readonly objects: readonly PlannedObject[];
}
