import type { Severity } from "../../../contracts/notification-rule.ts";
import { cut, json, type MessageFormat } from "./message-format.ts";

/*
 * Webhooks of Teams Workflows: a message with one Adaptive Card, 28 KB at most
 * (https://adaptivecards.io/explorer/AdaptiveCard.html,
 * https://learn.microsoft.com/microsoftteams/platform/webhooks-and-connectors/how-to/connectors-using; read on 2026-11-28).
 */

const MAX_TITLE = 300;
const MAX_TEXT = 3_000;

const COLORS: Readonly<Record<Severity, string>> = {
  critical: "Attention",
  error: "Attention",
  warning: "Warning",
  info: "Accent",
};

export const teams: MessageFormat = {
  label: "Microsoft Teams",
  url: null,
  secret: null,
  options: [],
  request: ({ url, notification: { Title, Text, Status, Severity, Rule, Time } }) => {
    const block = (text: string, more: object = {}) => ({ type: "TextBlock", text, wrap: true, ...more });
    const color = Status === "resolved" ? "Good" : COLORS[Severity];
    const body = [
      block(cut(Title, MAX_TITLE), { size: "Large", weight: "Bolder", color }),
      // One line feed is a space in a card's Markdown.
      ...(Text === "" ? [] : [block(cut(Text.replaceAll("\n", "\n\n"), MAX_TEXT))]),
      block(`${Status} · rule ${Rule} · ${Time}`, { isSubtle: true, size: "Small" }),
    ];
    const $schema = "http://adaptivecards.io/schemas/adaptive-card.json";
    const content = { $schema, type: "AdaptiveCard", version: "1.4", body };
    const attachment = { contentType: "application/vnd.microsoft.card.adaptive", contentUrl: null, content };
    return json(url, { type: "message", attachments: [attachment] });
  },
};
