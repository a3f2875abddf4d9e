import * as z from "zod";
import type { CloudAConnection } from "../../../providers/cloud-a-aws/connection.ts";
import { accountFields, checkAccount, text } from "../cloud-a-sm/connection.ts";
import { withoutUnset } from "../fields.ts";

export const tiers = ["Standard", "Advanced", "Intelligent-Tiering"] as const;

export interface ParameterConnection extends CloudAConnection {
  tier?: (typeof tiers)[number];
}

/** PutParameter, KeyId and Tier (API version 2014-11-06). */
export const parameterConnection = () =>
  z
    .object({
      ...accountFields(),
      kms_key_id: text(/^[\w/:-]{1,256}$/, "must be an encryption key's ARN, id or alias, such as alias/my-key"),
      tier: z.enum(["", ...tiers], `must be one of ${tiers.join(", ")}`).optional(),
    })
    .superRefine((given, context) => {
      checkAccount(given, (path, message) => context.addIssue({ code: "custom", path: [path], message }));
    })
    .transform((given): ParameterConnection => withoutUnset(given));
