import * as z from "zod";
import type { Judge } from "./judge.ts";

/*
 * Webhooks of Teams Workflows, stricter than the service: the objects of the published schema of Adaptive Cards 1.4
 * (http://adaptivecards.io/schemas/adaptive-card.json) that a notification needs, closed.
 */

const TextBlock = z.strictObject({
  type: z.literal("TextBlock"),
  text: z.string().min(1),
  wrap: z.boolean().optional(),
  size: z.enum(["Default", "Small", "Medium", "Large", "ExtraLarge"]).optional(),
  weight: z.enum(["Default", "Lighter", "Bolder"]).optional(),
  color: z.enum(["Default", "Dark", "Light", "Accent", "Good", "Warning", "Attention"]).optional(),
  isSubtle: z.boolean().optional(),
});

const Message = z.strictObject({
  type: z.literal("message"),
  attachments: z.tuple([
    z.strictObject({
      contentType: z.literal("application/vnd.microsoft.card.adaptive"),
      contentUrl: z.null(),
      content: z.strictObject({
        $schema: z.url(),
        type: z.literal("AdaptiveCard"),
        version: z.literal("1.4"),
        body: z.array(TextBlock).min(1),
      }),
    }),
  ]),
});

const MAX_BYTES = 28 * 1024;

export const teams: Judge = {
  answer: { status: 202, body: "" },
  faultOf: ({ headers, text, json }) => {
    if (headers["content-type"] !== "application/json") return { status: 400, body: "content-type" };
    if (Buffer.byteLength(text) > MAX_BYTES) return { status: 413, body: "too large" };
    const parsed = Message.safeParse(json);
    return parsed.success ? null : { status: 400, body: parsed.error.message };
  },
};
