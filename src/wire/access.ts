import * as z from "zod";
import { anything, seconds } from "./shapes.ts";

/** Rights of a token, and settings of quotas, as the secrets API answers them. */

const names = z.array(z.string());
const values = z.record(z.string(), z.array(anything));

/** Merged path rules in upstream's shape; a constraint that a rule does not have is absent. */
export const Rules = z.record(
  z.string(),
  z.object({
    capabilities: names,
    allowed_parameters: values.optional(),
    denied_parameters: values.optional(),
    required_parameters: names.optional(),
    subscribe_event_types: names.optional(),
    min_wrapping_ttl: seconds.optional(),
    max_wrapping_ttl: seconds.optional(),
    pagination_limit: z.number().optional(),
  }),
);

export const QuotasSettings = z.object({
  enable_rate_limit_response_headers: z.boolean(),
  enable_rate_limit_audit_logging: z.literal(false),
  /** Paths in the root namespace that no quota counts; a final `*` makes a prefix. */
  rate_limit_exempt_paths: names,
  /** Like these, from the root: with their namespace. */
  absolute_rate_limit_exempt_paths: names,
});
