import * as z from "zod";
import { MESSAGE_TYPES } from "../../contracts/event-subscription.ts";
import { CONDITIONS, type NotificationRule, SEVERITIES } from "../../contracts/notification-rule.ts";
import { conditions } from "../../events/alerts/conditions.ts";
import { unknownSlot } from "../../events/alerts/message.ts";
import { isTimeZone } from "../../events/alerts/quiet-hours.ts";
import { badRequest } from "../../platform/http/errors.ts";
import { duration, echoed, flag, integer, stringList } from "../../platform/http/fields.ts";

/** Names of channels and rules. */
export const NAME = /^[a-zA-Z0-9_-]{1,64}$/;
/** Standard Webhooks: 24 to 64 bytes, in base64. */
export const WEBHOOK_SECRET = /^whsec_(?=.{32,88}$)(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;
const MAX_CHANNELS = 10;
const MAX_SUBJECTS = 100;
const MAX_NAME = 512;
const MAX_TITLE = 300;
const MAX_TEXT = 3_000;
const MAX_URL = 2_048;
const MAX_SECRET = 512;
const MAX_RECEIVERS = 50;
const DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"] as const;

export const CHANNEL_TYPES = ["webhook", ...MESSAGE_TYPES] as const;

/** One address without a name; no comma, since lists are joined by it. */
const address = z
  .string()
  .max(254)
  .regex(/^[^\s@,<>"]+@[^\s@,<>"]+\.[^\s@,<>"]+$/, "must be an e-mail address");

export const ChannelBody = z.object({
  type: z.enum(CHANNEL_TYPES, `must be one of ${CHANNEL_TYPES.join(", ")}`),
  url: z.string().max(MAX_URL).optional(),
  secret: z.string().max(MAX_SECRET).optional(),
  from: address.optional(),
  to: stringList()
    .pipe(z.array(address).min(1, "must name a receiver").max(MAX_RECEIVERS, `at most ${MAX_RECEIVERS}`))
    .optional(),
  ...echoed("name", "paused", "attempts", "last_error", "retry_at", "dead_letters", "delivered_index"),
});

const template = (most: number) =>
  z
    .string()
    .max(most)
    .superRefine((text, context) => {
      const unknown = unknownSlot(text);
      if (unknown !== null) context.addIssue({ code: "custom", message: `{{${unknown.slice(0, 40)}}} is unknown` });
    })
    .default("");

const clock = z.string().regex(/^(?:[01]\d|2[0-3]):[0-5]\d$/, "must be a time such as 22:00");

export const RuleBody = z.object({
  condition: z.enum(CONDITIONS, `must be one of ${CONDITIONS.join(", ")}`),
  channels: stringList().pipe(
    z
      .array(z.string().regex(NAME, "must be names of channels"))
      .min(1, "must name a channel")
      .max(MAX_CHANNELS, `at most ${MAX_CHANNELS}`),
  ),
  subjects: stringList()
    .pipe(z.array(z.string().max(MAX_NAME)).max(MAX_SUBJECTS, `at most ${MAX_SUBJECTS}`))
    .default([]),
  for: duration().default(0),
  within: duration().optional(),
  percent: integer().min(1).pipe(z.number().max(100)).optional(),
  severity: z.enum(SEVERITIES, `must be one of ${SEVERITIES.join(", ")}`).default("warning"),
  group_by: z.enum(["rule", "subject"], "must be rule or subject").default("rule"),
  repeat: duration().default(0),
  recovery: flag().default(true),
  quiet_hours: z
    .object({
      from: clock,
      to: clock,
      days: stringList()
        .pipe(z.array(z.enum(DAYS, `must be some of ${DAYS.join(", ")}`)))
        .default([]),
      time_zone: z.string().max(64).refine(isTimeZone, "must be a name of the IANA database").default("UTC"),
    })
    .nullish(),
  title: template(MAX_TITLE),
  text: template(MAX_TEXT),
  ...echoed("name"),
});

/** The rule that a body describes. @throws RequestError 400 for a limit that its condition does not have */
export function ruleOf(body: z.output<typeof RuleBody>): NotificationRule {
  const { limits } = conditions[body.condition];
  if (body.within !== undefined && limits.withinSeconds === undefined)
    throw badRequest(`within: has no effect with the condition ${body.condition}`);
  if (body.percent !== undefined && limits.percent === undefined)
    throw badRequest(`percent: has no effect with the condition ${body.condition}`);
  const quiet = body.quiet_hours;
  return {
    condition: body.condition,
    subjects: body.subjects,
    forSeconds: body.for,
    withinSeconds: body.within ?? limits.withinSeconds ?? null,
    percent: body.percent ?? limits.percent ?? null,
    severity: body.severity,
    channels: [...new Set(body.channels)],
    groupBy: body.group_by,
    repeatSeconds: body.repeat,
    recovery: body.recovery,
    quiet: quiet
      ? {
          from: quiet.from,
          to: quiet.to,
          days: DAYS.flatMap((day, number) => (quiet.days.includes(day) ? [number] : [])),
          timeZone: quiet.time_zone,
        }
      : null,
    title: body.title,
    text: body.text,
  };
}

/** A time in an answer; null for none. @param ms since 1970 */
export const timeOf = (ms: number | null): string | null => (ms === null ? null : new Date(ms).toISOString());

/** A rule in the form of its body, with its name. */
export const ruleJson = (name: string, rule: NotificationRule) => ({
  name,
  condition: rule.condition,
  channels: rule.channels,
  subjects: rule.subjects,
  for: rule.forSeconds,
  ...(rule.withinSeconds !== null && { within: rule.withinSeconds }),
  ...(rule.percent !== null && { percent: rule.percent }),
  severity: rule.severity,
  group_by: rule.groupBy,
  repeat: rule.repeatSeconds,
  recovery: rule.recovery,
  quiet_hours: rule.quiet && {
    from: rule.quiet.from,
    to: rule.quiet.to,
    days: rule.quiet.days.map((number) => DAYS[number]),
    time_zone: rule.quiet.timeZone,
  },
  title: rule.title,
  text: rule.text,
});
