import * as z from "zod";
import type { MessageType } from "../../../contracts/event-subscription.ts";
import type { Notification } from "../../../contracts/notification-rule.ts";
import { mailgun, postmark, sendgrid } from "./mail.ts";
import type { MessageFormat } from "./message-format.ts";
import { opsgenie } from "./opsgenie.ts";
import { pagerduty } from "./pagerduty.ts";
import { slack } from "./slack.ts";
import { teams } from "./teams.ts";

/** The services that take messages. */
export const formats: Readonly<Record<MessageType, MessageFormat>> = {
  slack,
  teams,
  pagerduty,
  opsgenie,
  sendgrid,
  mailgun,
  postmark,
};

export const isMessageType = (type: string | undefined): type is MessageType =>
  type !== undefined && Object.hasOwn(formats, type);

const Body = z.object({
  Lines: z.tuple([z.object({ Events: z.tuple([z.object({ Payload: z.object({ Notification: z.unknown() }) })]) })]),
});

/** The notification of a batch, which has one line; null when its payload was dropped. */
export function notificationIn(body: string): Notification | null {
  const parsed = Body.safeParse(JSON.parse(body));
  return parsed.success ? (parsed.data.Lines[0].Events[0].Payload.Notification as Notification) : null;
}
