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

export const Quota = z.object({
  name: z.string(),
  type: z.literal("rate-limit"),
  /** From the root: empty for every request, a namespace, a mount, or a path in a mount, with a final `*` or without. */
  path: z.string(),
  role: z.literal(""),
  /** Requests in each interval. */
  rate: z.number(),
  interval: seconds,
  /** How long a client that was refused stays refused; 0 = until the interval ends. */
  block_interval: seconds,
  /** Whether a quota of a namespace counts for the namespaces below it. */
  inheritable: z.boolean(),
  /** Which requests share one counter: those of one address, or all. */
  group_by: z.enum(["ip", "none"]),
  secondary_rate: z.literal(0),
});

export const QuotasSettings = z.object({
  enable_rate_limit_response_headers: z.boolean(),
  enable_rate_limit_audit_logging: z.literal(false),
  /** Paths in the root namespace that no quota counts; a final `*` makes a prefix. */
  rate_limit_exempt_paths: names,
  /** Like these, from the root: with their namespace. */
  absolute_rate_limit_exempt_paths: names,
});
