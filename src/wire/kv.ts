import * as z from "zod";
import { texts, time, timeOrEmpty } from "./shapes.ts";

/** The `metadata` of answers about one version. */
export const Version = z
  .object({
    created_time: time,
    custom_metadata: texts.nullable(),
    deletion_time: timeOrEmpty,
    destroyed: z.boolean(),
    version: z.int(),
  })
  .meta({ id: "SecretVersion" });

/** As Vault's version attribution. */
export const Attribution = z.object({
  actor: z.string().describe("The display name of the token."),
  operation: z.enum(["create", "update", "patch", "delete", "destroy"]),
  entity_id: z.string().describe("Empty without an entity."),
  /** The entity; empty for a token without one. */
  client_id: z.string(),
});
