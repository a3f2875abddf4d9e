import * as z from "zod";
import type { Judge } from "./judge.ts";

/*
 * Events API v2 of PagerDuty by its published schema (https://github.com/PagerDuty/api-schema, reference/events-v2), with
 * the limits of its documentation; closed, so that unknown fields are refused.
 */

const about = {
  routing_key: z.string().regex(/^[a-zA-Z0-9]{32}$/),
  dedup_key: z.string().min(1).max(255),
};

const Event = z.discriminatedUnion("event_action", [
  z.strictObject({
    ...about,
    event_action: z.literal("trigger"),
    client: z.string().optional(),
    payload: z.strictObject({
      summary: z.string().min(1).max(1_024),
      source: z.string().min(1),
      severity: z.enum(["critical", "error", "warning", "info"]),
      timestamp: z.iso.datetime().optional(),
      component: z.string().optional(),
      group: z.string().optional(),
      class: z.string().optional(),
      custom_details: z.record(z.string(), z.unknown()).optional(),
    }),
  }),
  z.strictObject({ ...about, event_action: z.enum(["resolve", "acknowledge"]) }),
]);

export const pagerduty: Judge = {
  answer: { status: 202, body: '{"status":"success","message":"Event processed"}' },
  faultOf: ({ path, headers, json }) => {
    if (path !== "/v2/enqueue") return { status: 404, body: "not found" };
    if (headers["content-type"] !== "application/json") return { status: 415, body: "content-type" };
    const parsed = Event.safeParse(json);
    return parsed.success ? null : { status: 400, body: parsed.error.message };
  },
};
