import type { SurveyPage } from "../../contracts/kv-store.ts";
import type { RuleDefinition, RuleMount, Selected } from "../../contracts/sync-rules.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import type { ObjectContext } from "../../platform/durable/object-context.ts";
import { kvStore } from "../../rpc/stubs.ts";
import type { AssociationCheck } from "../associations/association-check.ts";
import { type Associations, associationId } from "../associations/associations.ts";
import type { DesiredState } from "../associations/desired-state.ts";
import { mismatch } from "./rule.ts";
import { secretIn } from "./rule-naming.ts";

/** The most secrets of one selector. */
export const MAX_SELECTED = 1_000;
/** Secrets of one transaction. */
const PAGE = 50;
/** Secrets of one call to a mount. */
const SURVEYED = 1_000;

/**
 * Sets the associations of all secrets that a selector matches now, each as a request does; secrets that match later do
 * not follow. Owned by `SyncDestination`. Repeatable: what is set by a request already is left as it is. Costs one
 * transaction for each 50 secrets.
 */
export class Selection {
  constructor(
    private readonly object: ObjectContext,
    private readonly check: AssociationCheck,
    private readonly associations: Associations,
    private readonly desiredState: DesiredState,
  ) {}

  async set(mount: RuleMount, definition: RuleDefinition): Promise<Result<Selected>> {
    const changeable = this.check.mayChange();
    if (!changeable.ok) return changeable;
    const found = await this.#matching(mount, definition);
    if (!found.ok) return found;
    const names = found.value;
    const settled = new Map<string, string | null>();
    const { outbox } = this.object;
    for (let at = 0; at < names.length; at += PAGE) {
      const page = await this.desiredState.setPage({
        secrets: names.slice(at, at + PAGE).map((secretName) => ({ ...secretIn(mount), secretName })),
        naming: null,
        manual: true,
        prepare: (secret) => {
          const before = this.associations.find(associationId(secret));
          return before?.manual === 1 && before.wish === "present" ? "settled" : "set";
        },
        settle: ({ secretName }, problem) => settled.set(secretName, problem),
      });
      if (!page.ok) return page;
      await outbox.drain("watch");
      if (!page.value) break;
    }
    await outbox.drain("associations");
    const skipped = names.flatMap((secret_name) => {
      const reason = settled.has(secret_name) ? settled.get(secret_name) : NO_ROOM;
      return reason ? [{ secret_name, reason }] : [];
    });
    const set = names.filter((name) => settled.get(name) === null);
    return ok({ set: set.map((secretName) => associationId({ mountAccessor: mount.accessor, secretName })), skipped });
  }

  async #matching(mount: RuleMount, definition: RuleDefinition): Promise<Result<string[]>> {
    const names: string[] = [];
    for (let from: string | null = ""; from !== null; ) {
      const store = kvStore(this.object.env, mount.uuid);
      const page: SurveyPage = await store.survey(definition.path_prefix, from, SURVEYED);
      if (page.gone) return refuse("missing", "the mount was deleted");
      for (const candidate of page.candidates) if (mismatch(definition, candidate) === null) names.push(candidate.path);
      if (names.length > MAX_SELECTED) return refuse("invalid", TOO_MANY);
      from = page.next;
    }
    return ok(names);
  }
}

export const TOO_MANY = `selector: more than ${MAX_SELECTED} secrets match; use a rule`;
const NO_ROOM = "the sync queue is at capacity, or a write came in between; try again";
