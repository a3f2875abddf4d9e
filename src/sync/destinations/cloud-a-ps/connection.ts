import * as z from "zod";
import { accountFields, checkAccount, text } from "../cloud-a-sm/connection.ts";
import { connectionSchema } from "../fields.ts";

const tiers = ["Standard", "Advanced", "Intelligent-Tiering"] as const;

/** PutParameter, KeyId and Tier (API version 2014-11-06). */
export const parameterConnection = connectionSchema(
  () => ({
    ...accountFields(),
    kms_key_id: text(/^[\w/:-]{1,256}$/, "must be an encryption key's ARN, id or alias, such as alias/my-key"),
    tier: z.enum(["", ...tiers], `must be one of ${tiers.join(", ")}`).optional(),
  }),
  checkAccount,
);
export type ParameterConnection = z.infer<ReturnType<typeof parameterConnection>>;
