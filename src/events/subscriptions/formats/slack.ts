import type { Severity } from "../../../contracts/notification-rule.ts";
import { cut, json, type MessageFormat } from "./message-format.ts";

/*
 * Incoming webhooks with Block Kit: a header of at most 150 characters and sections of at most 3 000
 * (https://docs.slack.dev/reference/block-kit/blocks/header-block, section-block; read on 2026-11-28).
 */

const MAX_HEADER = 150;
const MAX_SECTION = 3_000;

const MARKS: Readonly<Record<Severity, string>> = {
  critical: ":red_circle:",
  error: ":red_circle:",
  warning: ":large_orange_circle:",
  info: ":large_blue_circle:",
};

/** The three characters that the markup reserves (https://docs.slack.dev/messaging/formatting-message-text). */
const escaped = (text: string): string => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

/** At most `most` characters, with no entity cut in two. */
const section = (text: string): string => cut(escaped(text), MAX_SECTION).replace(/&[a-z]{0,3}…$/, "…");

export const slack: MessageFormat = {
  label: "Slack",
  url: null,
  secret: null,
  options: [],
  request: ({ url, notification: { Title, Text, Status, Severity, Rule, Time } }) => {
    const mark = Status === "resolved" ? ":white_check_mark:" : MARKS[Severity];
    const about = `${mark} ${Status} · rule ${Rule} · ${Time}`;
    return json(url, {
      // Shown in notifications of the client.
      text: section(Title),
      blocks: [
        { type: "header", text: { type: "plain_text", text: cut(Title, MAX_HEADER) } },
        ...(Text === "" ? [] : [{ type: "section", text: { type: "mrkdwn", text: section(Text) } }]),
        { type: "context", elements: [{ type: "mrkdwn", text: section(about) }] },
      ],
    });
  },
};
