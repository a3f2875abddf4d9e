import type { Notification } from "../../../contracts/notification-rule.ts";
import { json, type MessageFormat } from "./message-format.ts";

/*
 * E-mail by the HTTP APIs of three services, as plain text: https://www.twilio.com/docs/sendgrid/api-reference/mail-send,
 * https://documentation.mailgun.com/docs/mailgun/api-reference/send/mailgun/messages,
 * https://postmarkapp.com/developer/api/email-api (read on 2026-11-28).
 */

const OPTIONS = ["from", "to"] as const;

/** A subject has one line. */
const subjectOf = ({ Title }: Notification): string => `[Sallyport] ${Title.replace(/\s+/g, " ")}`;

const textOf = ({ Title, Text, Status, Severity, Rule, Time }: Notification): string =>
  [Title, "", Text, "", `${Status}, ${Severity}, rule ${Rule}, ${Time}`].join("\n");

const receivers = (to = ""): string[] => to.split(",");

export const sendgrid: MessageFormat = {
  label: "SendGrid",
  url: "https://api.sendgrid.com/v3/mail/send",
  secret: "API key",
  options: OPTIONS,
  request: ({ url, secret, options, notification }) =>
    json(
      url,
      {
        personalizations: [{ to: receivers(options["to"]).map((email) => ({ email })) }],
        from: { email: options["from"] },
        subject: subjectOf(notification),
        content: [{ type: "text/plain", value: textOf(notification) }],
      },
      { Authorization: `Bearer ${secret}` },
    ),
};

export const postmark: MessageFormat = {
  label: "Postmark",
  url: "https://api.postmarkapp.com/email",
  secret: "server token",
  options: OPTIONS,
  request: ({ url, secret, options, notification }) =>
    json(
      url,
      {
        From: options["from"],
        To: receivers(options["to"]).join(", "),
        Subject: subjectOf(notification),
        TextBody: textOf(notification),
        MessageStream: "outbound",
      },
      { Accept: "application/json", "X-Postmark-Server-Token": secret ?? "" },
    ),
};

export const mailgun: MessageFormat = {
  label: "Mailgun",
  // It names the domain: https://api.mailgun.net/v3/DOMAIN/messages.
  url: null,
  secret: "sending key",
  options: OPTIONS,
  request: ({ url, secret, options, notification }) => ({
    url,
    headers: {
      Authorization: `Basic ${Buffer.from(`api:${secret}`).toString("base64")}`,
      "Content-Type": "application/x-www-form-urlencoded",
    },
    body: new URLSearchParams({
      from: options["from"] ?? "",
      to: receivers(options["to"]).join(","),
      subject: subjectOf(notification),
      text: textOf(notification),
    }).toString(),
  }),
};
