import type { Severity } from "../../../contracts/notification-rule.ts";
import { cut, json, type MessageFormat, subjectLines } from "./message-format.ts";

/*
 * Alert API of Opsgenie, and of Jira Service Management, which continues it under another address: one alert for each
 * alias, closed by it (https://docs.opsgenie.com/docs/alert-api, read on 2026-11-28).
 */

const MAX_MESSAGE = 130;
const MAX_ALIAS = 512;
const MAX_DESCRIPTION = 15_000;
const MAX_DETAIL = 8_000;

const PRIORITIES: Readonly<Record<Severity, string>> = { critical: "P1", error: "P2", warning: "P3", info: "P5" };

export const opsgenie: MessageFormat = {
  label: "Opsgenie",
  url: "https://api.opsgenie.com/v2/alerts",
  secret: "API key of an integration",
  options: [],
  request: ({ url, secret, notification }) => {
    const { Title, Text, Status, Severity, Rule, Condition, DedupKey } = notification;
    const headers = { Authorization: `GenieKey ${secret}` };
    // It is a segment of a path, where servers differ on encoded slashes.
    const alias = cut(DedupKey.replaceAll("/", ":"), MAX_ALIAS);
    if (Status === "resolved") {
      const close = `${url}/${encodeURIComponent(alias)}/close?identifierType=alias`;
      return json(close, { source: "sallyport", note: cut(Title, MAX_MESSAGE) }, headers);
    }
    const details = {
      rule: Rule,
      condition: Condition,
      subjects: cut(subjectLines(notification).join("\n"), MAX_DETAIL),
    };
    const description = cut(Text, MAX_DESCRIPTION);
    const body = {
      message: cut(Title, MAX_MESSAGE),
      alias,
      description,
      priority: PRIORITIES[Severity],
      source: "sallyport",
    };
    return json(url, { ...body, details }, headers);
  },
};
