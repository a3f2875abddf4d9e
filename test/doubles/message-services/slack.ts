import * as z from "zod";
import type { Judge } from "./judge.ts";

/*
 * Incoming webhooks of Slack, stricter than the service: every object is closed, and has the limits of the reference of
 * Block Kit (https://docs.slack.dev/reference/block-kit/blocks, https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks).
 */

const plainText = (most: number) =>
  z.strictObject({ type: z.literal("plain_text"), text: z.string().min(1).max(most) });
/** `&`, `<` and `>` are entities, unless they begin a link or mention, which messages here never do. */
const mrkdwn = (most: number) =>
  z.strictObject({
    type: z.literal("mrkdwn"),
    text: z
      .string()
      .min(1)
      .max(most)
      .regex(/^(?:[^<>&]|&(?:amp|lt|gt);)*$/, "has an unescaped control character"),
  });

const Block = z.discriminatedUnion("type", [
  z.strictObject({ type: z.literal("header"), text: plainText(150) }),
  z.strictObject({ type: z.literal("section"), text: mrkdwn(3_000) }),
  z.strictObject({ type: z.literal("context"), elements: z.array(mrkdwn(3_000)).min(1).max(10) }),
]);

const Message = z.strictObject({ text: z.string().min(1).max(40_000), blocks: z.array(Block).min(1).max(50) });

export const slack: Judge = {
  answer: { status: 200, body: "ok" },
  faultOf: ({ headers, path, json }) => {
    if (headers["content-type"] !== "application/json") return { status: 400, body: "invalid_payload" };
    if (!/^\/T[A-Z0-9]+\/B[A-Z0-9]+\/\w+$/.test(path)) return { status: 404, body: "no_service" };
    const parsed = Message.safeParse(json);
    return parsed.success ? null : { status: 400, body: `invalid_blocks ${parsed.error.message}` };
  },
};
