import * as z from "zod";
import type { Judge } from "./judge.ts";

/*
 * Services that send e-mail, by their published documents: https://github.com/twilio/sendgrid-oai (spec/json/tsg_mail_v3.json),
 * https://postmarkapp.com/developer/api/email-api,
 * https://documentation.mailgun.com/docs/mailgun/api-reference/send/mailgun/messages. Closed.
 */

const Address = z.strictObject({ email: z.email(), name: z.string().optional() });

const SendGrid = z.strictObject({
  personalizations: z
    .array(
      z.strictObject({
        to: z
          .array(Address)
          .min(1)
          .refine((all) => new Set(all.map(({ email }) => email)).size === all.length, "each address once"),
      }),
    )
    .min(1)
    .max(1_000),
  from: Address,
  subject: z.string().min(1),
  content: z.array(z.strictObject({ type: z.literal("text/plain"), value: z.string().min(1) })).min(1),
});

export const sendgrid: Judge = {
  answer: { status: 202, body: "" },
  faultOf: ({ path, headers, json }) => {
    if (path !== "/v3/mail/send") return { status: 404, body: "not found" };
    if (headers["authorization"] !== "Bearer SG.key") return { status: 401, body: "key" };
    const parsed = SendGrid.safeParse(json);
    return parsed.success ? null : { status: 400, body: parsed.error.message };
  },
};

const Postmark = z.strictObject({
  From: z.email(),
  To: z.string().refine((to) => {
    const all = to.split(",").map((each) => each.trim());
    return all.length <= 50 && all.every((each) => z.email().safeParse(each).success);
  }),
  Subject: z.string().min(1).max(2_000).regex(/^.*$/, "one line"),
  TextBody: z.string().min(1),
  MessageStream: z.string(),
});

export const postmark: Judge = {
  answer: { status: 200, body: '{"ErrorCode":0,"Message":"OK"}' },
  faultOf: ({ path, headers, json }) => {
    if (path !== "/email") return { status: 404, body: "not found" };
    if (headers["x-postmark-server-token"] !== "pm-token") return { status: 401, body: "token" };
    if (headers["accept"] !== "application/json") return { status: 406, body: "accept" };
    const parsed = Postmark.safeParse(json);
    return parsed.success ? null : { status: 422, body: parsed.error.message };
  },
};

const Mailgun = z.strictObject({
  from: z.email(),
  to: z.string().refine((to) => to.split(",").every((each) => z.email().safeParse(each).success)),
  subject: z.string().min(1).regex(/^.*$/, "one line"),
  text: z.string().min(1),
});

export const mailgun: Judge = {
  answer: { status: 200, body: '{"id":"<1@mail.example>","message":"Queued. Thank you."}' },
  faultOf: ({ path, headers, text }) => {
    if (path !== "/v3/mail.example/messages") return { status: 404, body: "not found" };
    if (headers["authorization"] !== `Basic ${Buffer.from("api:mg-key").toString("base64")}`)
      return { status: 401, body: "Forbidden" };
    if (headers["content-type"] !== "application/x-www-form-urlencoded") return { status: 400, body: "content-type" };
    const parsed = Mailgun.safeParse(Object.fromEntries(new URLSearchParams(text)));
    return parsed.success ? null : { status: 400, body: parsed.error.message };
  },
};
