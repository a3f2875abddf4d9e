import type { ActiveAlert } from "../../contracts/notification-rule.ts";
import { notFound, unwrap } from "../../platform/http/errors.ts";
import { eventLog } from "../../rpc/stubs.ts";
import { envelope, keyList, noContent } from "../server/respond.ts";
import { secrets } from "../server/route.ts";
import { RuleBody, ruleJson, ruleOf, timeOf } from "./bodies.ts";
import { channelRoutes, nameOf } from "./channels.ts";

/** Notification rules, their channels, and what they have found (docs/guides/notifications.md). Root namespace only. */

const activeJson = ({ rule, condition, severity, subject, state, since, notified, detail }: ActiveAlert) => ({
  rule,
  condition,
  severity,
  subject,
  detail,
  state,
  since: timeOf(since),
  notified: timeOf(notified),
});

const ONE = "/sys/notifications/rules/:name";

export const sysNotificationRoutes = [
  ...channelRoutes,
  secrets("LIST /sys/notifications/rules", { fresh: true }, async (call) => {
    const rules = await eventLog(call.env).notificationRules();
    const key_info = Object.fromEntries(rules.map((rule) => [rule.name, ruleJson(rule.name, rule)]));
    return keyList(
      call,
      rules.map(({ name }) => name),
      { key_info },
    );
  }),
  secrets(`GET ${ONE}`, { fresh: true }, async (call) => {
    const name = nameOf(call);
    const rule = (await eventLog(call.env).notificationRules()).find((each) => each.name === name);
    if (!rule) throw notFound();
    return envelope(call, { data: ruleJson(name, rule) });
  }),
  secrets(`POST ${ONE}`, { fresh: true, body: RuleBody }, async (call, body) => {
    unwrap(await eventLog(call.env).writeNotificationRule(nameOf(call), ruleOf(body)));
    return noContent();
  }),
  secrets(`DELETE ${ONE}`, { fresh: true }, async (call) => {
    await eventLog(call.env).deleteNotificationRule(nameOf(call));
    return noContent();
  }),
  secrets("GET /sys/notifications/active", { fresh: true }, async (call) => {
    const { alerts, evaluatedAt, error } = await eventLog(call.env).alerts();
    return envelope(call, { data: { active: alerts.map(activeJson), evaluated_at: timeOf(evaluatedAt), error } });
  }),
];
