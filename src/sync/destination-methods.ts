import type { SyncAdoptionApi } from "../contracts/sync-adoption.ts";
import type { SyncRulesApi } from "../contracts/sync-rules.ts";
import { ok, refuse } from "../lib/result.ts";
import { sealed } from "../platform/crypto/refuse-if-sealed.ts";
import type { MethodTable } from "../platform/durable/rpc-methods.ts";
import type { Adoptions } from "./associations/adoptions.ts";
import type { DestinationRecord } from "./configuration/destination-record.ts";
import type { RuleWork } from "./rules/rule-work.ts";
import type { Rules } from "./rules/rules.ts";
import type { Selection } from "./rules/selection.ts";

/** The components of `SyncDestination` that its method tables call. */
export interface DestinationParts {
  readonly record: DestinationRecord;
  readonly rules: Rules;
  readonly ruleWork: RuleWork;
  readonly adoptions: Adoptions;
  readonly selection: Selection;
}

/** RPC methods about associations by rule. */
export const ruleMethods: MethodTable<SyncRulesApi, DestinationParts> = {
  putRule: ({ rules }, ...given) => rules.put(...given),
  previewRule: ({ rules }, ...given) => rules.preview(...given),
  readRule: ({ rules }, name) => rules.read(name),
  ruleNames: ({ record, rules }) => (record.row() ? ok(rules.names()) : refuse("missing")),
  ruleMatches: ({ rules }, ...given) => rules.matches(...given),
  confirmRule: ({ rules }, ...given) => rules.confirm(...given),
  deleteRule: ({ rules }, ...given) => rules.delete(...given),
  setSelected: ({ selection }, ...given) => selection.set(...given),
  matching: ({ ruleWork }, ...given) => ruleWork.matching(...given),
};

/** RPC methods about the adoption of existing objects. */
export const adoptionMethods: MethodTable<SyncAdoptionApi, DestinationParts> = {
  previewAdoptions: sealed(({ adoptions }, given) => adoptions.preview(given)),
  adopt: ({ adoptions }, given) => adoptions.adopt(given),
};
