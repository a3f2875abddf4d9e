import { clusterHeader, requestHeader } from "../compat/dialect.ts";
import { count, flag, type Parameters, required, text } from "./operation.ts";

/** Parameters shared by many operations. */

export const namespace: Parameters = {
  namespace: { description: "The namespace.", schema: { type: "string", default: "default" } },
};
/** Of lists over one or all namespaces. */
export const namespaces: Parameters = {
  namespace: { description: "The namespace; `*` means all.", schema: { type: "string", default: "default" } },
};

/** Of blocking reads. */
export const waiting: Parameters = {
  index: count("Wait until the answer's index is greater than this; 0 does not wait."),
  wait: text("How long to wait at most, a Go duration such as `30s`; 5 minutes by default and at most."),
  stale: flag("Accepted without effect: every read is consistent."),
};

/** Of paged lists. */
export const page: Parameters = {
  per_page: count("Rows to a page; 0 is all of them."),
  next_token: text(`Where the page begins: the value of ${clusterHeader.nextToken[0]} of the page before.`),
};
export const filter: Parameters = {
  filter: text(
    'An expression over the fields of the stored record, such as `Name contains "db"` (docs/reference/reads.md).',
  ),
};
export const prefix: Parameters = { prefix: text("Only what begins with this.") };
export const reverse: Parameters = { reverse: flag("Last rows first.") };

/** Of lists read from one table. */
const paged: Parameters = { ...page, ...filter, ...reverse };
/** Of lists that require paging. */
export const mustPage: Parameters = {
  per_page: required(count("Rows to a page; 0 is all of them.")),
  next_token: text("Where the page begins: `NextToken` of the page before."),
};
export const list: Parameters = { ...paged, ...waiting };

/** Secrets for volume plugins. */
export const csiSecrets: Parameters = {
  [requestHeader.csiSecrets[0]]: text("Secrets for the plugin, `key=value,key2=value2`; they win over stored ones."),
};
