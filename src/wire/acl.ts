import * as z from "zod";
import { index, time, timeOrNull } from "./shapes.ts";

/** Tokens, roles, binding rules and policies of the cluster API (https://developer.hashicorp.com/nomad/api-docs/acl). */

/** Of answers; null before the object's first event. */
export const indexes = { CreateIndex: index.nullable(), ModifyIndex: index.nullable() };

export const AclRole = z
  .object({
    ID: z.string(),
    Name: z.string(),
    Description: z.string(),
    Policies: z.array(z.object({ Name: z.string() })),
    Hash: z.string(),
    ...indexes,
  })
  .meta({ id: "AclRole", description: "Tokens that name the role hold its policies." });

export const AclToken = z
  .object({
    AccessorID: z.string(),
    ...indexes,
    CreateTime: time,
    ExpirationTime: timeOrNull,
    Global: z.boolean(),
    Hash: z.string(),
    Name: z.string(),
    Policies: z.array(z.string()).nullable().describe("Null for a management token."),
    Roles: z.array(z.object({ ID: z.string(), Name: z.string() })).describe("Those that exist."),
    Type: z.enum(["client", "management"]),
    ExpirationTTL: z.string().describe("A Go duration; empty for never."),
    SecretID: z
      .string()
      .describe(
        "The token: in the answer that makes it and in reads by the token itself; for management also in reads in the upstream dialect. Empty elsewhere.",
      ),
  })
  .meta({ id: "AclToken" });

export const BindingRule = z
  .object({
    ID: z.string(),
    Description: z.string(),
    AuthMethod: z.string(),
    Hash: z.string(),
    Selector: z.string().describe("A filter over `value` and `list`; empty selects every caller."),
    BindType: z.enum(["role", "policy", "management"]),
    BindName: z.string(),
    CreateTime: time,
    ModifyTime: time,
    ...indexes,
  })
  .meta({ id: "AclBindingRule", description: "The rights that callers of an auth method get." });

/** The job, group or task that a policy is attached to. */
export const JobAcl = z
  .object({ Namespace: z.string(), JobID: z.string(), Group: z.string(), Task: z.string() })
  .meta({ id: "JobAcl", description: "Stored and returned; has no effect." });

/** As its creator gets it. */
export const OneTimeToken = z.object({
  OneTimeSecretID: z.string(),
  AccessorID: z.string(),
  ExpiresAt: time,
  CreateIndex: index,
  ModifyIndex: index,
});

/** A policy in lists, without its rules. */
export const AclPolicyStub = z.object({
  ...indexes,
  Description: z.string(),
  Hash: z.string(),
  JobACL: JobAcl.nullable(),
  Name: z.string(),
});
