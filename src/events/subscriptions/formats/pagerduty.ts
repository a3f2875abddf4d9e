import { cut, json, type MessageFormat, subjectLines } from "./message-format.ts";

/*
 * Events API v2: one alert for each `dedup_key`, resolved by the same key
 * (https://developer.pagerduty.com/docs/events-api-v2/trigger-events/, read on 2026-11-28).
 */

const MAX_SUMMARY = 1_024;
const MAX_KEY = 255;

export const pagerduty: MessageFormat = {
  label: "PagerDuty",
  url: "https://events.pagerduty.com/v2/enqueue",
  secret: "integration key",
  options: [],
  request: ({ url, secret, notification }) => {
    const { Title, Text, Status, Severity, Rule, Condition, DedupKey, Time } = notification;
    const about = { routing_key: secret, dedup_key: cut(DedupKey, MAX_KEY) };
    if (Status === "resolved") return json(url, { ...about, event_action: "resolve" });
    return json(url, {
      ...about,
      event_action: "trigger",
      client: "Sallyport",
      payload: {
        summary: cut(Title, MAX_SUMMARY),
        source: "sallyport",
        severity: Severity,
        timestamp: Time,
        group: Rule,
        class: Condition,
        custom_details: { text: Text, subjects: subjectLines(notification) },
      },
    });
  },
};
