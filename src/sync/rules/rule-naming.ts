import type { RuleDefinition, RuleMount } from "../../contracts/sync-rules.ts";
import type { SecretRef } from "../../contracts/sync-tasks.ts";
import type { SetNaming } from "../associations/associations.ts";
import type { Found } from "../configuration/destination-record.ts";
import type { RuleRow } from "./rule-store.ts";

/** The naming of a rule's associations: its own, else the destination's. */
export function namingOf({ row }: Found, { granularity, name_template: template }: RuleDefinition): SetNaming {
  const own = granularity ?? (row.granularity as SetNaming["granularity"]);
  return { granularity: own, template: template || (own === row.granularity ? row.template : "") };
}

export const ruleMountOf = ({ mount_uuid, mount_accessor, mount_path }: RuleRow): RuleMount => ({
  uuid: mount_uuid,
  accessor: mount_accessor,
  path: mount_path,
});

export const secretIn = ({ uuid, accessor, path }: RuleMount): Omit<SecretRef, "secretName"> => ({
  mountUuid: uuid,
  mountAccessor: accessor,
  mountPath: path,
});
