import * as z from "zod";
import { time } from "./shapes.ts";
import { SYNC_STATUSES } from "./sync-status.ts";

/** Objects of associations, and plans of changes to them, as secret sync answers them. */

export const status = z.enum(SYNC_STATUSES);

export const explanation = {
  origins: z.array(z.string()).optional().describe("`manual` and `rule:<name>`; absent without a rule."),
  error_code: z.string().optional(),
  error_message: z.string().optional(),
  /** Explains a success without a push, such as an object left alone by `if-not-exists`, or an owed clean-up. */
  note: z.string().optional(),
  synced_version: z.int().optional(),
  attempts: z.int().optional(),
  next_attempt_at: time.optional(),
  retried_until: time
    .optional()
    .describe("Until when a refusal of fresh rights is retried; absent for other failures."),
};

/** One object of an association. */
export const Association = z
  .object({
    accessor: z.string().describe("The mount's."),
    secret_name: z.string(),
    sub_key: z.string().optional().describe("With granularity `secret-key`: which of the secret's keys."),
    external_name: z.string(),
    sync_status: status,
    updated_at: time,
    ...explanation,
  })
  .meta({ id: "Association" });

/** Preview of a change to one remote object. */
export const Planned = z
  .object({
    association: z.string(),
    sub_key: z.string().optional(),
    external_name: z.string(),
    action: z.enum(["create", "update", "delete", "retain", "hold", "refuse"]),
    reason: z.string().optional(),
    outside: z
      .enum(["absent", "ours", "foreign", "present", "unreadable"])
      .optional()
      .describe("State of the object at the provider."),
  })
  .meta({ id: "PlannedObject" });

export const Config = z.object({ disabled: z.boolean(), queue_capacity: z.int() }).meta({ id: "SyncConfig" });

/** One secret of a rule. */
export const RuleMatch = z.object({
  secret_name: z.string(),
  state: z.enum(["set", "waiting", "refused", "removing"]),
  reason: z.string().optional(),
});
