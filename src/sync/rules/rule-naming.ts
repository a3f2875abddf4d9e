import type { RuleDefinition, RuleMount } from "../../contracts/sync-rules.ts";
import type { SecretRef } from "../../contracts/sync-tasks.ts";
import type { SetNaming } from "../associations/associations.ts";
import type { Found } from "../configuration/destination-record.ts";
import type { RuleRow } from "./rule-store.ts";

/**
 * The naming of a rule's associations: its own, else the destination's. A rule with a value template keeps one object per
 * secret, also when the destination changes to one per key: pushed by key, the values would be those the template hides.
 */
export function namingOf({ row }: Found, definition: RuleDefinition): SetNaming {
  const { name_template: template, key_glob: keyGlob, exclude_key_glob: excludeKeyGlob } = definition;
  const valueTemplate = definition.value_template;
  const own = valueTemplate === "" ? granularityOf(row, definition) : "secret-path";
  const isWhole = keyGlob.length === 0 && excludeKeyGlob.length === 0 && valueTemplate === "";
  return {
    granularity: own,
    template: template || (own === row.granularity ? row.template : ""),
    ...(!isWhole && { content: { keyGlob, excludeKeyGlob, valueTemplate } }),
  };
}

/** The granularity that a rule asks for. */
export const granularityOf = (row: Found["row"], { granularity }: Pick<RuleDefinition, "granularity">) =>
  granularity ?? (row.granularity as SetNaming["granularity"]);

/** The definition of a stored rule. */
export const definitionOf = ({ definition }: Pick<RuleRow, "definition">): RuleDefinition =>
  completed(JSON.parse(definition) as RuleDefinition);

/** A definition with all fields. Rows and Workers of older versions have none that came later. */
export const completed = (definition: RuleDefinition): RuleDefinition => ({ ...LATER_FIELDS, ...definition });

const LATER_FIELDS = {
  key_glob: [],
  exclude_key_glob: [],
  value_template: "",
  given: { mount: "", selector: "list" },
} as const satisfies Partial<RuleDefinition>;

export const secretIn = ({ uuid, accessor, path }: RuleMount): Omit<SecretRef, "secretName"> => ({
  mountUuid: uuid,
  mountAccessor: accessor,
  mountPath: path,
});
