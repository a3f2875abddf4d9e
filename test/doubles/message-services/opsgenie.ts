import * as z from "zod";
import type { Judge } from "./judge.ts";

/*
 * Alert API of Opsgenie by the requests of its SDK (https://github.com/opsgenie/opsgenie-go-sdk-v2, alert/) with the limits
 * of https://docs.opsgenie.com/docs/alerts-and-alert-fields; closed.
 */

const Create = z.strictObject({
  message: z.string().min(1).max(130),
  alias: z.string().min(1).max(512),
  description: z.string().max(15_000),
  priority: z.enum(["P1", "P2", "P3", "P4", "P5"]),
  source: z.string().max(100),
  details: z.record(z.string(), z.string()),
});
const Close = z.strictObject({ source: z.string().max(100), note: z.string().max(25_000) });

const CLOSE = /^\/v2\/alerts\/[^/?]+\/close\?identifierType=alias$/;

export const opsgenie: Judge = {
  answer: { status: 202, body: '{"result":"Request will be processed"}' },
  faultOf: ({ path, headers, json }) => {
    if (headers["authorization"] !== "GenieKey og-key") return { status: 401, body: "key" };
    if (headers["content-type"] !== "application/json") return { status: 415, body: "content-type" };
    if (path !== "/v2/alerts" && !CLOSE.test(path)) return { status: 404, body: "not found" };
    const parsed = (path === "/v2/alerts" ? Create : Close).safeParse(json);
    return parsed.success ? null : { status: 422, body: parsed.error.message };
  },
};
